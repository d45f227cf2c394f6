"""Lloyd's k-means with the papers' initialisations.

Every start begins at given rows of the data. An iteration assigns each point to its nearest centre (ties to the lowest
index), then moves each centre to the mean of its points. A start ends when no assignment changes (strict convergence)
or after ``max_iter`` iterations.

``empty_action`` is MATLAB's ``EmptyAction``: the treatment of a cluster that loses all its points.

* ``singleton`` (default): the point farthest from its own, just updated, centre becomes the new centre and leaves its
  cluster, whose mean is recomputed; a point that is alone in its cluster is not taken. If refilling no longer lowers
  the sum of squares, as with fewer distinct points than clusters, the run has also converged (MATLAB's cycle test).
* ``drop``: the cluster stays empty, and the partition has fewer than k clusters.
* ``error``: the start is abandoned.

With ``online``, a converged start continues with MATLAB's online phase. It visits the points in order, repeatedly, and
moves each to the cluster where that lowers the sum of squares most, taking into account the effect of the move on both
means (Hartigan, Wong 1979), until every point has been checked since the last move. The partition is then a local
optimum under moves of single points, and so under Lloyd's iteration. A point alone in its cluster stays. As in MATLAB,
``max_iter`` limits both phases together: a pass over the points counts as an iteration, Lloyd's last iteration, which
changed nothing, does not, and a start that reached the limit has no online phase.
"""

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import kmeans_plusplus

from kmdr.base.errors import ArgumentError, UserError, whole_number, yes_or_no
from kmdr.base.threads import process_row_blocks
from kmdr.clustering.lloyd import EMPTY_ACTIONS, Points, block_size, centre, prepare, run_starts, workspace
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import (
    CACHED,
    as_float64,
    canonical_csr,
    column_means,
    is_out_of_core,
    normalised,
    row_blocks,
    scaled_back,
)

# Inner products of CSR points may be computed if neither n·r nor n² exceeds this.
_GRAM_ENTRIES = 2**22
# They may cost at most this many times the multiplications of one product of centres and points per start. On NIPS
# (184×6314, k = 3) all of k-means took .39 of the time for 30 starts (27 times), .49 for 10 (80), .57 for 5 (160), and
# 1.05 for 3 (266).
_GRAM_COST = 160
# Most additions per iteration, as a share of the multiplications of the product that they replace.
_GRAM_SHARE = 0.5
# The points of a C with at most this many entries, stored or not, are kept for the next repetition (50 MB).
_SHARED_ENTRIES = 2**22
STARTS = ("sample", "first_of_class", "plus", "greedy")
# Starts whose rows are drawn from the reduced data, with the candidates of each centre; None for 2 + ⌊ln k⌋.
_CANDIDATES = {"plus": 1, "greedy": None}
# A start finds the best partition again if its inertia is at most this much above it, relative to it.
_FOUND_AGAIN = 1e-3
# Settings added after rows had been written, with the values that those rows were made with.
_LATER: dict[str, Any] = {"args": "{}", "online": False, "empty_action": "singleton", "until_found": 0}


@dataclass(frozen=True)
class Protocol:
    """How a paper ran k-means.

    Attributes
    ----------
    n_init : int
        Number of starts; the partition of smallest objective on the reduced data is kept. With ``until_found``, the
        largest number.
    max_iter : int
        Largest number of Lloyd iterations.
    start : {"sample", "first_of_class", "plus", "greedy"}
        Rows drawn uniformly without replacement; the first row of each class (lf20 on ORL; a single start); rows drawn
        by k-means++ on the reduced data (the default of later versions of the papers' MATLAB); or by greedy k-means++
        (the default of scikit-learn), which tries several candidates for each centre.
    engine : str
        Name of one of `kmdr.clustering.engines`, or the import path of any class with ``fit_predict``.
    args : str
        Arguments of the engine, as canonical JSON.
    online : bool
        Whether single points are moved after Lloyd (MATLAB's online phase).
    empty_action : {"singleton", "drop", "error"}
        Treatment of a cluster that loses all its points (MATLAB's EmptyAction).
    until_found : int
        Stop when the smallest inertia has been found this many times, up to .1 %; 0 to run all ``n_init`` starts.
    """

    n_init: int
    max_iter: int
    start: str = "sample"
    engine: str = "kmdr"
    args: str = "{}"
    online: bool = False
    empty_action: str = "singleton"
    until_found: int = 0

    def __post_init__(self) -> None:
        for name in ("n_init", "max_iter"):
            whole_number(f"kmeans.{name}", getattr(self, name), 1)
        for name, valid in (("start", STARTS), ("empty_action", EMPTY_ACTIONS)):
            if (value := getattr(self, name)) not in valid:
                raise UserError(f"kmeans.{name} = {value!r} is not one of {', '.join(valid)}; choose one of them")
        yes_or_no("kmeans.online", self.online)
        whole_number("kmeans.until_found", self.until_found, 0)
        if self.start == "first_of_class" and self.n_init != 1:
            raise UserError(
                f"kmeans.start = 'first_of_class' gives a single start, but kmeans.n_init = {self.n_init}; set it to 1"
            )

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the decoded ``args``."""
        return dict(json.loads(self.args))

    @property
    def identity(self) -> dict[str, Any]:
        """Return the settings that determine a partition, without later ones at their earlier values."""
        return {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}

    @property
    def plain(self) -> bool:
        """Return True if the protocol needs nothing that only kmdr's own Lloyd offers."""
        return self.identity.keys().isdisjoint(("online", "empty_action"))


@dataclass(frozen=True)
class Clustering:
    """The best of several starts.

    Attributes
    ----------
    labels : (n,) ndarray of int64
    inertia : float
        Sum of squared distances to the centres, on the data that was clustered.
    n_iter : int
        Iterations of the kept start, including the last one, which changed nothing.
    n_init_failed : int
        Number of starts that had not converged after ``max_iter`` iterations, or were abandoned.
    """

    labels: Dense
    inertia: float
    n_iter: int
    n_init_failed: int


def starting_rows(protocol: Protocol, n: int, k: int, truth: Dense | None, rng: np.random.Generator) -> Dense:
    """Return the rows at which the centres of each start lie, if they do not depend on the reduced data.

    Parameters
    ----------
    protocol : Protocol
        With the ``start`` "sample" or "first_of_class".
    truth : (n,) int array, optional
        Labels, required by ``first_of_class``.

    Returns
    -------
    (n_init, k) ndarray of int64

    Raises
    ------
    UserError
        If k > n, or if ``first_of_class`` has no labels or a number of classes other than k.
    """
    _refuse_more_clusters_than_points(k, n)
    if protocol.start == "sample":
        return np.array([rng.choice(n, size=k, replace=False) for _ in range(protocol.n_init)], dtype=np.int64)
    if truth is None:
        raise UserError("kmeans.start = 'first_of_class' needs labels, but this dataset has none; use 'sample'")
    classes, first = np.unique(truth, return_index=True)
    if len(classes) != k:
        raise UserError(
            f"kmeans.start = 'first_of_class' gives {len(classes)} centres, one per class, but k = {k}; use 'sample'"
        )
    return np.sort(first)[None, :].astype(np.int64)


def plus_rows(C: Matrix, k: int, seeds: Dense, candidates: int | None = 1) -> Dense:
    """Return rows drawn by k-means++ (Arthur, Vassilvitskii 2007, §2.2).

    The first row is uniform; each further row is drawn with probability proportional to the squared distance to the
    nearest row drawn before. Of several candidates that one is taken which leaves the smallest sum of squared distances
    (greedy k-means++, §5 of the same paper).

    Parameters
    ----------
    seeds : (n_init,) int array
        One per start, below 2³².
    candidates : int or None
        Candidates for each row after the first; None for 2 + ⌊ln k⌋.

    Returns
    -------
    (n_init, k) ndarray of int64
    """
    C = as_float64(normalised(C)[0])
    rows = [kmeans_plusplus(C, k, n_local_trials=candidates, random_state=int(seed))[1] for seed in seeds]
    return np.array(rows, dtype=np.int64)


def starter(protocol: Protocol, n: int, k: int, truth: Dense | None, rng: np.random.Generator) -> Callable[..., Dense]:
    """Return the function from the reduced data, and perhaps a slice of the starts, to the (starts, k) starting rows.

    All random numbers are drawn here: the same rows, or for k-means++ the same seeds, serve every reduced matrix.

    Parameters and errors are as for `starting_rows`, for every ``start``.
    """
    if protocol.start not in _CANDIDATES:
        rows = starting_rows(protocol, n, k, truth, rng)
        return lambda _, some=slice(None): rows[some]
    _refuse_more_clusters_than_points(k, n)
    seeds = rng.integers(2**32, size=protocol.n_init)
    return lambda C, some=slice(None): plus_rows(C, k, seeds[some], _CANDIDATES[protocol.start])


def best_of_starts(protocol: Protocol, cluster: Callable[[slice], Clustering]) -> Clustering:
    """Return the best of the starts of a protocol: of all together, or of one after the other with ``until_found``.

    Parameters
    ----------
    cluster : callable
        Returns the best of a slice of the starts.
    """
    if not protocol.until_found:
        return cluster(slice(None))
    best, inertias, failed = None, [], 0
    for start in range(protocol.n_init):
        clustering = cluster(slice(start, start + 1))
        inertias.append(clustering.inertia)
        failed += clustering.n_init_failed
        if best is None or clustering.inertia < best.inertia:
            best = clustering
        if sum(inertia <= (1 + _FOUND_AGAIN) * best.inertia for inertia in inertias) >= protocol.until_found:
            break
    assert best is not None
    return replace(best, n_init_failed=failed)


def _refuse_more_clusters_than_points(k: int, n: int) -> None:
    if k > n:
        raise UserError(f"k = {k} is larger than the number of points ({n}); choose k ≤ {n}")


def checked_starts(starts: Sequence[Dense] | Dense, n: int, max_iter: int) -> Dense:
    """Return the starts as one array that compiled code can use.

    Raises
    ------
    ArgumentError
        If they are not k row indices each, k > n, or ``max_iter`` is below 1.
    """
    rows = np.asarray(starts)
    if not len(rows):
        raise ArgumentError("no start was given; give at least one, with k row indices")
    if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n:
        raise ArgumentError(f"starts of shape {rows.shape} must each hold k row indices from 0 to {n - 1}")
    if rows.shape[1] > n:
        raise ArgumentError(f"k = {rows.shape[1]} is larger than the number of points ({n}); choose k ≤ {n}")
    if max_iter < 1:
        raise ArgumentError(f"max_iter = {max_iter} is below 1; allow at least one iteration")
    return np.array(rows, np.int64, order="C")


def _scale(largest: float) -> float:
    """Return the power of two that scales a magnitude to between ½ and 1, safe from over- and underflow in float32."""
    return 2.0 ** -min(max(int(np.frexp(largest)[1]), -1000), 1000)


def _kernel_input_of_large(C: Dense, m: int) -> tuple[Points, float]:
    """Return kernel points and scale of an out-of-core C, which compiled code centres and scales as it reads it."""
    n, r = C.shape
    C = np.ascontiguousarray(C).view()
    C.flags.writeable = False  # one type to compile for
    mean, norms = column_means(C), np.empty(n, np.float32)
    scale = _scale(max(float(np.abs(block - mean).max()) for _, block in row_blocks(C, CACHED)))
    for rows, block in row_blocks(C, CACHED):
        norms[rows] = np.linalg.norm((block - mean) * scale, axis=1)
    none, no_index = np.empty(0), np.empty(0, np.int32)
    panels, no_rows = np.empty((0, r, m), np.float32), np.empty(0, np.int64)
    return Points((C, mean, scale), panels, none, no_index, no_rows, none, norms, np.empty((0, 0)), r), scale


def _kernel_input(C: Matrix, k: int, count: int) -> tuple[Points, float]:
    """Return the points in the form that kernels take, for ``count`` starts, and the scale applied to them."""
    n, r = C.shape
    m = block_size(n, r, k)
    norms, none, no_index, gram = np.empty(n, np.float32), np.empty(0), np.empty(0, np.int32), np.empty((0, 0))
    # Distances do not change with a shift, and centred products keep more digits.
    if is_out_of_core(C):
        return _kernel_input_of_large(C, m)
    if isinstance(C, np.ndarray):
        C = np.ascontiguousarray(C, dtype=np.float64).view()
        C.flags.writeable = False  # one type to compile for
        mean, largest = centre(C)
        scale = _scale(largest)
        X, panels = np.empty((n, r)), np.zeros((-(-n // m), r, m), np.float32)
        prepare(C, mean, scale, X, panels, norms)
        return Points(X, panels, none, no_index, np.empty(0, np.int64), none, norms, gram, r), scale
    C = canonical_csr(C)
    data = C.data.astype(np.float64)
    scale = _scale(float(np.abs(data).max(initial=0.0)))
    data *= scale
    squares = np.asarray(sp.csr_array((data * data, C.indices, C.indptr), shape=C.shape).sum(axis=1)).ravel()
    product = k * C.nnz
    if n * max(n, r) <= _GRAM_ENTRIES and n * n <= _GRAM_SHARE * product and n * n * r <= _GRAM_COST * count * product:
        X = sp.csr_array((data, C.indices, C.indptr), shape=C.shape).toarray()
        gram = X @ X.T
    norms[:] = np.sqrt(squares)
    indices, indptr = C.indices.astype(np.int32), C.indptr.astype(np.int64)
    terms = int(np.diff(indptr).max())
    return Points(
        np.empty((0, r)), np.empty((0, r, m), np.float32), data, indices, indptr, squares, norms, gram, terms
    ), scale


# The name of the C that is being clustered, if the next repetitions share it, and the points of the last named C.
_name: ContextVar[Hashable | None] = ContextVar("name", default=None)
_last: dict[Hashable, tuple[Points, float]] = {}


@contextmanager
def same_points(name: Hashable | None) -> Iterator[None]:
    """Within the block, treat every C of one name, k and number of starts as one matrix: `lloyd` reads the first only.

    Repetitions that share a C differ only in their starts. Before a short k-means, converting C, or the inner products
    of its points, takes longer than k-means itself. None disables this.
    """
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


def _points(C: Matrix, k: int, count: int) -> tuple[Points, float]:
    """Return `_kernel_input`, reused from the last C if it had the same name."""
    name = _name.get()
    if name is None or C.shape[0] * C.shape[1] > _SHARED_ENTRIES:
        return _kernel_input(C, k, count)
    if (name, k, count) not in _last:
        _last.clear()
        _last[name, k, count] = _kernel_input(C, k, count)
    return _last[name, k, count]


def lloyd(
    C: Matrix,
    starts: Sequence[Dense] | Dense,
    max_iter: int,
    *,
    online: bool = False,
    empty_action: str = "singleton",
) -> Clustering:
    """Run Lloyd's algorithm from each start and keep the partition of smallest inertia.

    Parameters
    ----------
    C : (n, r) array or CSR
        Clustered in float64 whatever its type: strict convergence may never be reached in float32.
    starts : (n_init, k) int array
        Rows of C at which the centres begin.
    empty_action : {"singleton", "drop", "error"}

    Returns
    -------
    Clustering
        Ties between starts go to the earlier one.

    Raises
    ------
    UserError
        If every start was abandoned.
    """
    starts = checked_starts(starts, C.shape[0], max_iter)
    action = EMPTY_ACTIONS.index(empty_action)
    C, e, _ = normalised(C)
    points, scale = _points(C, starts.shape[1], len(starts))
    count = len(starts)
    labels = np.empty((count, C.shape[0]), np.int32)
    inertia, n_iter, converged = np.empty(count), np.empty(count, np.int64), np.empty(count, np.bool_)

    def work(some: slice) -> None:
        clusters, run = workspace(points, starts.shape[1])
        results = labels[some], inertia[some], n_iter[some], converged[some]
        run_starts(points, clusters, run, starts[some], max_iter, online, action, *results)

    process_row_blocks(count, work)
    best = int(inertia.argmin())
    if np.isinf(inertia[best]):
        raise UserError(
            f"a cluster lost all its points in each of {count} starts, which kmeans.empty_action = 'error' abandons; "
            "use 'singleton' or 'drop', or more starts"
        )
    failed = int(np.count_nonzero(~converged))
    least = scaled_back(inertia[best] / scale / scale, 2 * e)
    return Clustering(labels[best].astype(np.int64), least, int(n_iter[best]), failed)
