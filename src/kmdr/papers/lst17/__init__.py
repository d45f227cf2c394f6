"""lst17: Sparse Embedded k-Means Clustering (NIPS 2017)."""
