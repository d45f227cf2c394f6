"""Recompute F and P of random cells of the atlas with scikit-learn, numpy and scipy.

``python scripts/recompute_cells.py [DIR] [CELLS] [SEED]`` (by default ``results/reference/atlas``, 60 and 0) draws rows
that did not fail, as equally from all datasets as possible, half of them of methods that scikit-learn and numpy can
compute, and checks them in two ways:

* *scores*: kmdr runs the trial again and gives the cluster of each point; F, P, NMI and ARI of these are computed from
  the data as the registry has them, whose form (unit rows, tf-idf, standardised) scikit-learn makes. They agree with
  the row within 1e-6, or the trial takes another path on this machine, which is counted.
* *methods*: for these methods, with C of at most `MOST_ENTRIES`, C is made without kmdr, clustered by scikit-learn's
  KMeans (greedy k-means++, `STARTS` starts), and scored. The F of such a run differs from the row's by the draw of
  starts and, for random methods, of the map; it agrees if the row's is at most `WORSE` larger (relative), or within
  four standard deviations of the draws of a random method.

Cells of data that are not available are skipped and counted. It prints a line per cell and the geometric mean of F over
scikit-learn's F, and exits with 1 if a score or more than one in twenty of the methods disagrees.
"""

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.outside import allow
from kmdr.config.task import data_of
from kmdr.harness.task import Provenance, run
from kmdr.harness.verify import folders_by_content, rebuild
from kmdr.results.manifests import described
from kmdr.results.table import rows_in

Labels = NDArray[np.int64]
STARTS, WORSE, DRAWS = 30, 0.03, 3
MOST_WIDE = 120
MOST_ENTRIES = 5e6  # of C; scikit-learn takes minutes for more
TOLERANCE = 1e-6
_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "{}": lambda A: A,
    '{"rows":"unit"}': normalize,
    '{"scale":"standard"}': lambda A: StandardScaler().fit_transform(A),
    '{"rows":"tfidf"}': lambda A: TfidfTransformer().fit_transform(A),
}


def sampled(rows: Sequence[Mapping[str, str]], count: int, seed: int) -> list[Mapping[str, str]]:
    """Draw rows that did not fail, one dataset after the other."""
    draw = random.Random(seed)
    by_dataset = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            by_dataset[row["dataset"]].append(row)
    for several in by_dataset.values():
        draw.shuffle(several)
    turns = range(max(map(len, by_dataset.values()), default=0))
    return [rows[turn] for turn in turns for rows in by_dataset.values() if turn < len(rows)][:count]


@lru_cache(maxsize=2)
def matrix(dataset: str, form: str) -> tuple[Any, Labels | None]:
    """Return a form of a dataset, made by scikit-learn, and its classes."""
    data = datasets.load(dataset)
    A = sp.csr_matrix(data.A) if sp.issparse(data.A) else np.asarray(data.A, dtype=float)
    return _FORMS[form](A), data.labels


def scores(A: Any, clusters: Labels, classes: Labels | None) -> dict[str, float]:
    """Return F and, with classes, P, NMI and ARI."""
    total = float(A.multiply(A).sum() if sp.issparse(A) else (A * A).sum())
    kept = 0.0  # ‖A‖² minus the residual: Σ |cluster| ‖mean‖²
    for cluster in np.unique(clusters):
        mean = np.asarray(A[clusters == cluster].mean(axis=0)).ravel()
        kept += int((clusters == cluster).sum()) * float(mean @ mean)
    result = {"objective": 1 - kept / total}
    if classes is not None:
        table = contingency_matrix(classes, clusters)
        result["accuracy"] = float(table[linear_sum_assignment(-table)].sum() / len(classes))
        result["nmi"] = float(normalized_mutual_info_score(classes, clusters))
        result["ari"] = float(adjusted_rand_score(classes, clusters))
    return result


def _top(A: Any, r: int, values: NDArray[np.float64]) -> Any:
    return A[:, np.sort(np.argsort(-values, kind="stable")[:r])]


def _svd(A: Any, rank: int) -> Any:
    if min(A.shape) <= rank or (not sp.issparse(A) and min(A.shape) < 2000):
        U, s, _ = np.linalg.svd(A.toarray() if sp.issparse(A) else A, full_matrices=False)
        return U[:, :rank] * s[:rank]
    return TruncatedSVD(rank, algorithm="arpack", random_state=0).fit_transform(A)


def _variances(A: Any) -> NDArray[np.float64]:
    squares = A.multiply(A) if sp.issparse(A) else A * A
    means, mean_squares = (np.asarray(table.mean(axis=0), dtype=float).ravel() for table in (A, squares))
    return np.asarray(mean_squares - means**2)


def reduction(reducer: str, params: Mapping[str, Any], k: int, r: int) -> Callable[[Any, int], Any] | None:
    """Return a function from the data and a seed to C without kmdr; None for a method that these libraries lack."""
    if reducer == "svd":
        rank = r if params.get("rank", "r") == "r" else k
        if params.get("centred"):
            return lambda A, _: PCA(rank, svd_solver="full").fit_transform(A.toarray() if sp.issparse(A) else A)
        return lambda A, _: _svd(A, rank)
    known: dict[str, Callable[[Any, int], Any]] = {
        "none": lambda A, _: A,
        "variance": lambda A, _: _top(A, r, _variances(A)),
        "gaussian": lambda A, seed: GaussianRandomProjection(r, random_state=seed).fit_transform(A),
        "achlioptas": lambda A, seed: SparseRandomProjection(
            r, density=1 / 3, dense_output=True, random_state=seed
        ).fit_transform(A),
        "random_sign": lambda A, seed: (
            A @ (np.random.default_rng(seed).choice([-1.0, 1.0], (A.shape[1], r)) / np.sqrt(r))
        ),
        "sklearn.decomposition.PCA": lambda A, seed: PCA(r, random_state=seed, **params).fit_transform(A),
        "sklearn.decomposition.NMF": lambda A, seed: NMF(r, random_state=seed, **params).fit_transform(A),
    }
    return known.get(reducer)


def is_computable(row: Mapping[str, str]) -> bool:
    """Return True if scikit-learn and numpy can compute a row's method, and its C is not too large.

    Engines other than Lloyd's iterations, such as PRONE, are methods that they do not have.
    """
    k, r = int(row["k"]), int(row["r"])
    if row["engine"] != "kmdr":
        return False
    return int(row["n"]) * r <= MOST_ENTRIES and bool(reduction(row["reducer"], json.loads(row["params"]), k, r))


def check_method(row: Mapping[str, str], A: Any, classes: Labels | None) -> tuple[str, float]:
    """Return whether a row's F agrees with that of scikit-learn's clusters of its own C, and the ratio of both."""
    k, r, F = int(row["k"]), int(row["r"]), float(row["objective"])
    make = reduction(row["reducer"], json.loads(row["params"]), k, r)
    if make is None or not is_computable(row):
        return "", np.nan
    is_random = row["reducer"] in ("gaussian", "achlioptas", "random_sign")
    values = []
    for seed in range(DRAWS if is_random else 1):
        C = make(A, seed)
        labels = KMeans(k, n_init=STARTS, max_iter=500, tol=0, random_state=seed).fit(C).labels_
        values.append(scores(A, labels, classes)["objective"])
    deviation = float(np.std(values, ddof=1)) if is_random else 0.0
    mean = float(np.mean(values))
    return ("agrees" if mean * (1 + WORSE) + 4 * deviation >= F else "disagrees"), F / mean


def check_scores(row: Mapping[str, str], labels: Labels, again: Mapping[str, Any], A: Any, classes: Any) -> str:
    """Return whether the scores of a rerun's clusters, without kmdr, are the rerun's, and the rerun's are the row's."""
    ours = scores(A, labels, classes)
    if any(abs(float(again[name]) - value) > TOLERANCE for name, value in ours.items()):
        return "disagrees"
    same = all(abs(float(row[name] or value) - value) <= TOLERANCE for name, value in ours.items())
    return "agrees" if same else "another path"


def main() -> int:
    """Check random cells of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default="results/reference/atlas")
    parser.add_argument("cells", nargs="?", type=int, default=60)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    arguments = parser.parse_args()
    folder, count, seed = arguments.folder, arguments.cells, arguments.seed
    every = rows_in(folder)
    computable = [row for row in every if is_computable(row)]
    rows = sampled(computable, count // 2, seed)
    rows += sampled([row for row in every if not is_computable(row)], count - len(rows), seed)
    rows.sort(key=lambda row: (row["dataset"], row["options"]))
    folders = folders_by_content(rows, folder)
    outcomes: dict[str, Counter[str]] = {"scores": Counter(), "methods": Counter()}
    ratios = []
    for row in rows:
        name, options = data_of(row["dataset"], row["options"])
        try:
            A, classes = matrix(name, json.dumps(options, separators=(",", ":"), sort_keys=True))
        except UserError as error:
            outcomes["scores"]["skipped"] += 1
            print(f"{name}: skipped: {error}"[:MOST_WIDE])
            continue
        if "." in row["reducer"]:
            allow(row["reducer"])
        where = folders.get(row["data_sha256"])
        by_score = "skipped"
        if isinstance(where, Path):
            task = replace(rebuild(row, described(folder, "configs", row["config_hash"]), where), keep_labels=True)
            (again,) = run(task, datasets.open_prepared(where), Provenance(1, 1, "", ""), timed=False)
            by_score = "failed again"
            if again["status"] == "ok":
                by_score = check_scores(row, np.asarray(again["labels"]), again, A, classes)
        by_method, ratio = check_method(row, A, classes)
        outcomes["scores"][by_score] += 1
        if by_method:
            outcomes["methods"][by_method] += 1
            ratios.append(ratio)
        print(
            f"{row['dataset']} {row['options']} {row['reducer']} {row['params']} r = {row['r']}, F = "
            f"{float(row['objective']):.5f}: scores: {by_score}; method: {by_method or 'not computed'} ({ratio:.4f})",
            flush=True,
        )
    for name, counts in outcomes.items():
        print(name, dict(counts))
    if ratios:
        mean = np.exp(np.mean(np.log(ratios)))
        print(
            f"F over scikit-learn's F: geometric mean {mean:.4f}, largest {max(ratios):.4f}, over {len(ratios)} cells"
        )
    bad = outcomes["methods"]["disagrees"]
    return int(outcomes["scores"]["disagrees"] > 0 or bad > 0.05 * sum(outcomes["methods"].values()))


if __name__ == "__main__":
    sys.exit(main())
