"""Names that bzmd15's figures, table and claims share, and the lower bound of F."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.claims.catalogue import fact
from kmdr.datasets import Dataset
from kmdr.figures.panels import dataset_label
from kmdr.linalg import squared_frobenius, top_right_singular_vectors

REPEATS = 5  # "the average values of five independent executions" (§7.4)
COLUMNS: Mapping[str, tuple[str, str]] = {  # the datasets of each figure
    "bzmd15_fig1": ("synth", "usps"),
    "bzmd15_fig2": ("coil20", "light"),
    "bzmd15_fig3": ("pie", "orl_64x64"),
}
FIGURES = tuple(COLUMNS)
TIMES, SYNTH_TIMES = "bzmd15_times", "bzmd15_synth_times"
ENDS = ("bzmd15_ends", "bzmd15_ends_orl")
REAL = ("usps", "coil20", "light", "pie", "orl_64x64")
NAMES = {  # in the paper
    "leverage": "Sampl/SVD", "leverage_approx": "Sampl/ApproxSVD", "random_sign": "RP", "svd": "SVD",
    "approx_svd": "ApprSVD", "laplacian_score": "LapScores", "none": "kMeans",
}  # fmt: skip
REDUCED = ("leverage", "leverage_approx", "random_sign", "svd", "approx_svd", "laplacian_score")
PROPOSED = ("leverage", "leverage_approx", "random_sign", "approx_svd")  # Algorithms 1 to 3; the exact SVD is of [12]
BOUNDS = {name: f"bzmd15_bound_{name}" for name in REAL}


def _bound(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return ‖A − A_k‖²/‖A‖², a lower bound of F of every partition (§2.2: XXᵀA has rank at most k)."""
    del results
    (data,) = datasets
    A = data.A.astype(np.float64)
    inside = squared_frobenius(A @ top_right_singular_vectors(A, data.k))
    bound = 1 - inside / squared_frobenius(A)
    return pd.DataFrame({"dataset": [data.name], "k": [data.k], "bound": [bound]})


FACTS = tuple(fact(name, [dataset])(_bound) for dataset, name in BOUNDS.items())


def bounds(results: Results) -> dict[str, float]:
    """Return the lower bound of F of every dataset for which it was computed."""
    by_dataset = {}
    for name, stem in BOUNDS.items():
        try:
            by_dataset[name] = float(results.fact(stem)["bound"].iloc[0])
        except NotRunError:
            continue
    return by_dataset


def label(results: Results, dataset: str, method: str = "") -> str:
    """Return the names of dataset and method as in the paper; a stand-in is marked."""
    name = dataset_label(dataset) + (" (stand-in)" if dataset in results.stand_ins else "")
    return f"{NAMES[method]} on {name}" if method else name
