"""Names that lf20's facts, figures, tables and claims share: its studies and sizes, and the runs that several read."""

import json

import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.claims.reported import numbers

ORL, ORL_64, NIPS, NIPS_RUNS = "lf20_orl", "lf20_fig5", "lf20_nips", "lf20_nips_runs"
ORL_TIMES, ORL_64_TIMES = "lf20_times", "lf20_fig4_times"
# Figure 8 scored as the report's code did: (study, reducer).
AS_SCORED = {"leverage": "lf20_fig8_leverage", "random_sign": "lf20_fig8_random_sign"}
NAMES = {  # in statements of claims
    "random_sign": "RP", "gaussian": "Gaussian", "achlioptas": "Achlioptas", "fjlt": "FJLT", "leverage": "Sampl/SVD",
}  # fmt: skip
MATRICES = ("random_sign", "gaussian", "achlioptas", "fjlt")
TABLE2 = {"none": "A", "approx_svd": "AV_k", "leverage_approx": "ASD", "random_sign": "AR"}
ONE_RUN = ("none", "approx_svd")  # nothing is drawn that could be repeated, so Table 2 has one run on NIPS, too
BEST_OF = 100
ENOUGH = 130  # the t at which the report says that F and P are almost at their best
WORDS_R = 30  # of Figures 6 and 10
TABLE2_NIPS_R = 60
GOOD = 0.5
NEAR = 0.05  # of a reported curve


def with_matching(results: Results) -> pd.DataFrame:
    """Return the rows of Figure 8 under both matchings, distinguished by ``params``."""
    parts = []
    for reducer, study in AS_SCORED.items():
        for matching, name in (("best", ORL), ("report's", study)):
            try:
                rows = results.rows(name, datasets=["orl"], reducers=[reducer])
            except NotRunError:
                continue
            parts.append(rows.assign(params=f'{{"matching":"{matching}"}}'))
    if not parts:
        raise NotRunError(f"no rows of {ORL}")
    return pd.concat(parts)


def near_reported(results: Results) -> dict[tuple[str, str], tuple[int, int]]:
    """Count the r at which mean P on ORL is within 0.05 of the published curve.

    Returns
    -------
    dict
        (reducer, ``"best"`` or ``"report's"``) to the number of such r and the number of all r.
    """
    curve = {(number.method, int(number.r)): number.value for number in numbers("lf20_fig8", quantity="accuracy")}
    counts = {}
    for (reducer, params), rows in with_matching(results).groupby(["reducer", "params"]):
        reported = rows["r"].map({r: value for (name, r), value in curve.items() if name == reducer})
        gaps = (rows["accuracy"] - reported).groupby(rows["r"]).mean().dropna().abs()
        counts[str(reducer), json.loads(str(params))["matching"]] = int((gaps <= NEAR).sum()), len(gaps)
    return counts


def near_in_words(results: Results) -> str:
    """Return at how many r mean P is near the reported curves, under either matching."""
    counts = near_reported(results)
    words = {"report's": "the matching of the report's code", "best": "the best matching"}
    return "; ".join(
        f"{label} at {counts[name, matching][0]} of {counts[name, matching][1]} r under {words[matching]}"
        for name, label in (("leverage", "leverage"), ("random_sign", "random signs"))
        for matching in ("report's", "best")
        if (name, matching) in counts
    )


def table2_runs(results: Results, dataset: str, method: str) -> pd.DataFrame:
    """Return P and F of the runs behind a cell of Table 2, one row per repetition.

    For a method that depends on r: on ORL the mean over r ≥ 130, beyond which the report sees little change; on NIPS
    the runs at r = 60, the best r of its Figure 7. A thinned run uses the nearest r.
    """
    rows = results.rows(ORL if dataset == "orl" else NIPS, datasets=[dataset], reducers=[method])
    if method in ("leverage_approx", "random_sign"):
        sizes = set(rows["r"])
        if dataset == "orl":
            rows = rows[rows["r"] >= min(ENOUGH, max(sizes))]
        else:
            rows = rows[rows["r"] == min(sizes, key=lambda r: (abs(r - TABLE2_NIPS_R), r))]
    return rows.groupby(REPETITION)[["accuracy", "objective"]].mean()
