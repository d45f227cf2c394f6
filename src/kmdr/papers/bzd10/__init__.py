"""bzd10: Random Projections for k-means Clustering (NIPS 2010)."""
