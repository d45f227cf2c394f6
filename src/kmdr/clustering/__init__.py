"""Clustering of reduced data: Lloyd's k-means with the papers' initialisations, and other engines."""

from kmdr.clustering import coreset, prone, spherical

__all__ = ["coreset", "prone", "spherical"]  # so that these engines are registered
