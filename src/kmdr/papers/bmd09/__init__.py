"""bmd09: Unsupervised Feature Selection for the k-means Clustering Problem (NIPS 2009)."""
