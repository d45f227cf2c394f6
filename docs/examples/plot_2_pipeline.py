"""
A reducer in a scikit-learn pipeline
====================================

Every reducer is a scikit-learn transformer. Here a sparse embedding halves the number of features before scikit-learn's
own k-means.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from kmdr.metrics import accuracy, objective
from kmdr.reducers import SparseEmbedding

A, labels = load_digits(return_X_y=True)

# %%
# The partition is scored on the original features, so that results with different r can be compared.

sizes = [4, 8, 16, 32]
scores = []
for r in sizes:
    pipeline = make_pipeline(SparseEmbedding(r, random_state=0), KMeans(10, n_init=5, random_state=0))
    partition = pipeline.fit_predict(A)
    scores.append((objective(A, partition), accuracy(labels, partition)))
F, P = np.transpose(scores)
full = KMeans(10, n_init=5, random_state=0).fit_predict(A)

# %%
# With 32 dimensions F is close to that of all 64 features, the dashed line.

figure, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
for ax, values, level, name in zip(
    axes, (F, P), (objective(A, full), accuracy(labels, full)), ("objective F", "accuracy P"), strict=True
):
    ax.plot(sizes, values, marker="o", label="sparse embedding")
    ax.axhline(level, color="black", linestyle="--", label="all features")
    ax.set(xlabel="number of dimensions r", ylabel=name, xticks=sizes)
axes[0].legend()
