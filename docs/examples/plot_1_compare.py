"""
Compare methods on one dataset
==============================

:func:`kmdr.compare` runs several methods from the same initial centres. Here k-means groups the 1797 handwritten digits
of scikit-learn into 10 clusters.
"""

# %%
# The objective F and the accuracy P are computed on all 64 pixels, whatever the number of dimensions r was.

from sklearn.datasets import load_digits

import kmdr

A, labels = load_digits(return_X_y=True)
methods = ["random_sign", "leverage", "variance", "none"]
comparison = kmdr.compare(A, methods, labels=labels, r_grid=[5, 10, 20, 40], repeats=5)
comparison

# %%
# Means with 95 % confidence intervals: the selected pixels of largest variance come close to all features with 20 of
# 64 pixels, while random projections need more dimensions.

figure = comparison.plot(["objective", "accuracy"])
