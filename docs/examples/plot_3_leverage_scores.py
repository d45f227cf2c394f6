"""
Leverage scores of pixels
=========================

The leverage score of a feature measures its weight in the best rank-k approximation of the data. Sampling features in
proportion to these scores is the method of the first paper (NIPS 2009).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kmdr.reducers import LeverageScores, TopLeverageScores

A = load_digits().data
k = 10

# %%
# Leverage scores are squared row norms of the matrix of the top k right singular vectors. They add up to k.

_, _, Vt = np.linalg.svd(A, full_matrices=False)
scores = np.sum(Vt[:k] ** 2, axis=0)
print(round(float(scores.sum()), 6))

# %%
# Pixels that many digits use have large scores; pixels that are always white have none.  Crosses mark the 20 pixels of
# largest score, which ``TopLeverageScores`` selects.

top = np.argsort(-scores)[:20]
C = TopLeverageScores(20, n_clusters=k).fit_transform(A)
assert sorted(map(float, C.sum(axis=0))) == sorted(map(float, A[:, top].sum(axis=0)))

figure, axes = plt.subplots(figsize=(3.6, 3), layout="constrained")
picture = axes.imshow(scores.reshape(8, 8), cmap="Greys")
axes.plot(top % 8, top // 8, "x", color="tab:orange")
axes.set(xticks=[], yticks=[], title="leverage score of each pixel")
figure.colorbar(picture)

# %%
# Sampling draws pixels with replacement and rescales them, so that inner products of points are right on average.

sampled = LeverageScores(2000, n_clusters=k, random_state=0).fit_transform(A)
error = np.linalg.norm(sampled @ sampled.T - A @ A.T) / np.linalg.norm(A @ A.T)
print(f"relative error of all inner products with 2000 draws: {error:.3f}")
