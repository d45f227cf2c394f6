"""bzmd15: Randomized Dimensionality Reduction for k-means Clustering (IEEE Trans. Information Theory, 2015)."""
