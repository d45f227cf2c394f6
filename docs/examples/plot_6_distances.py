"""
Random projections keep distances
=================================

A random projection to r dimensions keeps the squared distances of all pairs of points within a factor that approaches 1
as r grows, whatever the number of features was. This is why k-means still works on the projected points.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist

from kmdr.reducers import SRHT, RandomSign, SparseEmbedding

# %%
# 200 points with 2000 features around 5 centres.

rng = np.random.default_rng(0)
centres = rng.uniform(0, 2, size=(5, 2000))
A = centres[np.arange(200) % 5] + rng.normal(size=(200, 2000))
exact = pdist(A, "sqeuclidean")

# %%
# The spread of the ratio of squared distances falls as the square root of r, for all three kinds of projection.

sizes = [10, 20, 50, 100, 200, 500]
figure, axes = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
for cls, marker in ((RandomSign, "o"), (SparseEmbedding, "^"), (SRHT, "s")):
    spread = [np.std(pdist(cls(r, random_state=1).fit_transform(A), "sqeuclidean") / exact) for r in sizes]
    axes.loglog(sizes, spread, marker=marker, label=cls.__name__)
axes.loglog(sizes, np.sqrt(2 / np.array(sizes)), color="black", linestyle=":", label="√(2/r)")
axes.set(xlabel="number of dimensions r", ylabel="standard deviation of the ratio")
axes.legend()
