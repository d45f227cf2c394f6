"""
Compare a class of your own
===========================

Any scikit-learn transformer can take part: give its class, an instance, or its import path. Its ``n_components`` and
``random_state`` are set by each trial.
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.random_projection import SparseRandomProjection

import kmdr

A, labels = load_digits(return_X_y=True)
methods = [PCA(whiten=True), PCA(), SparseRandomProjection(density=1 / 3), "none"]
comparison = kmdr.compare(A, methods, labels=labels, r_grid=[5, 10, 20, 40], repeats=3)

# %%
# Whitening gives all components the same weight. This changes what k-means sees, and with it F and P.

figure = comparison.plot(["objective", "accuracy"])

# %%
# The same in numbers.

comparison.summary().round(3)
