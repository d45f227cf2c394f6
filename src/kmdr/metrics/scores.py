"""Scores of a partition of A: F on the original matrix, and P, NMI and ARI against labels."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from kmdr.base.errors import ArgumentError, UserError, shown
from kmdr.base.plugins import PaperFolder, paper_folders
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import canonical_csr, normalised, scaled_back, squared_frobenius, squares_at_once
from kmdr.metrics.kernels import (
    _PERFECT,
    _TOLERANCE,
    _WIDTH,
    _fits_sums,
    _grouped,
    _residual_csr,
    _residual_of_large,
    _residuals,
    _sums_of_large,
    _within_csr,
)

# Largest number of cells that are counted directly; names with a larger range are numbered by sorting first.
_CELLS = 2**20

# Largest relative change by rounding of the residual of CSR, in the form that costs less.
_CANCELLED = 1e-8


def _gamma(terms: int) -> float:
    """Return mu/(1 − mu), u = 2⁻⁵³: the error of a sum of m terms in any order, relative to the sum of their sizes."""
    mu = terms * 2.0**-53
    return mu / (1 - mu) if mu < 0.5 else math.inf


class Residual(NamedTuple):
    """‖A − XXᵀA‖²_F of a partition as it was computed, and a bound of its error."""

    value: float
    error: float


def _from_within(R: float, terms: int, total: float) -> Residual | None:
    """Return a residual R = Σ‖a_i‖² − Σ‖s‖²/m of so many terms; None if rounding may have changed it too much."""
    error = 6 * _gamma(terms) * total
    return Residual(R, error) if error <= _CANCELLED * R else None


def _bounded_residual(
    A: Matrix, labels: Dense, k: int, total: float, known: float | None = None, sums: Dense | None = None
) -> Residual:
    """Return the residual with its error bound, for A as `normalised` returns it.

    ``known`` is the value if it is known, ``sums`` are the clusters' sums of an out-of-core A.

    Let μ̂ be the computed mean of a cluster of m points, and γ = γ_N with N the number of additions that a term passes.
    By Cauchy and Schwarz, m‖μ̂ − μ‖² ≤ γ²Σ‖a_i‖². The residual of the cluster is Σ‖a_i − μ̂‖² − m‖μ̂ − μ‖², where the
    second term is computed as (Σ(a_i − μ̂))²/m. Its error is at most 8γ times the first sum (Higham 2002, §3.1), so the
    error of R is at most 8γ(R + γ²‖A‖²).

    For CSR and out-of-core matrices, R is first computed as Σ‖a_i‖² − ‖s‖²/m, with s the sum of a cluster, at half the
    cost. Its error is at most 6γ‖A‖², with N the stored entries and a few more (for dense data, the additions), which
    suffices unless R is small relative to ‖A‖².
    """
    n, d = A.shape
    if _fits_sums(A, k):
        (sums,) = _sums_of_large(A, labels[None], k) if sums is None else (sums,)
        counts = np.maximum(np.bincount(labels, minlength=k), 1)
        within = np.einsum("cj,cj->c", sums, sums) / counts
        if quick := _from_within(total - float(within.sum()), n + d + k + _squares_terms(A) + 8, total):
            return quick
        gamma, R = _gamma(n + k * d + 8), _residual_of_large(A, labels, k, sums)
    elif isinstance(A, np.ndarray):
        gamma = _gamma(n + d + k * (d // _WIDTH + 1) + 8)
        R = float(_residuals(A, labels[None], k)[0]) if known is None else known
    else:
        counts = np.bincount(labels, minlength=k)
        within = _within_csr(A, labels, k) / np.maximum(counts, 1)
        if quick := _from_within(float(squared_frobenius(A) - within.sum()), A.nnz + n + 8, total):
            return quick
        gamma = _gamma(n + min(A.nnz, k * d) + 8)
        R = float(_residual_csr((A.data, A.indices, A.indptr), d, *_grouped(labels, k)))
    return Residual(R, 8 * gamma * (R + gamma**2 * total))


def _clusters(labels: Dense, n: int) -> tuple[Dense, int]:
    """Return cluster numbers as int64, and an upper bound of how many there are."""
    labels = np.asarray(labels)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ArgumentError(
            f"labels of shape {labels.shape} and type {labels.dtype} are not {n} whole numbers from 0, one for each "
            "row; give these"
        )
    k = int(labels.max()) + 1
    if k > n:  # numbers without rows need no memory
        names, labels = np.unique(labels, return_inverse=True)
        k = len(names)
    return labels.astype(np.int64, copy=False), k


def residual(A: Matrix, labels: Dense) -> float:
    """Return ‖A − XXᵀA‖²_F, the sum of squared distances of the rows to the means of their clusters.

    Parameters
    ----------
    A : (n, d) array or CSR
        CSR is never densified.
    labels : (n,) int array
        Cluster of each row, from 0.

    Returns
    -------
    float
        Infinite or 0 if it is beyond float64; `objective` is not.
    """
    A, e, total = normalised(canonical_csr(A))
    R = _bounded_residual(A, *_clusters(labels, A.shape[0]), total)
    return scaled_back(R.value, 2 * e)


def residuals(A: Dense, partitions: Sequence[Dense], total: float) -> list[Residual]:
    """Return the residuals of several partitions, as `objective` takes them, from one read of A.

    They are the numbers that `objective` computes from each partition alone.

    Parameters
    ----------
    A : (n, d) array
        As `normalised` returns it.
    partitions : sequence of (n,) int arrays
        Cluster of each row, from 0.
    total : float
        ‖A‖²_F.
    """
    clusters = [_clusters(labels, A.shape[0]) for labels in partitions]
    together, most = np.array([labels for labels, _ in clusters]), max(k for _, k in clusters)
    if _fits_sums(A, most):
        return [
            _bounded_residual(A, labels, most, total, sums=sums)
            for labels, sums in zip(together, _sums_of_large(A, together, most), strict=True)
        ]
    values = _residuals(A, together, most)
    return [
        _bounded_residual(A, labels, k, total, float(value))
        for (labels, k), value in zip(clusters, values, strict=True)
    ]


def objective(A: Matrix, labels: Dense, total: float | None = None, residual: Residual | None = None) -> float:
    """Return F = ‖A − XXᵀA‖²_F / ‖A‖²_F of a partition, on the original features (bzmd15 §7.4).

    Parameters
    ----------
    A : (n, d) array or CSR
    labels : (n,) int array
    total : float, optional
        ‖A‖²_F if it is known, of A as `normalised` returns it.
    residual : Residual, optional
        If it is known too, from `residuals`.

    Returns
    -------
    float
        In [0, 1], except for rounding; 0 if A is zero.

    Raises
    ------
    ArgumentError
        If A is not finite, or the labels do not fit its rows.
    ArithmeticError
        If the a-priori bound of the rounding error exceeds both a millionth of F and 10⁻²⁴.
    """
    if total is None:
        A, _, total = normalised(canonical_csr(A))
    labels, k = _clusters(labels, A.shape[0])
    if total == 0:
        return 0.0
    R, error = residual or _bounded_residual(A, labels, k, total)
    F = R / total
    doubt = error / total + 2 * _gamma(_squares_terms(A) + 8) * F
    if not doubt <= _TOLERANCE * max(F, _PERFECT):
        raise ArithmeticError(f"F = {F:.3g} may be wrong by {doubt:.1g} by rounding, more than {_TOLERANCE:g} of it")
    return F


def _squares_terms(A: Matrix) -> int:
    """Return the number of additions that a term of `squared_frobenius` passes through."""
    stored, step = int(A.size if isinstance(A, np.ndarray) else A.nnz), squares_at_once(A)
    return min(stored, step) + stored // step


def _numbered(names: Dense) -> tuple[Dense, int]:
    """Return names as numbers from 0, some perhaps unused, and how many numbers there are."""
    if names.dtype == np.int64:  # differences of narrower ones may not fit
        low = int(names.min())
        count = int(names.max()) - low + 1
        if count * count <= _CELLS:
            return names - low, count
    different, numbers = np.unique(names, return_inverse=True)
    return numbers, len(different)


def _contingency(truth: Dense, labels: Dense) -> Dense:
    """Return the contingency table of classes (rows) and clusters (columns), without empty ones."""
    truth, labels = np.asarray(truth), np.asarray(labels)
    same = truth.ndim == 1 and truth.shape == labels.shape and truth.size > 0
    if not same or not {truth.dtype.kind, labels.dtype.kind} <= {"i", "u", "b"}:
        raise ArgumentError(
            f"partitions of shapes {truth.shape} and {labels.shape}, types {truth.dtype} and {labels.dtype}, do not "
            "name the same points by whole numbers; give two of equal length"
        )
    (rows, height), (columns, width) = _numbered(truth), _numbered(labels)
    table = np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)
    return table[table.any(axis=1)][:, table.any(axis=0)]


def _accuracy(table: Dense) -> float:
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def accuracy(truth: Dense, labels: Dense) -> float:
    """Return P, the fraction of points in the right cluster under the best one-to-one matching (Hungarian method).

    If the numbers of clusters and classes differ, those left over match nothing.
    """
    return _accuracy(_contingency(truth, labels))


def class_numbers(truth: Dense) -> Dense:
    """Return the labels as numbers from 0, in the order in which the classes first appear.

    These are the numbers of the clusters of ``first_of_class`` starts.
    """
    _, first, inverse = np.unique(truth, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse])


@cache
def _numberings(folders: tuple[PaperFolder, ...]) -> Mapping[str, Callable[[Dense], Dense]]:
    modules = [module for folder in folders if (module := folder.module("matchings"))]
    return {"identity": class_numbers} | {name: made for module in modules for name, made in module.MATCHINGS.items()}


def numberings() -> Mapping[str, Callable[[Dense], Dense]]:
    """Return the matchings of cluster j with class j, each with its function that numbers the classes.

    There is ``identity``, and the ``MATCHINGS`` in the module ``matchings`` of each paper's folder.
    """
    return _numberings(paper_folders())


def matchings() -> tuple[str, ...]:
    """Return the names of all matchings.

    Raises
    ------
    UserError
        If a module with matchings cannot be imported, or its ``MATCHINGS`` are not functions by new names.
    """
    files = dict.fromkeys(("best", "identity"), "kmdr")
    for folder in paper_folders():
        file = folder.folder / "matchings.py"
        try:
            module = folder.module("matchings")
        except UserError as error:
            raise UserError(f"{file}: {error}") from error
        except Exception as error:  # whatever a user's module raises
            raise UserError(f"{file} cannot be imported ({type(error).__name__}: {error}); fix it") from error
        made = {} if module is None else getattr(module, "MATCHINGS", None)
        if not isinstance(made, Mapping) or not all(map(callable, made.values())):
            raise UserError(f"MATCHINGS of {file} is {shown(made)}; give functions of the true classes by their names")
        for name in made:
            if not isinstance(name, str) or files.setdefault(name, str(file)) != str(file):
                raise UserError(
                    f"{file} has a matching named {shown(name)}, which is not a string or is taken; give another name"
                )
    return ("best", *numberings())


def matching_modules() -> list[str]:
    """Return the names of the papers' modules with matchings."""
    folders = [folder for folder in paper_folders() if (folder.folder / "matchings.py").is_file()]
    return [f"{folder.package}.matchings" for folder in folders]


def check_matching(matching: str, truth: Dense | None) -> None:
    """Refuse labels that a matching is not defined for."""
    if matching != "best" and truth is not None:
        numberings()[matching](truth)


def _entropy(counts: Dense) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p @ np.log(p)))


def _nmi(table: Dense) -> float:
    """Return 2I/(H + H'); 1 for two partitions into a single part, without information."""
    if table.size == 1:
        return 1.0
    H, G = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    information = H + G - _entropy(table.ravel())
    # Rounding may leave a small number of either sign if the partitions are independent.
    return information / ((H + G) / 2) if information > 1e-14 * (H + G) else 0.0


def _ari(table: Dense) -> float:
    """Return Hubert and Arabie's index, from the pairs of points that are together in both, in either, and in all."""

    def pairs(counts: Dense) -> int:
        return int((counts * (counts - 1) // 2).sum())  # exact below 3·10⁹ points

    both, first, second = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    everything = math.comb(int(table.sum()), 2)
    if both == first == second:
        return 1.0
    # (both − E)/((first + second)/2 − E), E = first·second/everything, in whole numbers up to the last division.
    return 2 * (both * everything - first * second) / ((first + second) * everything - 2 * first * second)


def agreement(truth: Dense, labels: Dense, matching: str = "best") -> dict[str, float]:
    """Return ``accuracy``, ``nmi`` (arithmetic mean) and ``ari`` of a partition against labels.

    ``matching``, one of `matchings`, says which cluster counts as which class in ``accuracy``: the best one-to-one
    matching, class number j of `class_numbers` for cluster j (``identity``), or a paper's own numbering.
    """
    table = _contingency(truth, labels)
    P = _accuracy(table) if matching == "best" else float(np.mean(numberings()[matching](truth) == labels))
    return {"accuracy": P, "nmi": _nmi(table), "ari": _ari(table)}
