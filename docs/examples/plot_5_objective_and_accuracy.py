"""
The best objective is not the best accuracy
===========================================

The objective F rewards compact clusters, the accuracy P rewards agreement with the classes. On the handwritten digits
the two disagree: a partition with a smaller F can have a smaller P.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import kmdr

A, labels = load_digits(return_X_y=True)
rows = kmdr.compare(A, ["none", "variance", "svd"], labels=labels, r_grid=[20], repeats=20, n_init=1)

# %%
# Each point is one run of k-means from one start. Choosing the run with the smallest F does not choose the one with
# the largest P.

full = rows[rows["reducer"] == "none"]
best = full.loc[full["objective"].idxmin()]
figure, axes = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
for reducer, marker in (("none", "o"), ("variance", "^"), ("svd", "s")):
    part = rows[rows["reducer"] == reducer]
    axes.scatter(part["objective"], part["accuracy"], marker=marker, s=18, label=reducer)
axes.scatter(
    best["objective"], best["accuracy"], s=120, facecolors="none", edgecolors="black", label="smallest F, none"
)
axes.set(xlabel="objective F", ylabel="accuracy P")
axes.legend()

print(f"P of the run with the smallest F: {best['accuracy']:.3f}; largest P: {full['accuracy'].max():.3f}")
