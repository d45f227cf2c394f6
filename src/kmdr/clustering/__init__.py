"""Clustering of reduced data: Lloyd's k-means with the papers' initialisations, and other engines."""
