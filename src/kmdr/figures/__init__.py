"""Figures and tables: how they look, and the files that they become."""
