"""Loaders of registered datasets, and generators."""
