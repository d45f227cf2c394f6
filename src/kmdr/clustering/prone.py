"""k-means by one-dimensional projection: PRONE (Charikar, Henzinger, Hu, Vötsch, Waingarten 2023)."""

from bisect import bisect

import numpy as np

from kmdr.clustering.engines import built_in_engine
from kmdr.clustering.kmeans import Clustering, Protocol, checked_starts
from kmdr.clustering.sums import cluster_sums, compiled_form
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import normalised, row_blocks, scaled_back, squared_frobenius


@built_in_engine("prone")
def prone(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """PRONE: k-means++ on a random line instead of Lloyd; one line per start.

    The points are projected on a Gaussian direction, x = C g with g ~ N(0, I). On the line, k of them become centres by
    k-means++, and each point joins the nearest. The best of ``n_init`` lines by the sum of squares in C is kept. Lloyd
    is not run, so ``max_iter`` and the starting rows have no effect. There are fewer than k clusters if the line has
    fewer than k different points.

    Notes
    -----
    One line takes expected time O(nnz(C) + n log n) for any k, and the expected sum of squares is Õ(k⁴) times the
    smallest possible one, on any input. With ``reducer=none`` this is the paper's algorithm; with another reducer, the
    line is in the space of C and the guarantee holds there.

    References
    ----------
    Charikar, Henzinger, Hu, Vötsch, Waingarten, *Simple, Scalable and Effective Clustering via One-Dimensional
    Projections*, NeurIPS 2023.
    """
    starts = checked_starts(starts, C.shape[0], protocol.max_iter)
    C, e, total = normalised(compiled_form(C))
    best: tuple[float, Dense] | None = None
    for _ in starts:
        g = rng.standard_normal(C.shape[1])
        x = np.concatenate([block @ g for _, block in row_blocks(C)])
        order = np.argsort(x, kind="stable")
        centres = x[order][seed_on_line(x[order], k, rng)]
        labels = np.searchsorted((centres[:-1] + centres[1:]) / 2, x)  # a point halfway belongs to the left centre
        inertia = _sum_of_squares(C, labels, total)
        if best is None or inertia < best[0]:
            best = inertia, labels
    assert best is not None
    return Clustering(best[1].astype(np.int64), scaled_back(best[0], 2 * e), 1, 0)


def seed_on_line(x: Dense, k: int, rng: np.random.Generator) -> Dense:
    """Return the positions of up to k centres among sorted points on a line, drawn by k-means++ (D² sampling).

    A new centre is nearest to one interval of the points. Only their squared distances change, in the leaves of a
    binary tree of sums, from which the next centre is drawn in O(log n). A point changes its nearest centre O(log n)
    times in expectation, so the time is O(n log n) for any k.

    Parameters
    ----------
    x : (n,) ndarray of float64
        In ascending order.

    Returns
    -------
    (j,) ndarray of int64
        In ascending order; j < k only if there are just j different points.
    """
    size = 1 << (len(x) - 1).bit_length()
    tree = np.zeros(2 * size)  # the leaves begin at ``size``; the sum of node v's children 2v and 2v + 1 is at v
    chosen: list[int] = []
    new = int(rng.integers(len(x)))
    while True:
        place = bisect(chosen, new)
        low = np.searchsorted(x, (x[chosen[place - 1]] + x[new]) / 2, "right") if place > 0 else 0
        high = np.searchsorted(x, (x[new] + x[chosen[place]]) / 2, "right") if place < len(chosen) else len(x)
        chosen.insert(place, new)
        _set_leaves(tree, size + int(low), (x[low:high] - x[new]) ** 2)
        if len(chosen) == k or tree[1] == 0:
            return np.array(chosen)
        new = _draw_leaf(tree, rng.random() * tree[1]) - size


def _set_leaves(tree: Dense, start: int, values: Dense) -> None:
    """Write consecutive leaves of a tree of sums, and update the sums above them."""
    tree[start : start + len(values)] = values
    first, last = start // 2, (start + len(values) - 1) // 2
    while first > 0:
        tree[first : last + 1] = tree[2 * first : 2 * last + 2 : 2] + tree[2 * first + 1 : 2 * last + 2 : 2]
        first, last = first // 2, last // 2


def _draw_leaf(tree: Dense, position: float) -> int:
    """Return the leaf at a position between 0 and the sum of all leaves; never one of value 0."""
    node = 1
    while 2 * node < len(tree):
        node *= 2
        if position >= tree[node] and tree[node + 1] > 0:
            position -= tree[node]
            node += 1
    return node


def _sum_of_squares(C: Matrix, labels: Dense, total: float) -> float:
    """Return the sum of squared distances of the rows of C to the means of their clusters; total is ‖C‖²_F."""
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), C.shape[1]))
    for rows, block in row_blocks(C):
        sums += cluster_sums(block, labels[rows], len(counts), np.ones(block.shape[0]))
    means = sums / np.maximum(counts, 1)[:, None]
    if isinstance(C, np.ndarray):
        return sum(squared_frobenius(block - means[labels[rows]]) for rows, block in row_blocks(C))
    return max(total - float(counts @ (means**2).sum(axis=1)), 0.0)
