"""
The best objective is not the best accuracy
===========================================

The objective F rewards compact clusters, the accuracy P rewards agreement with the classes. On the handwritten digits
the two disagree: a partition with a smaller F can have a smaller P.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from kmdr.metrics import accuracy, objective
from kmdr.reducers import Variance

A, labels = load_digits(return_X_y=True)
views = {"all 64 pixels": A, "20 pixels of largest variance": Variance(20).fit_transform(A)}

# %%
# Each point is one run of k-means from one start, scored on all pixels. Choosing the run with the smallest F does not
# choose the one with the largest P.

figure, axes = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
for (name, C), marker in zip(views.items(), "o^", strict=True):
    partitions = [KMeans(10, init="random", n_init=1, random_state=seed).fit_predict(C) for seed in range(25)]
    F = np.array([objective(A, partition) for partition in partitions])
    P = np.array([accuracy(labels, partition) for partition in partitions])
    axes.scatter(F, P, marker=marker, s=18, label=name)
    print(f"{name}: P of the run with the smallest F: {P[F.argmin()]:.3f}; largest P: {P.max():.3f}")
axes.set(xlabel="objective F", ylabel="accuracy P")
axes.legend()
