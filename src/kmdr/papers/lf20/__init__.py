"""lf20: Dimensionality reduction for k-means clustering (course report, in Chinese, 2020)."""
