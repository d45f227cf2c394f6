"""Clustering of what reducers return: Lloyd's k-means with the papers' starts, and other engines."""
