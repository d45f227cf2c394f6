"""Recompute the numbers of a report from its rows and facts, without any of kmdr's code.

``python scripts/recompute.py [DIR]`` (by default ``results/reference``) computes effects, intervals and p-values again
and compares them with ``components.csv``, ``verdicts.csv``, ``margins.csv``, the tables and the figures. The statistics
follow the papers' ``frozen.json`` and the references that are named there; only numpy, pandas and scipy are used. It
prints how many numbers of each file are equal, different, or not recomputed and why, and exits with 1 if any differs or
a line of ``components.csv`` has no recomputation. Not recomputed are numbers that kmdr draws at random (p-values of
universes, intervals of shares) and the verdicts in each universe, which need every test on the rows of each.

Numbers are equal within 1e-9 of their size or, for p-values, of their logarithm.
"""

import argparse
import json
import lzma
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import stdtr, stdtrit

Array = NDArray[np.float64]
PAPERS = Path(__file__).parents[1] / "src/kmdr/papers"
LEVEL = 0.05
ROUNDING = 1e-12  # smaller differences of numbers of size 1 are zero
TOLERANCE = 1e-9

METHODS = {
    "Sampl/SVD": "leverage",
    "Sampl/ApproxSVD": "leverage_approx",
    "RP": "random_sign",
    "SVD": "svd",
    "ApprSVD": "approx_svd",
    "LapScores": "laplacian_score",
    "LS": "laplacian_score",
    "LLE": "lle",
    "PD": "sparsified",
    "SE": "sparse_embedding",
    "kMeans": "none",
    "HD": "none",
    "Gaussian": "gaussian",
    "Achlioptas": "achlioptas",
    "FJLT": "fjlt",
    "Sampl/SVD, unsquared": "leverage_sqrt",
}
DATASETS = {
    "Synth": "synth",
    "USPS": "usps",
    "COIL20": "coil20",
    "PIE": "pie",
    "LIGHT (stand-in)": "light",
    "ORL 64×64": "orl_64x64",
    "ORL 112×92": "orl",
    "NIPS": "nips",
    "SECTOR-like": "sector_like",
    "RCV1-like": "rcv1_like",
    "Benchmark k10": "benchmark_k10",
    "Benchmark k20": "benchmark_k20",
    "Benchmark k30": "benchmark_k30",
    "Benchmark k40": "benchmark_k40",
}
# Studies of times alone, by the study that they belong to.
TIMES = {
    "bzd10_fig1": "bzd10_fig1_times",
    "bzd10_table2": "bzd10_table2_times",
    "bzmd15_fig1": "bzmd15_times|bzmd15_synth_times",
    "bzmd15_fig2": "bzmd15_times",
    "bzmd15_fig3": "bzmd15_times",
    "lf20_orl": "lf20_times",
    "lf20_fig5": "lf20_fig4_times",
    "lst17_coil20": "lst17_times",
}
QUANTITIES = {"P": "accuracy", "F": "objective"}


class Result(NamedTuple):
    """A line of ``components.csv``."""

    effect: float
    low: float
    high: float
    p_for: float
    p_against: float
    n: int


# --- tests ------------------------------------------------------------------------------------------------------------


def t_test(values: Array, bound: float) -> tuple[float, float, float, float]:
    """Return the 95 % interval of the mean, and the p-values of mean ≤ and mean ≥ bound.

    The wider interval and the larger p-values of Student's test and of the same after Hall's (1992) transformation
    t + at²/3 + a²t³/27 + a/6, with a = g(1 + 2/√n)/√n and g the skewness by unbiased cumulants.
    """
    n, mean = len(values), values.mean()
    if n == 1:
        return np.nan, np.nan, 1.0, 1.0
    if np.ptp(values) <= ROUNDING:
        return mean, mean, float(not mean > bound), float(not mean < bound)
    error = values.std(ddof=1) / np.sqrt(n)
    a = stats.skew(values, bias=False) * (1 + 2 / np.sqrt(n)) / np.sqrt(n) if n > 2 else 0.0

    def hall(t: float) -> float:
        return float(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)

    def inverse(y: float) -> float:
        return float(3 / a * (np.cbrt(1 + a * (y - a / 6)) - 1)) if a else y

    q, t = stdtrit(n - 1, 1 - LEVEL / 2), (mean - bound) / error
    low = mean - error * max(q, inverse(q))
    high = mean - error * min(-q, inverse(-q))
    return low, high, stdtr(n - 1, max(-t, -hall(t))), stdtr(n - 1, max(t, hall(t)))


def sign_test(values: Array, bound: float) -> tuple[float, float, float, float]:
    """Return the exact 95 % interval of the median, and the sign test's p-values of median ≤ and median ≥ bound."""
    _, low, high = median_interval(values)
    greater, less, n = (values > bound).sum(), (values < bound).sum(), len(values)
    return low, high, float(stats.binom.sf(greater - 1, n, 0.5)), float(stats.binom.sf(less - 1, n, 0.5))


def median_interval(values: Array) -> tuple[float, float, float]:
    """Return a median with the interval between two order statistics that the sign test gives at 95 %.

    All are nan without values: nothing was timed serially.
    """
    if not len(values):
        return np.nan, np.nan, np.nan
    x, place = np.sort(values), int(stats.binom.ppf(LEVEL / 2, len(values), 0.5))
    return float(np.median(x)), *((float(x[place - 1]), float(x[-place])) if place else (np.nan, np.nan))


class Test(NamedTuple):
    """The comparison at the end of a label."""

    kind: str  # above, below or within
    bound: float
    centre: float = 0.0

    def __call__(
        self, values: Array, bound: float | None = None, *, logs: bool = False, median: bool = False
    ) -> Result:
        """Test the mean or median of values, one per repetition, against the bound or another one."""
        bound = self.bound if bound is None else bound
        logs = logs and not median  # a median of ratios needs no logarithms
        values = np.log(values) if logs else values
        ends = [self.centre - bound, self.centre + bound] if self.kind == "within" else [bound]
        ends = [np.log(end) if logs else end for end in ends]
        for end in ends:
            values = np.where(np.abs(values - end) <= ROUNDING, end, values)
        tests = [(sign_test if median else t_test)(values, end) for end in ends]
        low, high = tests[0][:2]
        if self.kind == "above":
            p_for, p_against = tests[0][2:]
        elif self.kind == "below":
            p_against, p_for = tests[0][2:]
        else:
            (_, _, above_low, below_low), (_, _, above_high, below_high) = tests
            p_for, p_against = max(above_low, below_high), min(1.0, 2 * min(below_low, above_high))
        effect = float(np.median(values)) if median else values.mean()
        if logs:
            effect, low, high = np.exp([effect, low, high])
        return Result(effect, low, high, p_for, p_against, len(values))


def number(text: str) -> float:
    """Return a number as a label has it."""
    return 0.5 if text == "½" else float(text.replace("−", "-"))


def test_of(label: str) -> Test | None:
    """Return the test that a label names, or None."""
    value = r"(−?[\d.]+|½)"
    if match := re.search(rf"within (?:({value}) )?± ?{value}", label):
        return Test("within", number(match[3]), number(match[1] or "0"))
    if match := re.search(rf"(above|below|>|<) {value}(?=$|,| on n)", label):
        return Test({">": "above", "<": "below"}.get(match[1], match[1]), number(match[2]))
    return None


def exact_share(successes: int, n: int, bound: float, *, at_most: bool) -> Result:
    """Return the exact binomial test of a share, with Clopper and Pearson's interval."""
    low = stats.beta.ppf(LEVEL / 2, successes, n - successes + 1) if successes else 0.0
    high = stats.beta.ppf(1 - LEVEL / 2, successes + 1, n - successes) if successes < n else 1.0
    few, many = stats.binom.cdf(successes, n, bound), stats.binom.sf(successes - 1, n, bound)
    p_for, p_against = (few, many) if at_most else (many, few)
    return Result(successes / n, low, high, p_for, p_against, n)


def conjunction(results: Sequence[Result]) -> tuple[float, float]:
    """Return the p-values that all statements are true (intersection–union), and that one is false (Bonferroni)."""
    return max(r.p_for for r in results), min(1.0, len(results) * min(r.p_against for r in results))


def partial_conjunction(groups: Sequence[Sequence[Result]], least: int) -> Result:
    """Return the test that all statements are true in at least some groups (Benjamini and Heller 2008)."""
    pairs = [conjunction(group) for group in groups]
    m = len(pairs)
    p_for = sorted(p for p, _ in pairs)[least - 1] * (m - least + 1)
    p_against = sorted(p for _, p in pairs)[m - least] * least
    true = sum(p <= LEVEL for p, _ in pairs)
    return Result(true, np.nan, np.nan, min(1.0, p_for), min(1.0, p_against), max(r.n for g in groups for r in g))


def text_of(path: Path) -> str:
    """Return the text of a file that may be compressed."""
    path = stored(path)
    return (lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()).decode()


def stored(path: Path) -> Path:
    """Return the path of a file, or of its compressed form if there is only that."""
    return path if path.is_file() else path.with_name(f"{path.name}.xz")


# --- rows -------------------------------------------------------------------------------------------------------------


class Folder:
    """A results folder: rows, facts, and the numbers that the papers report."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def rows(self) -> pd.DataFrame:
        """All rows that did not fail."""
        rows = pd.read_csv(self.path / "rows.csv.xz", low_memory=False)
        rows = rows[rows.status == "ok"].copy()
        rows["r"] = rows.r.astype(int)
        rows["reduction_seconds"] = rows.prepare_seconds + rows.reduce_seconds
        rows["options"] = rows.options.fillna("{}")
        return rows

    @cached_property
    def components(self) -> pd.DataFrame:
        """The statements of the claims."""
        return pd.read_csv(self.path / "components.csv")

    @cached_property
    def rows_of_study(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The rows of each study and dataset."""
        return {(str(s), str(d)): group for (s, d), group in self.rows.groupby(["study", "dataset"])}

    @cache  # noqa: B019
    def table(self, study: str, dataset: str, method: str, quantity: str) -> pd.DataFrame:
        """Return a quantity: a line per repetition, a column per r; times only if they were taken alone."""
        if quantity.endswith("seconds"):
            study = "|".join([study, *(times for name, times in TIMES.items() if re.fullmatch(study, name))])
        tables = [
            rows
            for (name, data), rows in self.rows_of_study.items()
            if data == dataset and re.fullmatch(study, name) and method in set(rows.reducer)
        ]
        if not tables:
            return pd.DataFrame()
        rows = pd.concat(tables)
        rows = rows[rows.reducer == method]
        if quantity.endswith("seconds"):  # a time that was measured twice is the mean of both
            timed = rows[rows[quantity].notna()]
            rows = timed[timed.concurrency == 1] if (timed.concurrency == 1).any() else timed
            return rows.pivot_table(index="repeat", columns="r", values=quantity).sort_index()
        rows = rows.sort_values("concurrency", kind="stable").drop_duplicates(["repeat", "r"])
        return rows.pivot(index="repeat", columns="r", values=quantity).sort_index()

    def vector(self, study: str, dataset: str, method: str, quantity: str, r: int | None = None) -> Array:
        """Return a quantity at one r, in the order of the repetitions."""
        table = self.table(study, dataset, method, quantity)
        return table[r if r is not None else table.columns[0]].dropna().to_numpy(float)

    @cache  # noqa: B019
    def fact(self, name: str) -> pd.DataFrame:
        """Return the table of a fact."""
        return pd.read_csv(stored(self.path / f"facts/{name}.csv"))

    @cache  # noqa: B019
    def reported(self, paper: str) -> pd.DataFrame:
        """Return the numbers that a paper reports."""
        return pd.read_csv(PAPERS / paper / "reported.csv")

    @cache  # noqa: B019
    def words(self, claim: str) -> str:
        """Return the test of a claim in words, as it was frozen."""
        frozen = json.loads((PAPERS / claim.partition("-")[0] / "frozen.json").read_text("utf-8"))
        return str(frozen["claims"][claim]["test"])

    @cache  # noqa: B019
    def multiverse(self, paper: str) -> "Universes":
        """Return the universes of a paper."""
        return Universes(self, paper)

    @cached_property
    def multiverse_rows(self) -> dict[str, pd.DataFrame]:
        """The rows of all multiverses that did not fail, by configuration."""
        rows = pd.read_csv(self.path / "multiverse/rows.csv.xz", low_memory=False)
        return {str(name): group for name, group in rows[rows.status == "ok"].groupby("config_hash")}

    @cached_property
    def rows_by_config(self) -> dict[str, pd.DataFrame]:
        """The rows of all studies that did not fail, by configuration."""
        return {str(name): group for name, group in self.rows[self.rows.status == "ok"].groupby("config_hash")}

    def number(self, item: str, quantity: str, **fixed: Any) -> tuple[float, float]:
        """Return a reported number and its reading error."""
        table = self.reported(item.partition("_")[0].partition("-")[0])
        table = table[(table.id == item) & (table.quantity == quantity)]
        for column, value in fixed.items():
            table = table[table[column].isna() if value is None else table[column] == value]
        return float(table.value.iloc[0]), float(table.reading_error.iloc[0])


def aligned(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two tables on the trials that both have; one column stands for every r of the other."""
    rows = a.index.intersection(b.index)
    a, b = a.loc[rows], b.loc[rows]
    if b.shape[1] == 1 and list(a.columns) != list(b.columns):
        b = pd.DataFrame(np.repeat(b.to_numpy(), a.shape[1], 1), index=rows, columns=a.columns)
    elif a.shape[1] == 1 and list(a.columns) != list(b.columns):
        a = pd.DataFrame(np.repeat(a.to_numpy(), b.shape[1], 1), index=rows, columns=b.columns)
    columns = a.columns.intersection(b.columns)
    a, b = a[columns], b[columns]
    both = a.notna() & b.notna()
    return a.where(both), b.where(both)


def difference(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return paired differences."""
    a, b = aligned(a, b)
    return a - b


def ratio(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return paired ratios."""
    a, b = aligned(a, b)
    return a / b


def sizes(table: pd.DataFrame, least: float = 0, most: float = np.inf) -> list[int]:
    """Return the r of a table in a range, ascending."""
    return sorted(r for r in map(int, table.columns) if least <= r <= most)


def slopes(lines: Any, log: Callable[[Any], Any] = np.log) -> Array:
    """Return the slope of each complete repetition on the logarithm of r."""
    lines = lines.dropna()
    x = log(lines.columns.to_numpy(float))
    return np.asarray(np.polyfit(x, lines.to_numpy(float).T, 1)[0])


# --- reported numbers as draws ----------------------------------------------------------------------------------------


def best_weights(F: Array, m: int) -> tuple[NDArray[np.intp], Array]:
    """Return the order of runs by F, and the probability of each that it is the best of m random runs."""
    n = len(F)
    i = np.arange(1, n)
    shrinking = np.maximum(n - i - m + 1, 0) / (n - i)  # C(n − i − 1, m − 1)/C(n − i, m − 1)
    return np.argsort(F, kind="stable"), m / n * np.cumprod(np.concatenate([[1.0], shrinking]))


def draw_of_best(value: float, error: float, F: Array, values: Array, m: int) -> Result:
    """Test that a number is the best of m runs by F: by its rank among blocks, and by exact binomial tests."""
    n = len(F)
    if n < m:
        return Result(value - values[np.argmin(F)], np.nan, np.nan, 1.0, 1.0, n)
    order, weights = best_weights(F, m)
    kept, blocks = values[order], n / m
    mean = float(weights @ kept)
    low_edge, high_edge = value - error, value + error
    tails = weights[kept >= low_edge].sum(), weights[kept <= high_edge].sum()
    p_against = min(1.0, 2 * min((blocks * tail + 1) / (blocks + 1) for tail in tails))
    starts = range(0, n - m + 1, m)
    best = np.array([values[s + np.argmin(F[s : s + m])] for s in starts])
    p_for = max(
        float(stats.binom.sf((best >= low_edge).sum() - 1, len(best), LEVEL / 2)),
        float(stats.binom.sf((best <= high_edge).sum() - 1, len(best), LEVEL / 2)),
    )
    limit = ((blocks + 1) * LEVEL / 2 - 1) / blocks  # a tail of at most this is rejected
    by_value = np.argsort(kept, kind="stable")
    v, w = kept[by_value], weights[by_value]
    if limit < 0:
        return Result(value - mean, -np.inf, np.inf, p_for, p_against, n)
    low = v[np.searchsorted(np.cumsum(w), limit, side="right")]
    high = v[::-1][np.searchsorted(np.cumsum(w[::-1]), limit, side="right")]
    return Result(value - mean, value - high, value - low, p_for, p_against, n)


def noncentral_t(t: float, df: int, shift: float) -> float:
    """Return the probability that a noncentral t is at most t, which scipy does not have in the far tail."""
    s = np.linspace(0, 6, 60001)[1:]  # a deviation over its expectation
    return float(np.sum(stats.norm.cdf(t * s - shift) * stats.chi.pdf(s, df, scale=1 / np.sqrt(df))) * (s[1] - s[0]))


def draw_of_run(value: float, error: float, values: Array, *, logs: bool = False) -> Result:
    """Test that a number is one more normal run: Student's prediction interval; for, noncentral t."""
    n, edges = len(values), (value - error, value + error)
    x = np.log(values) if logs else values
    edge = np.log(edges) if logs else np.array(edges)
    mean, s, law = x.mean(), x.std(ddof=1), stats.t(n - 1)
    spread = s * np.sqrt(1 + 1 / n)
    t = (edge - mean) / spread
    p_against = min(1.0, 2 * min(law.sf(t[0]), law.cdf(t[1])))
    z = stats.norm.ppf(1 - LEVEL / 2)
    t = (edge - mean) * np.sqrt(n) / s
    p_for = max(noncentral_t(t[0], n - 1, z * np.sqrt(n)), noncentral_t(-t[1], n - 1, z * np.sqrt(n)))
    low, high = mean - law.ppf(0.975) * spread, mean + law.ppf(0.975) * spread
    if logs:
        mean, low, high = np.exp([mean, low, high])
    return Result(value - mean, value - high, value - low, p_for, p_against, n)


def computed(value: float, error: float, ours: float) -> Result:
    """Test that a deterministic number is ours to its last digit."""
    same = abs(value - ours) <= error * (1 + 1e-9)
    return Result(value - ours, value - ours, value - ours, float(not same), float(same), 1)


def together(results: Sequence[Result]) -> Result:
    """Return Fisher's combination of independent p-values."""
    p = float(stats.chi2.sf(-2 * sum(np.log(r.p_against) for r in results), 2 * len(results)))
    return Result(p, np.nan, np.nan, max(r.p_for for r in results), p, max(r.n for r in results))


def draw_of_share(value: float, error: float, runs: int, successes: int, n: int) -> Result:
    """Test the number of successes of some runs: Fisher's exact test; for, exact binomial tests."""

    def p_against(low: float, high: float) -> float:
        def tail(theirs: int, *, up: bool) -> float:
            law = stats.hypergeom(runs + n, successes + theirs, runs)
            return float(law.sf(theirs - 1) if up else law.cdf(theirs))

        return min(1.0, 2 * min(tail(low_count(low), up=True), tail(high_count(high), up=False)))

    def low_count(x: float) -> int:
        return max(0, int(np.ceil(x * runs - 1e-9)))

    def high_count(x: float) -> int:
        return min(runs, int(np.floor(x * runs + 1e-9)))

    low, high = value - error, value + error
    inside = [j / runs for j in range(runs + 1) if p_against(j / runs, j / runs) > LEVEL]
    z = LEVEL / 2
    # The probability of success at which a tail beyond the number is 2.5 %, and the exact test that ours is beyond it.
    few, many = low_count(low), high_count(high)
    least = stats.beta.ppf(z, few, runs - few + 1) if few else 0.0
    most = stats.beta.ppf(1 - z, many + 1, runs - many) if many < runs else 1.0
    p_for = max(float(stats.binom.sf(successes - 1, n, least)), float(stats.binom.cdf(successes, n, most)))
    return Result(value - successes / n, value - max(inside), value - min(inside), p_for, p_against(low, high), n)


# --- the statements ---------------------------------------------------------------------------------------------------

Values = pd.DataFrame | Array
Rule = Callable[..., Result | Values | tuple[Values, bool]]
RULES: list[tuple[str, re.Pattern[str], Rule]] = []
SELECTED = "bzmd15_fig[123]"
ENDS = f"{SELECTED}|bzmd15_ends(_orl)?"
SLOW = "lst17_(coil20|sector|sector_slow|sector_lle|rcv1|rcv1_slow|ilsvrc2012|ilsvrc)"


def rule(claims: str, label: str) -> Callable[[Rule], Rule]:
    """Register the recomputation of the labels of some claims."""

    def register(function: Rule) -> Rule:
        RULES.append((claims, re.compile(label), function))
        return function

    return register


@rule("bmd09-[12]", r"(?P<q>[FP]) at (?P<at>r = \d+|all features), reported − ours$")
def _(folder: Folder, q: str, at: str) -> Result:
    return best_of_cell(folder, "bmd09_table1", {"leverage": "bmd09_table1", "none": "bmd09_table1"}, q, at, 30, 1)


@rule("lf20-8", r"(?P<q>[FP]) at (?P<at>r = \d+|all features), reported − ours, (?P<kept>best of 100|one run)$")
def _(folder: Folder, q: str, at: str, kept: str) -> Result:
    studies = {"leverage": "lf20_nips_runs", "none": "lf20_nips"}
    return best_of_cell(folder, "lf20_fig7", studies, q, at, 100, 1 if kept == "one run" else 100)


def best_of_cell(folder: Folder, item: str, studies: dict[str, str], q: str, at: str, m: int, m_all: int) -> Result:
    """Return the test of a cell on NIPS: the best of m runs at an r, or of m_all on all features."""
    r = None if at == "all features" else int(at.removeprefix("r = "))
    method = "none" if r is None else "leverage"
    value, error = folder.number(item, QUANTITIES[q], dataset="nips", method=method, r=r)
    F, values = (folder.vector(studies[method], "nips", method, name, r) for name in ("objective", QUANTITIES[q]))
    return draw_of_best(value, error, F, values, m_all if r is None else m)


@rule("bmd09-[12]|lf20-8", r"(?P<q>[FP]), 4 (numbers|cells) together$")
def _(folder: Folder, q: str, claim: str) -> Result:
    ats = ["r = 15", "r = 30", "r = 60", "all features"]
    if claim == "lf20-8":
        studies = {"leverage": "lf20_nips_runs", "none": "lf20_nips"}
        return together([best_of_cell(folder, "lf20_fig7", studies, q, at, 100, 1) for at in ats])
    studies = dict.fromkeys(["leverage", "none"], "bmd09_table1")
    return together([best_of_cell(folder, "bmd09_table1", studies, q, at, 30, 1) for at in ats])


@rule("bmd09-3", "greatest rank of a named word by its score, at most [0-9]+")
def _(folder: Folder, bound: float) -> Result:
    scores = folder.fact("bmd09_scores")
    rank = scores.score.rank(ascending=False, method="min")[scores.named == 1]
    return certain(rank.max(), bound, len(rank), at_most=True)


def certain(value: float, bound: float, n: int, *, at_most: bool = False) -> Result:
    """Return the result of a number that is a function of the data."""
    true = value <= bound if at_most else value >= bound
    return Result(value, value, value, float(not true), float(true), n)


def best_of_blocks(folder: Folder, quantity: str) -> Array:
    """Return a quantity of the run of smallest F of each block of 30 runs of bmd09 at r = 30."""
    F, values = (folder.vector("bmd09_table1", "nips", "leverage", q, 30) for q in ("objective", quantity))
    blocks, n = F[: len(F) // 30 * 30].reshape(-1, 30), len(F) // 30
    return np.asarray(values[: n * 30].reshape(-1, 30)[np.arange(n), blocks.argmin(axis=1)])


@rule("bmd09-4", "F/F\\(all\\) − 1 at r = 30, best of 30")
def _(folder: Folder) -> Array:
    F = folder.vector("bmd09_table1", "nips", "none", "objective")
    return np.asarray(best_of_blocks(folder, "objective") / F.mean() - 1)


@rule("bmd09-4", "P − P\\(all\\) at r = 30, best of 30")
def _(folder: Folder) -> Array:
    P = folder.vector("bmd09_table1", "nips", "none", "accuracy")
    return np.asarray(best_of_blocks(folder, "accuracy") - P.mean())


@rule("bmd09-4", "the same, single runs")
def _(folder: Folder) -> pd.DataFrame:
    return ratio(*(folder.table("bmd09_table1", "nips", m, "objective") for m in ("leverage", "none")))[[30]] - 1


@rule("bmd09-4", "P − P\\(all\\) at r = 30, single runs")
def _(folder: Folder) -> pd.DataFrame:
    return difference(*(folder.table("bmd09_table1", "nips", m, "accuracy") for m in ("leverage", "none")))[[30]]


@rule("bmd09-5", "share of (?P<documents>the documents with )?(?P<word>\\w+) in (?P<sections>.+), at least [0-9.]+")
def _(folder: Folder, documents: str | None, word: str, sections: str, bound: float) -> Result:
    names = {"Neuroscience": "NS", "Learning Theory": "LT", "Control": "CN"}
    words = folder.fact("bmd09_words").set_index("word").loc[[word]].set_index("section")
    counts = words["papers" if documents else "occurrences"]
    inside = counts[[names[name] for name in sections.split(" and ")]].sum()
    return certain(inside / counts.sum(), bound, int(counts.sum()))


@rule("bmd09-6", "probability that 30 draws hold 11 of the 12")
def _(folder: Folder) -> Result:
    p = top_and_rest(folder)[0]
    missed = 0.0  # probability that 30 draws miss at most one of the 12, by inclusion and exclusion
    for free in [(), *combinations(range(12), 1)]:
        others = [i for i in range(12) if i not in free]
        for size in range(len(others) + 1):
            for subset in combinations(others, size):
                missed += (-1) ** size * (1 - p[list(free)].sum() - p[list(subset)].sum()) ** 30
    return plausible(missed)


@rule("bmd09-6", "the same if draws continue until 30 distinct columns have occurred")
def _(folder: Folder) -> Result:
    # Words occur at independent exponential times. 11 of the 12 are among the first 30 if the 11th of them occurs
    # before the 20th of the others.
    top, rest = top_and_rest(folder)
    x, w = np.polynomial.legendre.leggauss(400)
    t = np.exp(np.log(1e-3) + (x + 1) / 2 * np.log(1e7))
    w = w / 2 * np.log(1e7) * t
    occurred = np.zeros((len(t), 20))  # the number of others, at most 19
    occurred[:, 0] = 1
    for rate in rest:
        q = -np.expm1(-rate * t)[:, None]
        occurred = occurred * (1 - q) + np.pad(occurred, ((0, 0), (1, 0)))[:, :-1] * q
    density = np.zeros(len(t))
    for last in range(12):
        others = np.delete(top, last)
        q = -np.expm1(-others[:, None] * t)
        one_missing = sum(np.prod(np.delete(q, i, 0), 0) * (1 - q[i]) for i in range(11))
        density += top[last] * np.exp(-top[last] * t) * one_missing
    return plausible(float(np.sum(w * density * occurred.sum(axis=1))))


def top_and_rest(folder: Folder) -> tuple[Array, Array]:
    """Return the probabilities that a draw gives the 12 words of largest score, and the others."""
    score = np.sort(folder.fact("bmd09_scores").score.to_numpy(float))[::-1]
    return score[:12] / score.sum(), score[12:] / score.sum()


def plausible(p: float) -> Result:
    """Return the result of a probability that is the p-value against, and plausible from the level on."""
    return Result(p, p, p, float(p < LEVEL), p, 12)


@rule("bmd09-7", "share of papers in the same cluster")
def _(folder: Folder) -> Array:
    return folder.fact("bmd09_partitions").agreement.to_numpy(float)


@rule("bzd10-[12]", "slope of (?P<q>[FP]) on log t")
def _(folder: Folder, q: str) -> Array:
    return slopes(folder.table("bzd10_fig1", "orl_64x64", "random_sign", QUANTITIES[q]))


@rule("bzd10-1", "share of the whole decrease of F that is done at t = 25")
def _(folder: Folder) -> Array:
    F = folder.table("bzd10_fig1", "orl_64x64", "random_sign", "objective")
    last = F[sizes(F)[-4:]].mean(axis=1)
    return ((F[5] - F[25]) / (F[5] - last)).to_numpy(float)


@rule("bzd10-[12]", "(?P<q>[FP]), change from t ≈ 90 to t = 285 … 300 as a share")
def _(folder: Folder, q: str) -> Array:
    return share_left(folder.table("bzd10_fig1", "orl_64x64", "random_sign", QUANTITIES[q]), (80, 100), (285, 300))


@rule("lf20-1", "(?P<q>[FP]), change as a share of its whole change, t = (?P<a>\\d+)–(?P<b>\\d+) against 115–130")
def _(folder: Folder, q: str, a: str, b: str) -> Array:
    return share_left(folder.table("lf20_orl", "orl", "random_sign", QUANTITIES[q]), (115, 130), (int(a), int(b)))


def share_left(lines: pd.DataFrame, before: tuple[int, int], after: tuple[int, int]) -> Array:
    """Return the change between two ranges of r over that from the least r to the second range."""
    first = lines[sizes(lines, *before)].mean(axis=1)
    last = lines[sizes(lines, *after)].mean(axis=1)
    return ((last - first) / (last - lines[sizes(lines)[0]])).to_numpy(float)


@rule("bzd10-3", "share of the steps of t")
def _(folder: Folder) -> Array:
    return np.asarray(moves_alike(folder).mean(axis=1))


@rule(
    "bzd10-3", "share of runs in which F and P do not move against each other from t = 20 to 25, above (?P<p>[0-9.]+)"
)
def _(folder: Folder, p: str) -> Result:
    F = folder.table("bzd10_fig1", "orl_64x64", "random_sign", "objective")
    step = moves_alike(folder)[:, sizes(F).index(20)]
    return exact_share(int(step.sum()), len(step), float(p), at_most=False)


def moves_alike(folder: Folder) -> NDArray[np.bool_]:
    """Return whether F and P do not move against each other, for each repetition and step of t."""
    F, P = (
        np.diff(folder.table("bzd10_fig1", "orl_64x64", "random_sign", q).to_numpy(float)) for q in QUANTITIES.values()
    )
    return np.asarray(F * P >= 0)


@rule("bzd10-4", "share of the increase of clustering time that is done at the middle t")
def _(folder: Folder) -> Array:
    lines = folder.table("bzd10_fig1", "orl_64x64", "random_sign", "cluster_seconds")
    t = np.array(sizes(lines), float)
    curves = [np.polynomial.Polynomial.fit(t, times, 2) for times in lines.to_numpy(float)]
    ends = [(curve(t[0]), curve((t[0] + t[-1]) / 2), curve(t[-1])) for curve in curves]
    return np.array([(middle - low) / (high - low) for low, middle, high in ends])


@rule("bzd10-4", "clustering time at t = (?P<most>\\d+) ÷ that at t = (?P<least>\\d+)")
def _(folder: Folder, most: str, least: str) -> tuple[Array, bool]:
    lines = folder.table("bzd10_fig1", "orl_64x64", "random_sign", "cluster_seconds")
    return (lines[int(most)] / lines[int(least)]).to_numpy(float), True


@rule("bzd10-4", "total time at t = 275 ÷ that on all features")
def _(folder: Folder) -> tuple[pd.DataFrame, bool]:
    times = (folder.table("bzd10_fig1", "orl_64x64", m, "total_seconds") for m in ("random_sign", "none"))
    return ratio(*times)[[275]], True


@rule("bzd10-5", "reduction time at t = 50, (?P<a>\\w+) ÷ (?P<b>\\w+)")
def _(folder: Folder, a: str, b: str) -> tuple[pd.DataFrame, bool]:
    times = (folder.table("bzd10_table2(_signs)?", "orl_64x64", METHODS[m], "reduction_seconds") for m in (a, b))
    return ratio(*times)[[50]], True


@rule("bzd10-6", "P of RP − that of (?P<other>\\w+) at t = (?P<t>\\d+)")
def _(folder: Folder, other: str, t: str) -> Array:
    ours = folder.table("bzd10_table2_signs", "orl_64x64", "random_sign", "accuracy")[int(t)]
    return np.asarray(
        (ours - folder.vector("bzd10_table2", "orl_64x64", METHODS[other], "accuracy", int(t))[0]).to_numpy(float)
    )


@rule("bzd10-7", "(?P<q>[FP]) of (?P<m>\\w+)( at t = (?P<t>\\d+))?, reported − ours$")
def _(folder: Folder, q: str, m: str, t: str | None) -> Result:
    value = folder.number("bzd10_table2", QUANTITIES[q], method=METHODS[m], r=float(t or 10))
    study = "bzd10_table2_signs" if m == "RP" else "bzd10_table2"
    r = None if m == "HD" else int(t or 0)
    F, values = (folder.vector(study, "orl_64x64", METHODS[m], name, r) for name in ("objective", QUANTITIES[q]))
    return draw_of_best(*value, F, values, 1) if m == "RP" else computed(*value, values[0])


@rule("bzd10-7", "(?P<q>[FP]) of RP, 4 numbers together")
def _(folder: Folder, q: str) -> Result:
    draws = []
    for r in (10, 20, 50, 100):
        F, values = (
            folder.vector("bzd10_table2_signs", "orl_64x64", "random_sign", name, r)
            for name in ("objective", QUANTITIES[q])
        )
        value = folder.number("bzd10_table2", QUANTITIES[q], method="random_sign", r=float(r))
        draws.append(draw_of_best(*value, F, values, 1))
    return together(draws)


def smallest_objective(folder: Folder, dataset: str, studies: str) -> float:
    """Return the smallest F of any run on a dataset as it is."""
    rows_there = [rows for (s, d), rows in folder.rows_of_study.items() if d == dataset and re.fullmatch(studies, s)]
    return float(min(rows.objective[rows.options == "{}"].min() for rows in rows_there))


@rule("bzd10-8", "share of F above 2.33 F_opt at t = (?P<t>\\d+), below (?P<p>[0-9.]+)")
def _(folder: Folder, t: str, p: str) -> Result:
    F = folder.vector("bzd10_table2_signs", "orl_64x64", "random_sign", "objective", int(t))
    limit = 7 / 3 * smallest_objective(folder, "orl_64x64", ".*")
    return exact_share(int((limit < F).sum()), len(F), float(p), at_most=True)


@rule("bzd10-9", "(?P<a>\\w+) ÷ (?P<b>\\w+), .* on n = (?P<n>\\d+)")
def _(folder: Folder, a: str, b: str, n: str) -> tuple[Array, bool]:
    times = folder.fact("bzd10_products").pivot(index=["n", "repeat"], columns="way", values="seconds").loc[int(n)]
    return (times[a] / times[b]).to_numpy(float), True


@rule("bzmd15-1", "(?P<m>[\\w/]+): total time ÷ that of kMeans")
def _(folder: Folder, m: str) -> tuple[pd.DataFrame, bool]:
    return ratio(
        *(folder.table("bzmd15_fig1", "synth", METHODS[name], "total_seconds") for name in (m, "kMeans"))
    ), True


@rule("bzmd15-1", "(?P<m>[\\w/]+): P − P of kMeans at r ≈ 20")
def _(folder: Folder, m: str) -> pd.DataFrame:
    return difference(*(folder.table("bzmd15_synth", "synth", METHODS[name], "accuracy") for name in (m, "kMeans")))


@rule("bzmd15-2", "(?P<m>[\\w/]+) on (?P<d>.+): change of F from r = (?P<a>\\d+) to (?P<b>\\d+)")
def _(folder: Folder, m: str, d: str, a: str, b: str) -> Array:
    lines = folder.table(SELECTED, DATASETS[d], METHODS[m], "objective")
    return np.asarray(slopes(lines) * np.log(int(b) / int(a)))


def selected(folder: Folder, q: str, d: str, *methods: str, studies: str = SELECTED) -> Iterator[pd.DataFrame]:
    """Yield a quantity of bzmd15's figures for some methods."""
    for method in methods:
        yield folder.table(studies, DATASETS[d], METHODS[method], q)


@rule("bzmd15-3", "(?P<m>[\\w/]+) on (?P<d>.+): F ÷ F of kMeans − 1 at r = (?P<r>\\d+)")
def _(folder: Folder, m: str, d: str, r: str) -> pd.DataFrame:
    excess = excess_at_ends(folder, m, d)
    return excess[[int(r)]] if int(r) in excess else excess


@rule(
    "bzmd15-3",
    "(?P<m>[\\w/]+) on (?P<d>.+): distance of F from that of kMeans at r = (?P<a>\\d+) less that at r = (?P<b>\\d+)",
)
def _(folder: Folder, m: str, d: str, a: str, b: str) -> pd.DataFrame:
    distance = excess_at_ends(folder, m, d).abs()
    return (distance[int(a)] - distance[int(b)]).to_frame()


def excess_at_ends(folder: Folder, m: str, d: str) -> pd.DataFrame:
    """Return F ÷ F of k-means − 1 with the added repetitions at the least and the greatest r."""
    return ratio(*selected(folder, "objective", d, m, "kMeans", studies=ENDS)) - 1


@rule("bzmd15-4", "(?P<m>[\\w/]+) on (?P<d>.+): (?P<q>[FP]) − [FP] of LapScores")
def _(folder: Folder, m: str, d: str, q: str) -> pd.DataFrame:
    return difference(*selected(folder, QUANTITIES[q], d, m, "LapScores"))


@rule("bzmd15-5", "P of LapScores − P of (?P<m>[\\w/]+) on (?P<d>[^,]+)")
def _(folder: Folder, m: str, d: str) -> pd.DataFrame:
    return difference(*selected(folder, "accuracy", d, "LapScores", m))


@rule("bzmd15-6", "(?P<m>[\\w/]+) on Synth: P − P of kMeans at r = 20 to 30")
def _(folder: Folder, m: str) -> pd.DataFrame:
    studies = f"{SELECTED}|bzmd15_synth"
    values = difference(*(pooled(folder, studies, "synth", METHODS[name], "accuracy") for name in (m, "kMeans")))
    return values[sizes(values, 20, 30)]


def pooled(folder: Folder, studies: str, dataset: str, method: str, q: str) -> pd.DataFrame:
    """Return a quantity from several studies that may have the same trials."""
    tables = [folder.table(study, dataset, method, q) for study in studies.split("|")]
    shared = pd.concat([table.stack() for table in tables]).groupby(level=[0, 1]).first()
    return pd.DataFrame(shared.unstack())


@rule("bzmd15-6", "(?P<m>[\\w/]+) on (?P<d>.+): F ÷ F of kMeans − 1 at r = 20 to 30")
def _(folder: Folder, m: str, d: str) -> pd.DataFrame:
    excess = ratio(*selected(folder, "objective", d, m, "kMeans")) - 1
    return excess[sizes(excess, 20, 30)]


@rule("bzmd15-6", "(real datasets on which F of all methods is close, at least (?P<least>\\d+)|the same, all)$")
def _(folder: Folder, least: str | None, bound: float) -> Result:
    datasets = ["USPS", "COIL20", "PIE", "ORL 64×64"]
    groups: list[list[Result]] = []
    for d in datasets:
        groups.append([])
        for m in ("Sampl/SVD", "Sampl/ApproxSVD", "RP"):
            excess = ratio(*selected(folder, "objective", d, m, "kMeans")) - 1
            means = excess[sizes(excess, 20, 30)].mean(axis=1).to_numpy(float)
            groups[-1].append(Test("below", bound)(means))
    return partial_conjunction(groups, int(least or len(datasets)))


@rule(
    "bzmd15-7",
    "Theorem (?P<t>\\d+), (?P<m>.+) on (?P<d>.+): share of F above (?P<a>[0-9.]+) F_opt, below (?P<p>[0-9.]+)",
)
def _(folder: Folder, t: str, m: str, d: str, a: str, p: str) -> Result:
    F = pooled(folder, f"bzmd15_theorem{t}|{SELECTED}", DATASETS[d], METHODS[m], "objective")
    limit = round(float(a) * 3) / 3 * smallest_objective(folder, DATASETS[d], ".*")
    fails = (limit < F).any(axis=1)
    return exact_share(int(fails.sum()), len(fails), float(p), at_most=True)


def accuracy_of_runs(folder: Folder, dataset: str) -> Array:
    """Return P of each run of bzmd15's k-means on all features."""
    studies = f"{ENDS}|bzmd15_synth"
    return folder.table(studies, DATASETS[dataset], "none", "accuracy").iloc[:, 0].to_numpy(float)


@rule("bzmd15-8", "P of kMeans on (?P<d>\\w+), below [0-9.]+")
def _(folder: Folder, d: str) -> Array:
    return accuracy_of_runs(folder, d)


@rule("bzmd15-8", "P of kMeans on (?P<d>\\w+) is low in each of 3 readings")
def _(folder: Folder, d: str, bound: float) -> Result:
    below_half = Test("below", bound)(accuracy_of_runs(folder, d))
    readings = [[below_half], [welch(folder, d, other) for other in ("USPS", "ORL 64×64")], [welch(folder, d, "Synth")]]
    result = partial_conjunction(readings, 3)
    p_against = partial_conjunction(readings, 1).p_against
    return result._replace(p_against=p_against, n=min(r.n for group in readings for r in group))


@rule("bzmd15-8", "P of kMeans, (?P<a>.+) − (?P<b>.+), below 0")
def _(folder: Folder, a: str, b: str) -> Result:
    return welch(folder, a, b)


def welch(folder: Folder, a: str, b: str) -> Result:
    """Return Welch's test that P of k-means on one dataset is below P on another."""
    x, y = (accuracy_of_runs(folder, d) for d in (a, b))
    u, v = (values.var(ddof=1) / len(values) for values in (x, y))
    df = (u + v) ** 2 / (u**2 / (len(x) - 1) + v**2 / (len(y) - 1))
    difference, error = x.mean() - y.mean(), np.sqrt(u + v)
    half, t = stats.t.isf(LEVEL / 2, df) * error, difference / error
    p_for, p_against = float(stats.t.cdf(t, df)), float(stats.t.sf(t, df))
    return Result(difference, difference - half, difference + half, p_for, p_against, min(len(x), len(y)))


@rule("bzmd15-9", "(?P<m>[\\w/]+) on (?P<d>.+): total time ÷ that of kMeans")
def _(folder: Folder, m: str, d: str) -> tuple[pd.DataFrame, bool]:
    return from_r(ratio(*selected(folder, "total_seconds", d, m, "kMeans")), 20), True


@rule("bzmd15-9", "(?P<m>[\\w/]+) on (?P<d>.+): P − P of kMeans")
def _(folder: Folder, m: str, d: str) -> pd.DataFrame:
    return from_r(difference(*selected(folder, "accuracy", d, m, "kMeans")), 20)


def from_r(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """Return the columns from an r on; all of a method with one column."""
    return table if table.shape[1] == 1 else table[sizes(table, least)]


@rule("lst17-1", "change of P per tenfold r of (?P<m>\\w+) > 0, (?P<d>.+)")
def _(folder: Folder, m: str, d: str) -> Array:
    return slopes(folder.table(SLOW, DATASETS[d], METHODS[m], "accuracy"), np.log10)


@rule("lst17-[15]", "power of r in the (?P<what>running|reduction) time of (?P<m>\\w+) .*, (?P<d>[^,]+)")
def _(folder: Folder, what: str, m: str, d: str) -> Array:
    q = "total_seconds" if what == "running" else "reduction_seconds"
    return slopes(np.log(folder.table(SLOW, DATASETS[d], METHODS[m], q)))


@rule("lst17-[23]", "P of (?P<a>\\w+) less that of (?P<b>[A-Z]\\w+) [<>] 0, (?P<d>[^,]+)")
def _(folder: Folder, a: str, b: str, d: str) -> pd.DataFrame:
    return difference(*(folder.table(SLOW, DATASETS[d], METHODS[m], "accuracy") for m in (a, b)))


@rule("lst17-3", "P of (?P<m>\\w+) less that of (?P<what>most|all) others, (?P<d>[^,]+)")
def _(folder: Folder, m: str, what: str, d: str) -> Result:
    groups = []
    for other in ("SVD", "RP", "PD", "SE"):
        values = difference(*(folder.table(SLOW, DATASETS[d], METHODS[name], "accuracy") for name in (m, other)))
        groups.append([Test("below", 0.0)(values.mean(axis=1).to_numpy(float))])
    return partial_conjunction(groups, 3 if what == "most" else 4)


@rule("lst17-[45]", "reduction time of (?P<a>\\w+) over that of (?P<b>\\w+) [<>] 1, (?P<d>[^,]+)")
@rule("lst17-7", "reduction time, over that of (?P<b>\\w+), of (?P<a>\\w+) > 200, (?P<d>[^,]+)")
def _(folder: Folder, a: str, b: str, d: str) -> tuple[pd.DataFrame, bool]:
    return ratio(*(folder.table(SLOW, DATASETS[d], METHODS[m], "reduction_seconds") for m in (a, b))), True


@rule("lst17-6", "clustering time, over that on all features, of (?P<m>\\w+) < [0-9.]+, (?P<d>[^,]+)")
def _(folder: Folder, m: str, d: str) -> tuple[pd.DataFrame, bool]:
    return ratio(*(folder.table(SLOW, DATASETS[d], METHODS[n], "cluster_seconds") for n in (m, "kMeans"))), True


@rule("lf20-2", "P, (?P<a>\\w+) − (?P<b>\\w+), within")
def _(folder: Folder, a: str, b: str) -> pd.DataFrame:
    return difference(*(folder.table("lf20_fig5", "orl_64x64", METHODS[m], "accuracy") for m in (a, b)))


LF20 = {
    "approximate": "leverage_approx",
    "exact": "leverage",
    "random signs": "random_sign",
    "leverage": "leverage",
    "A": "none",
    "AV_k": "approx_svd",
    "ASD": "leverage_approx",
    "AR": "random_sign",
}


@rule("lf20-[34]", "P, (?P<a>\\w+) − (?P<b>exact|random signs),")
def _(folder: Folder, a: str, b: str) -> pd.DataFrame:
    return difference(*(folder.table("lf20_orl", "orl", LF20[m], "accuracy") for m in (a, b)))


@rule("lf20-3", "time, approximate ÷ (?P<b>exact|random signs),")
def _(folder: Folder, b: str) -> tuple[pd.DataFrame, bool]:
    return ratio(*(folder.table("lf20_orl", "orl", LF20[m], "total_seconds") for m in ("approximate", b))), True


def good_runs(folder: Folder, study: str, method: str, r: int) -> pd.Series:
    """Return which runs on NIPS have P of at least one half, as numbers."""
    return (folder.table(study, "nips", method, "accuracy")[r].dropna() >= 0.5).astype(float)


@rule("lf20-5", "share of P ≥ 0.5, (?P<way>squared|unsquared), reported − ours")
def _(folder: Folder, way: str) -> Result:
    value, error = {"squared": (0.3, 0.05), "unsquared": (0.5, 0.05)}[way]
    good = good_runs(folder, "lf20_nips_runs", "leverage" if way == "squared" else "leverage_sqrt", 30)
    return draw_of_share(value, error, 100, int(good.sum()), len(good))


@rule("lf20-5", "gain of the share, unsquared − squared")
def _(folder: Folder) -> Array:
    a, b = (good_runs(folder, "lf20_nips_runs", m, 30) for m in ("leverage_sqrt", "leverage"))
    return (a - b).dropna().to_numpy(float)


@rule("lf20-11", "share of P < 0.5 without rescaling − 0.5 of that with it, r = (?P<r>\\d+), below")
def _(folder: Folder, r: str, bound: float) -> Result:
    without = good_runs(folder, "flip_rescaled_lf20", "leverage", int(r))
    scaled = good_runs(folder, "lf20_nips_runs", "leverage", int(r))
    return Test("below", 0.0)(((1 - without) - bound * (1 - scaled)).dropna().to_numpy(float))


@rule(
    "lf20-6",
    "(?P<other>another reading: )?(?P<d>ORL 112×92|NIPS)(, (?P<way>AR one run|k vectors))?: "
    "P, (?P<a>\\w+) − (?P<b>\\w+),",
)
def _(folder: Folder, other: str | None, d: str, way: str | None, a: str, b: str) -> pd.DataFrame | Array:
    if way == "k vectors":
        P = {m: with_k_vectors(folder, d, m) for m in ("A", "AV_k", "ASD", "AR")}
        least = min(map(len, P.values()))
        return np.asarray(P[a][:least] - P[b][:least])
    if d != "NIPS":
        return from_r(difference(*(folder.table("lf20_orl", "orl", LF20[m], "accuracy") for m in (a, b))), 130)
    kept = blocks_on_nips(folder, {"A", "AV_k", "AR"} if way else set() if other else {"A", "AV_k"})
    return np.asarray(kept[a] - kept[b])


def with_k_vectors(folder: Folder, d: str, m: str) -> Array:
    """Return P of a method of lf20's Table 2, with k random vectors for the singular vectors, of each run or block."""
    if m not in {"AV_k", "ASD"}:
        if d == "NIPS":
            return blocks_on_nips(folder, {"A", "AV_k"})[m]
        return from_r(folder.table("lf20_orl", "orl", LF20[m], "accuracy"), 130).mean(axis=1).to_numpy(float)
    table = folder.fact("lf20_vectors")
    runs = table[(table["dataset"] == DATASETS[d]) & (table["method"] == LF20[m])].sort_values("repeat")
    if d != "NIPS":
        return runs["accuracy"].to_numpy(float)
    blocks = runs.groupby(runs["repeat"] // 100)
    if m == "AV_k":
        return blocks["accuracy"].mean().to_numpy(float)
    return np.asarray(runs["accuracy"].loc[blocks["objective"].idxmin()], dtype=float)


def blocks_on_nips(folder: Folder, one_run: set[str]) -> dict[str, Array]:
    """Return P of each block of 100 runs on NIPS at r = 60: of the run of least F, or the mean of methods run once."""
    names = ("A", "AV_k", "ASD", "AR")
    at = {}
    for m in names:
        tables = (folder.table("lf20_nips", "nips", LF20[m], q) for q in ("objective", "accuracy"))
        at[m] = [from_r(table, 60).iloc[:, 0].dropna() for table in tables]
    shared = sorted(set.intersection(*(set(F.index) for F, _ in at.values())))
    kept = {}
    for m, (F, P) in at.items():
        F_blocks, P_blocks = (x[shared].to_numpy(float)[: len(shared) // 100 * 100].reshape(-1, 100) for x in (F, P))
        best = np.take_along_axis(P_blocks, F_blocks.argmin(axis=1)[:, None], axis=1)[:, 0]
        kept[m] = P_blocks.mean(axis=1) if m in one_run else best
    return kept


@rule("lf20-6", "(?P<d>ORL 112×92|NIPS): P of (?P<m>\\w+), reported − ours$")
def _(folder: Folder, d: str, m: str) -> Result:
    return cell_of_table2(folder, d, m)[0]


def cell_of_table2(folder: Folder, d: str, m: str) -> tuple[Result, Array]:
    """Return the test of a cell of lf20's Table 2, and P of its runs: at t = 130 on ORL, at r = 60 on NIPS."""
    value = folder.number("lf20_table2", "accuracy", dataset=DATASETS[d], method=LF20[m])
    if d == "NIPS":
        tables = (folder.table("lf20_nips", "nips", LF20[m], q) for q in ("objective", "accuracy"))
        F, P = (from_r(table, 60).iloc[:, 0].dropna().to_numpy(float) for table in tables)
        return draw_of_best(*value, F, P, 1 if m in {"A", "AV_k"} else 100), P
    table = folder.table("lf20_orl", "orl", LF20[m], "accuracy")
    P = table[130 if 130 in table else table.columns[0]].dropna().to_numpy(float)
    return computed(*value, P[0]) if np.ptp(P) == 0 else draw_of_run(*value, P), P


@rule("lf20-7", "variance of the selected scores, NIPS ÷ ORL")
def _(folder: Folder) -> tuple[Array, bool]:
    nips, orl = (scores(folder, d, "variance_of_scores") for d in ("nips", "orl"))
    return nips / orl, True


def scores(folder: Folder, dataset: str, q: str, *, centred: bool = False) -> Array:
    """Return a statistic of the selected leverage scores of A, of each draw."""
    table = folder.fact("lf20_scores")
    return table[(table.dataset == dataset) & (table.centred == int(centred))].sort_values("draw")[q].to_numpy(float)


@rule(
    "lf20-9",
    r"(?P<q>smallest score|largest score|variance of scores) on (?P<d>.+?)(?P<centred> by centred vectors)?, reported",
)
def _(folder: Folder, q: str, d: str, centred: str | None) -> Result:
    q = q.replace(" ", "_")
    value = folder.number("lf20_table1", q, dataset=DATASETS[d])
    return draw_of_run(*value, scores(folder, DATASETS[d], q, centred=centred is not None), logs=True)


@rule("lf20-10", "F at t = 130, reported − ours, inside")
def _(folder: Folder) -> Result:
    value = folder.number("lf20_fig1", "objective", r=130.0)
    return draw_of_run(*value, folder.vector("lf20_orl", "orl", "random_sign", "objective", 130))


@rule("lf20-12", "share of k-means in the time, (?P<m>\\w+),")
def _(folder: Folder, m: str) -> pd.DataFrame:
    part, whole = (folder.table("lf20_fig5", "orl_64x64", METHODS[m], q) for q in ("cluster_seconds", "total_seconds"))
    return part / whole


# The k and alpha of ess22's instances, and its published constructions.
INSTANCES = {"benchmark_k10": (10, 6), "benchmark_k20": (20, 5), "benchmark_k30": (30, 4), "benchmark_k40": (40, 4)}
CONSTRUCTIONS = {
    "reported": "sensitivity_sampling",
    "Group Sampling": "group_sampling",
    "BICO": "bico",
    "Ray Maker": "ray_maker",
    "StreamKM++": "stream_km",
}


def distortions(folder: Folder, dataset: str, quantity: str = "distortion") -> pd.DataFrame:
    """Return a quantity of our coresets: a line per repetition, a column per size."""
    fact = folder.fact("ess22_distortions")
    fact = fact[(fact.dataset == dataset) & (fact.construction == "published code")]
    return fact.pivot(index="repeat", columns="points", values=quantity)


def published(folder: Folder, dataset: str, method: str, quantity: str) -> "pd.Series[float]":
    """Return a published number of ess22 by size."""
    table = folder.reported("ess22")
    table = table[(table.dataset == dataset) & (table.method == method) & (table.quantity == quantity)]
    return table.set_index(table.r.astype(int)).value


@rule("ess22-[13]", r"mean distortion, ours − (?P<other>[\w +]+?)(?:, within .*| < 0), (?P<d>.+)$")
def _(folder: Folder, other: str, d: str, bound: float) -> Result:
    method, dataset = CONSTRUCTIONS[other], DATASETS[d]
    means = published(folder, dataset, method, "distortion")
    errors = published(folder, dataset, method, "distortion_deviation") / np.sqrt(10) / len(means)
    ours = distortions(folder, dataset)[[*means.index]].mean(axis=1).to_numpy(float)
    n, gap = len(ours), ours.mean() - means.mean()
    parts = np.array([ours.var(ddof=1) / n, *errors**2])
    df = parts.sum() ** 2 / (parts[0] ** 2 / (n - 1) + (parts[1:] ** 2).sum() / 9)
    law = stats.t(df, scale=np.sqrt(parts.sum()))
    low, high = gap - law.ppf(1 - LEVEL / 2), gap + law.ppf(1 - LEVEL / 2)
    if other == "reported":
        p_for = max(law.sf(gap + bound), law.cdf(gap - bound))
        return Result(gap, low, high, p_for, min(1.0, 2 * min(law.cdf(gap + bound), law.sf(gap - bound))), n)
    return Result(gap, low, high, float(law.cdf(gap)), float(law.sf(gap)), n)


@rule("ess22-2", r"slope of log\(distortion − 1\) on log T < 0, (?P<d>.+)$")
def _(folder: Folder, d: str) -> Array:
    return slopes(np.log(distortions(folder, DATASETS[d]) - 1))


def costs(folder: Folder, study: str, dataset: str) -> Array:
    """Return costs of k-means over that of a natural partition: F k alpha/((k − 1)(alpha − 1))."""
    k, alpha = INSTANCES[dataset]
    scale = k * alpha / ((k - 1) * (alpha - 1))
    return folder.vector(study, dataset, "none", "objective") * scale


@rule("ess22-4", r"cost / natural cost − 1 > 0, (?P<d>.+)$")
def _(folder: Folder, d: str) -> Array:
    return costs(folder, "ess22_natural(_large)?", DATASETS[d]) - 1


# --- comparison -------------------------------------------------------------------------------------------------------


def values_of(folder: Folder, claim: str, label: str, bound: float | None) -> Result | tuple[Values, bool] | None:
    """Return the result of a label, or the values that its test takes; None if no rule knows it."""
    for claims, pattern, function in RULES:
        if re.fullmatch(claims, claim) and (match := pattern.match(label)):
            wanted = function.__code__.co_varnames[1 : function.__code__.co_argcount]
            given = {"claim": claim, "bound": bound, **match.groupdict()}
            arguments = {name: given[name] for name in wanted}
            return computed_by(function, folder, tuple(arguments.items()))
    return None


@cache
def computed_by(
    function: Rule, folder: Folder, arguments: tuple[tuple[str, Any], ...]
) -> Result | tuple[Values, bool] | None:
    """Return the result of a rule; values are followed by whether they are tested by their logarithms.

    None if the rule does not know a name in the label or finds no rows.
    """
    try:
        result = function(folder, **dict(arguments))
    except LookupError:
        return None
    return result if isinstance(result, Result | tuple) else (result, False)


@cache
def recomputed(folder: Folder, claim: str, label: str, kind: str, bound: float | None = None) -> Result | None:
    """Return a line of ``components.csv`` again, with the bound of its label or another one."""
    median = kind == "time" and "sign test" in folder.words(claim)
    test = test_of(label)
    bound = test.bound if bound is None and test is not None else bound
    result = values_of(folder, claim, label, bound)
    if result is None or isinstance(result, Result) or test is None:
        return result if isinstance(result, Result) else None
    values, logs = result
    if bound is not None and test.bound < 0:  # "above −0.05": the margin is .05
        bound = -abs(bound)
    if isinstance(values, pd.DataFrame):
        if re.search(r", at each of the \d+ r$", label):
            part = [test(values[r].dropna().to_numpy(float), bound, logs=logs, median=median) for r in values]
            p_for, p_against = conjunction(part)
            true = sum(result.p_for <= LEVEL for result in part)
            return Result(true, np.nan, np.nan, p_for, p_against, max(result.n for result in part))
        values = np.log(values) if logs else values
        values = values.mean(axis=1).dropna().to_numpy(float)
        values = np.exp(values) if logs else values
    return test(values, bound, logs=logs, median=median)


def same(ours: float, printed: float, *, p: bool = False, scale: float = 0.0) -> bool:
    """Return whether two numbers are equal within the tolerance; p-values by their logarithms."""
    if np.isnan(ours) or np.isnan(printed):
        return bool(np.isnan(ours) and np.isnan(printed))
    if ours == printed:
        return True
    if p:
        if min(ours, printed) <= 0:
            return max(ours, printed) < 1e-300
        return bool(abs(np.log(ours) - np.log(printed)) <= TOLERANCE * max(1, abs(np.log(printed))) * 10)
    return bool(abs(ours - printed) <= TOLERANCE * max(abs(printed), scale))


class Count:
    """Numbers by file: equal, different and not recomputed; and the statements that no rule knows."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)
        self.differences: list[str] = []

    def check(self, file: str, where: str, ours: float, printed: float, *, p: bool = False, scale: float = 0.0) -> None:
        """Count a number, and keep it if it differs."""
        ours, printed = float(ours), float(printed)
        equal = same(ours, printed, p=p, scale=scale)
        self.counts[file]["equal" if equal else "different"] += 1
        if not equal:
            self.differences.append(f"{file}: {where}: printed {printed!r}, recomputed {ours!r}")

    def text(self, file: str, where: str, ours: str, printed: str) -> None:
        """Count a word, and keep it if it differs."""
        self.counts[file]["equal" if ours == printed else "different"] += 1
        if ours != printed:
            self.differences.append(f"{file}: {where}: printed {printed!r}, recomputed {ours!r}")

    def leave(self, file: str, why: str, n: int = 1) -> None:
        """Count numbers that are not recomputed."""
        if not n:
            return
        self.counts[file]["not recomputed"] += n
        self.reasons[file][why] += n


def margin_of(line: Any) -> float | None:
    """Return the margin of a line of ``components.csv``, if it has one."""
    return None if pd.isna(line.margin_of_ours) else float(line.margin_of_ours)


def check_components(folder: Folder, count: Count) -> None:
    """Check every line of ``components.csv``."""
    file = "components.csv"
    for line in lines_of(folder.components):
        # Two readings of lf20-6 have the same labels.
        other = "another reading: " * (line.claim == "lf20-6" and "another reading" in line.decides)
        ours = recomputed(folder, line.claim, f"{other}{line.label}", line.kind, margin_of(line))
        if ours is None:
            count.leave(file, f"no rule: {line.claim}: {line.label}", 6)
            count.unknown.append(f"{line.claim}: {line.label}")
            continue
        if np.isinf([ours.low, ours.high]).all() and np.isnan([line.low, line.high]).all():
            ours = ours._replace(low=np.nan, high=np.nan)  # too few runs for an interval
        where = f"{line.claim}: {line.label}"
        width = abs(line.high - line.low) if np.isfinite(line.high - line.low) else 0.0
        for name in ("effect", "low", "high"):
            count.check(file, f"{where}: {name}", getattr(ours, name), getattr(line, name), scale=max(width, 1e-6))
        for name in ("p_for", "p_against"):
            count.check(file, f"{where}: {name}", getattr(ours, name), getattr(line, name), p=True)
        count.check(file, f"{where}: n", ours.n, line.n)


# Claims whose methods a study times with other implementations: it, the studies that it replaces, and what it renames.
OtherCode = tuple[str, str, dict[str, dict[str, str]]]
SKLEARN = {
    "sklearn.decomposition.TruncatedSVD": "svd",
    "sklearn.manifold.LocallyLinearEmbedding": "lle",
    "sklearn.random_projection.GaussianRandomProjection": "random_sign",
    "sklearn.kernel_approximation.PolynomialCountSketch": "sparse_embedding",
}
OTHER_CODE: dict[str, OtherCode] = {
    "bzd10-4": ("flip_speed_bzd10", "bzd10_fig1|bzd10_fig1_times", {"reducer": SKLEARN}),
    "bzd10-5": (
        "flip_speed_reductions_bzd10", "bzd10_table2_times|bzd10_table2|bzd10_table2_signs", {"reducer": SKLEARN}
    ),
    "bzmd15-1": ("flip_speed_bzmd15", "bzmd15_fig1|bzmd15_synth_times", {}),
    "bzmd15-9": (
        "flip_speed_real_bzmd15", "bzmd15_times|bzmd15_fig1|bzmd15_fig2|bzmd15_fig3|bzmd15_fig3_orl", {}
    ),
    "lf20-3": ("flip_speed_lf20", "lf20_orl|lf20_times", {"reducer": {"gaussian": "random_sign"}}),
    "lf20-12": ("flip_speed_lf20", "lf20_fig5|lf20_fig4_times", {"dataset": {"orl": "orl_64x64"}}),
    **dict.fromkeys(("lst17-1", "lst17-6"), ("flip_speed_lst17", "lst17_coil20|lst17_times", {})),
    **dict.fromkeys(
        ("lst17-4", "lst17-5", "lst17-7"),
        ("flip_speed_reductions_lst17", "lst17_coil20|lst17_times", {"reducer": SKLEARN}),
    ),
}  # fmt: skip


@cache
def with_other_code(folder: Folder, claim: str) -> Folder:
    """Return a folder in which the rows of other implementations replace the rows of the same methods."""
    study, base, names = OTHER_CODE[claim]
    rows = folder.rows
    others = rows[rows.study == study].replace(names).assign(study=base.partition("|")[0])
    of_base = rows[rows.study.str.fullmatch(base) & rows.dataset.isin(others.dataset)]
    single = of_base.groupby(["dataset", "reducer"]).r.transform("nunique") == 1
    of_base = of_base[(of_base.r.isin(others.r) | single) & (of_base.repeat <= others.repeat.max())]
    replaced = pd.MultiIndex.from_frame(of_base[["dataset", "reducer"]]).isin(
        pd.MultiIndex.from_frame(others[["dataset", "reducer"]])
    )
    made = Folder(folder.path)
    made.__dict__["rows"] = pd.concat([rows[~rows.study.str.fullmatch(base)], of_base[~replaced], others])
    return made


def check_other_code(folder: Folder, count: Count) -> None:
    """Check the effects of the statements on time with other implementations."""
    file = "components.csv"
    lines = folder.components
    for line in lines_of(lines[lines.other_implementation.notna()] if "other_implementation" in lines else lines[:0]):
        if line.other_implementation.startswith("machine "):
            count.leave(file, "times of another machine", 4)
            continue
        ours = recomputed(with_other_code(folder, line.claim), line.claim, line.label, line.kind, margin_of(line))
        where = f"{line.claim}: {line.label}, {line.other_implementation}"
        for name in ("effect", "low", "high", "n"):
            number = getattr(ours, name) if ours else np.nan
            count.check(file, f"{where}: {name}", number, getattr(line, f"other_{name}"), scale=1e-6)


def lines_of(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the lines of a table, with its columns as attributes."""
    yield from table.itertuples()


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the lines of a table as mappings."""
    return [{str(name): value for name, value in line.items()} for line in table.to_dict("records")]


Groups = dict[tuple[str, str], tuple[float, float]]


def outcome(p_for: float, p_against: float) -> str:
    """Return the outcome of a pair of p-values."""
    return "supported" if p_for <= LEVEL else "not supported" if p_against <= LEVEL else "undecided"


def groups_of(folder: Folder, claim: str, margin: tuple[float, float] | None = None, quantity: str = "") -> Groups:
    """Return the p-values of a claim's groups, its central statements by kind and its side statements.

    A margin, in statements on a quantity, may be replaced by another one: a pair of both.
    """
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    lines = folder.components[folder.components.claim == claim]
    for line in lines_of(lines):
        if line.decides in {"yes", "side"}:
            bound = margin_of(line)
            if (
                margin
                and bound is not None
                and same(margin[0], bound)
                and quantity in {"", "P" if line.unit == "P" else "F"}
            ):
                bound = margin[1]
            result = recomputed(folder, claim, line.label, line.kind, bound)
            if result is not None:
                groups[claim, "side" if line.decides == "side" else line.kind].append(result)
    return {key: conjunction(results) for key, results in groups.items()}


def corrected(groups: Groups) -> Groups:
    """Return p-values of which the smaller of each pair is adjusted by Holm's method, and the other is 1."""
    order = sorted(groups, key=lambda key: min(groups[key]))
    adjusted, least = {}, 0.0
    for i, key in enumerate(order):
        least = max(least, min(1.0, (len(order) - i) * min(groups[key])))
        adjusted[key] = (least, 1.0) if groups[key][0] <= groups[key][1] else (1.0, least)
    return adjusted


def grade(groups: Groups) -> str:
    """Return the verdict on a claim from its corrected groups."""
    central = [outcome(*pair) for (_, kind), pair in groups.items() if kind != "side"]
    side = [outcome(*pair) for (_, kind), pair in groups.items() if kind == "side"]
    if "not supported" in central:
        return "not supported"
    if "undecided" in central:
        return "undecided"
    return "supported" if set(side) <= {"supported"} else "mostly supported"


def check_verdicts(folder: Folder, count: Count) -> None:
    """Check ``verdicts.csv`` and ``margins.csv``."""
    verdicts = pd.read_csv(folder.path / "verdicts.csv")
    margins = pd.read_csv(folder.path / "margins.csv")
    for paper, lines in verdicts.groupby(verdicts.claim.str.split("-").str[0]):
        by_claim = {claim: groups_of(folder, claim) for claim in lines.claim}
        groups = corrected({key: pair for of_claim in by_claim.values() for key, pair in of_claim.items()})
        for line in lines_of(lines):
            if line.verdict == "changed":
                count.leave("verdicts.csv", "rows of other settings than the paper's")
                continue
            ours = {key: pair for key, pair in groups.items() if key[0] == line.claim}
            central = [pair for (_, kind), pair in ours.items() if kind != "side"]
            count.text("verdicts.csv", f"{line.claim}: verdict", grade(ours) if central else "not run", line.verdict)
            for (_, kind), pair in ours.items():
                count.text("verdicts.csv", f"{line.claim}: {kind}", outcome(*pair), getattr(line, kind))
            if not central:
                continue
            count.check("verdicts.csv", f"{line.claim}: p_for", max(p for p, _ in central), line.p_for, p=True)
            count.check("verdicts.csv", f"{line.claim}: p_against", min(p for _, p in central), line.p_against, p=True)
            component = folder.components[
                (folder.components.claim == line.claim) & (folder.components.label == line.deciding_component)
            ].iloc[0]
            for name in ("effect", "low", "high"):
                count.check("verdicts.csv", f"{line.claim}: {name}", component[name], getattr(line, name))
        for line in lines_of(
            margins[
                margins.claim.str.startswith(f"{paper}-") & ~margins.claim.isin(lines.claim[lines.verdict == "changed"])
            ]
        ):
            equal = margins[(margins.claim == line.claim) & (margins.ours == line.ours)].what.nunique() > 1
            quantity = ("P" if "difference of P" in line.what else "F") if equal else ""
            changed = groups_of(folder, line.claim, (line.ours, line.margin), quantity)
            pairs = {**{k: v for c in by_claim.values() for k, v in c.items()}, **changed}
            adjusted = {key: pair for key, pair in corrected(pairs).items() if key[0] == line.claim}
            count.text("margins.csv", f"{line.claim}: {line.what} {line.margin}", grade(adjusted), line.verdict)


# --- figures and tables -----------------------------------------------------------------------------------------------

STUDIES = {
    "bzd10_fig1": "bzd10_fig1",
    "bzmd15_fig1": "bzmd15_fig1",
    "bzmd15_fig2": "bzmd15_fig2",
    "bzmd15_fig3": "bzmd15_fig3",
    "lf20_fig1": "lf20_orl",
    "lf20_fig2": "lf20_orl",
    "lf20_fig3": "lf20_orl",
    "lf20_fig4": "lf20_fig5",
    "lf20_fig5": "lf20_fig5",
    "lf20_fig8": "lf20_orl",
    "lf20_fig9": "lf20_orl",
    "lst17_fig1": SLOW,
    "lst17_fig2": SLOW,
    "lst17_fig3": SLOW,
    "own_bzmd15_fig3_orl": "bzmd15_fig3_orl",
}


def mean_interval(values: Array) -> tuple[float, float, float]:
    """Return a mean with Student's 95 % interval."""
    n, mean = len(values), values.mean()
    half = stdtrit(n - 1, 1 - LEVEL / 2) * values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return mean, mean - half, mean + half


def check_figures(folder: Folder, count: Count) -> None:
    """Check the curves of the figures."""
    for path in sorted((folder.path / "figures").glob("*.csv*")):
        table = pd.read_csv(path)
        file, stem = f"figures/{path.name}", path.name.partition(".")[0]
        if stem in STUDIES:
            check_curves(folder, count, file, table, STUDIES[stem])
        elif stem in OTHER_FIGURES:
            OTHER_FIGURES[stem](folder, count, file, table)
        elif match := re.fullmatch(r"(\w+)_multiverse\d+", stem):
            specification_curve(folder.multiverse(match[1]), count, file, table)
        else:
            count.leave(file, "no curve of a quantity against r", int(table.notna().to_numpy().sum()))


def check_curves(folder: Folder, count: Count, file: str, table: pd.DataFrame, studies: str) -> None:
    """Check means, or medians of times, intervals and counts of a quantity against r.

    Reported numbers are in the papers' tables.
    """
    for line in lines_of(table):
        where = f"{line.dataset} {line.reducer} {line.params} r = {line.r} {line.quantity}"
        if line.drawn_as == "reported":
            count.leave(file, "a reported number, as in reported.csv")
            continue
        given = json.loads(line.params)
        matching = given.pop("matching", None)
        study = studies
        if matching and matching != "best":  # lf20's Figure 8 also has the matchings of the report's code
            study = f"lf20_fig8_{line.reducer}"
        values = folder.table(study, line.dataset, line.reducer, line.quantity)[line.r].dropna().to_numpy(float)
        is_time = line.quantity.endswith("seconds")
        ours = median_interval(values) if is_time else mean_interval(values)
        for name, value in zip(("median" if is_time else "mean", "low", "high"), ours, strict=True):
            count.check(file, f"{where}: {name}", value, getattr(line, name), scale=abs(ours[0]) or 1e-9)
        count.check(file, f"{where}: count", len(values), line.count)
        first = values[: int(line.shown_count)]
        shown = np.median(first) if is_time else first.mean()
        count.check(file, f"{where}: shown", shown, line.shown, scale=abs(ours[0]) or 1e-9)


def scores_of_words(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check bmd09's Figure 1, a copy of a fact whose ranks are recomputed."""
    fact = folder.fact("bmd09_scores")
    rank = fact.score.rank(ascending=False, method="first")
    for printed, score, position in zip(lines_of(table), fact.score, rank, strict=True):
        count.check(file, f"{printed.word}: score", score, printed.score)
        if (fact.score == score).sum() == 1:
            count.check(file, f"{printed.word}: rank", position, printed.rank)


def products(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the medians, least and greatest times of bzd10's §5.2."""
    fact = folder.fact("bzd10_products").groupby(["n", "way"]).seconds
    for line in lines_of(table):
        times = fact.get_group((line.n, line.way)).to_numpy(float)
        for name, value in zip(("median", "low", "high"), (np.median(times), times.min(), times.max()), strict=True):
            count.check(file, f"n = {line.n}, {line.way}: {name}", value, getattr(line, name))


def histogram(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the histogram of lf20's Figure 10: P of runs of leverage sampling at r = 30."""
    P = folder.table("lf20_nips_runs", "nips", "leverage", "accuracy")[30].dropna().to_numpy(float)
    bars = table[table.panel == "a"]
    for line in lines_of(bars):
        last = line.Index == bars.index[-1]
        inside = (line.low <= P + ROUNDING) & ((line.high + ROUNDING >= P) if last else (line.high - ROUNDING > P))
        count.check(file, f"P from {line.low:.2f}: all_runs", inside.sum(), line.all_runs)
        count.check(file, f"P from {line.low:.2f}: first_runs", inside[:100].sum(), line.first_runs)
    count.leave(file, "coordinates of t-SNE, a fact", len(table) - len(bars))


def cost_curves(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check ess22's cost curves: ours, the published ones, and the bound by the singular values of the instances."""
    reported = folder.reported("ess22")
    for line in lines_of(table):
        k, alpha = INSTANCES[line.dataset]
        natural = k ** (alpha - 1) * (k - 1) * (alpha - 1)
        where = f"{line.dataset} at {line.clusters} clusters, {line.label}"
        if line.label.startswith("k-means"):
            rows = folder.rows[folder.rows.study.str.fullmatch("ess22_(natural|k[0-9]+)(_large)?")]
            rows = rows[(rows.dataset == line.dataset) & (rows.k == line.clusters)]
            values = rows.objective.to_numpy(float) * k**alpha * alpha / natural
            for name, value in zip(("mean", "low", "high"), mean_interval(values), strict=True):
                count.check(file, f"{where}: {name}", value, getattr(line, name))
            count.check(file, f"{where}: count", len(values), line.count)
            continue
        ours = max(alpha * (k - 1) - line.clusters + 1, 0) * k ** (alpha - 1)
        if line.label.startswith("reported"):
            of_line = (reported.dataset == line.dataset) & (reported.r == line.clusters) & (reported.quantity == "cost")
            ours = reported.value[of_line].item()
        count.check(file, f"{where}: mean", ours / natural, line.mean)


Check = Callable[[Folder, Count, str, pd.DataFrame], None]
OTHER_FIGURES: dict[str, Check] = {
    "bmd09_fig1": scores_of_words,
    "bzd10_section5-2": products,
    "lf20_fig10": histogram,
    "ess22_figcurves": cost_curves,
}


def central(weights: Array, values: Array) -> tuple[float, float]:
    """Return the central 95 % of a weighted distribution."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    ends = (np.searchsorted(total, level * total[-1] * (1 - sign * 1e-12)) for level, sign in ((0.025, 1), (0.975, 1)))
    low, high = (float(values[order][min(i, len(order) - 1)]) for i in ends)
    return low, high


def law_cells(F: Array, values: Array, m: int, reported: float, error: float) -> dict[str, float]:
    """Return the cells about the best of m runs by F; a printed number may be larger by its reading error."""
    order, weights = best_weights(F, m)
    kept = values[order]
    low, high = central(weights, kept)
    mean = float(weights @ kept)
    return {
        "ours": mean,
        "low": low,
        "high": high,
        "difference": mean - reported,
        "≤ reported": float(weights[kept <= reported + error + ROUNDING].sum()),
        "typical run": values.mean(),
        "runs": len(values),
    }


def check_cells(count: Count, file: str, where: str, ours: dict[str, float], line: dict[str, Any]) -> None:
    """Check the cells of a line of a table."""
    for name, value in ours.items():
        if name in line:
            count.check(file, f"{where}: {name}", value, float(line[name]), scale=abs(ours.get("ours", 0.0)))
    others = [value for name, value in line.items() if name not in ours and isinstance(value, float)]
    count.leave(file, "settings and reported numbers, as in reported.csv", int((~np.isnan(others)).sum()))


def best_of_table(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check P and F of the best of m runs on NIPS in bmd09's Table 1 and lf20's Figure 7."""
    bmd09 = "bmd09" in file
    for line in table.pipe(records):
        if line["dataset"] != "NIPS":
            continue
        r = None if line["r"] == "all" else int(line["r"])
        study = "bmd09_table1" if bmd09 else "lf20_nips" if r is None else "lf20_nips_runs"
        cells = best_cells(
            folder,
            study,
            r,
            line["quantity"],
            1 if r is None else 30 if bmd09 else 100,
            line["reported"],
            5e-4 if bmd09 else 5e-5,
        )
        check_cells(count, file, f"{line['quantity']} at {line['r']}", cells, line)


def best_cells(
    folder: Folder, study: str, r: int | None, q: str, m: int, reported: float = 0, error: float = 0
) -> dict[str, float]:
    """Return the cells about P or F of sampling on NIPS, or of all features."""
    method = "none" if r is None else "leverage"
    F, values = (folder.vector(study, "nips", method, name, r) for name in ("objective", QUANTITIES[q]))
    return law_cells(F, values, m, reported, error)


def two_papers(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the comparison of bmd09's Table 1 with lf20's Figure 7."""
    for line in table.pipe(records):
        r = None if line["r"] == "all" else int(line["r"])
        for m, study in ((30, "bmd09_table1"), (100, "lf20_nips" if r is None else "lf20_nips_runs")):
            cells = best_cells(folder, study, r, line["quantity"], 1 if r is None else m)
            named = {f"{name} of {m}": cells[name] for name in ("ours", "low", "high")}
            check_cells(count, file, f"{line['quantity']} at {line['r']}", named, line)


def bzd10_table2(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check P and F of bzd10's Table 2."""
    for line in table.pipe(records):
        method, q = METHODS.get(line["method"], line["method"]), QUANTITIES[line["quantity"]]
        study = "bzd10_table2_signs" if method == "random_sign" else "bzd10_table2"
        values = folder.vector(study, "orl_64x64", method, q, None if method == "none" else int(line["t"]))
        if method == "random_sign":
            cells = law_cells(values, values, 1, line["reported"], 5e-5)
            cells["low"], cells["high"] = np.quantile(values, [0.025, 0.975])
        else:
            cells = {"ours": values[0], "difference": values[0] - line["reported"], "runs": 1}
        cells[AS_WRITTEN] = cells.pop("ours")
        again = "left_singular_vectors" if method == "svd" else method
        values = folder.vector("flip_matlab_bzd10", "orl_64x64", again, q, None if again == "none" else int(line["t"]))
        cells[RECONSTRUCTED] = values.mean()
        if method == "random_sign":
            cells["low reconstructed"], cells["high reconstructed"] = np.quantile(values, [0.025, 0.975])
        check_cells(count, file, f"{line['method']} at {line['t']}: {line['quantity']}", cells, line)


def lf20_table1(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the statistics of the selected leverage scores."""
    fact = folder.fact("lf20_scores")
    for line in table.pipe(records):
        centred = int("centred" in line["singular vectors"])
        values = fact[(fact.dataset == DATASETS[line["dataset"]]) & (fact.centred == centred)]
        x = values[line["quantity"].replace(" ", "_")].to_numpy(float)
        low, high = np.quantile(x, [0.025, 0.975])
        cells = {"ours": x.mean(), "low": low, "high": high, "difference": x.mean() - line["reported"]}
        check_cells(count, file, f"{line['dataset']}: {line['quantity']} {line['singular vectors']}", cells, line)


def lf20_table2(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check P of lf20's Table 2: one run at t = 130 on ORL, one or the best of 100 by F at r = 60 on NIPS."""
    for line in table.pipe(records):
        cell, P = cell_of_table2(folder, line["dataset"], line["method"])
        low, high = np.clip([line["reported"] - cell.high, line["reported"] - cell.low], 0, 1)
        cells = {"ours": line["reported"] - cell.effect, "low": low, "high": high, "difference": -cell.effect}
        cells |= {"typical run": P.mean(), "runs": len(P)}
        check_cells(count, file, f"{line['method']} on {line['dataset']}", cells, line)


def exponents(rows: pd.DataFrame, letters: dict[str, str]) -> dict[str, float]:
    """Return the exponents of the reduction time in n, d and r, the others fixed, with half of Student's interval."""
    rows = rows[(rows.concurrency == 1) & rows.reduction_seconds.notna()]
    cells: dict[str, float] = {}
    for size, letter in letters.items():
        if rows[size].nunique() == 1:
            continue
        fixed = {other: rows[other].mode()[0] for other in letters if {size, other} == {"n", "d"}}
        of_size = rows[np.all([rows[other] == value for other, value in fixed.items()], axis=0)] if fixed else rows
        lines = of_size.assign(log=np.log(of_size.reduction_seconds)).pivot_table("log", "repeat", size)
        mean, low, high = mean_interval(slopes(lines))
        cells |= {f"exponent of {letter}": mean, f"± of {letter}": (high - low) / 2}
    return cells


def ratio_cells(rows: pd.DataFrame) -> dict[str, float]:
    """Return F/F_best of a method, averaged over datasets within a repetition."""
    mean, low, high = mean_interval(rows.groupby("repeat").ratio.mean().to_numpy(float))
    return {"ours": mean, "low": low, "high": high, "largest": rows.ratio.max()}


def with_best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with F over the smallest F on the same data."""
    return rows.assign(ratio=rows.objective / rows.groupby("data_sha256").objective.transform("min"))


def provable_table(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the ratios and exponents of bzd10's and bzmd15's Table 1."""
    rows, bzd10 = folder.rows, "bzd10" in file
    if bzd10:
        ratios = with_best(rows[rows.study == "bzd10_table1_orl"])
        methods = {"SVD, feature extraction": "svd", "RP, feature extraction": "random_sign_mailman"}
    else:
        studies = ["bzmd15_fig1", "bzmd15_fig2", "bzmd15_fig3", "flip_rank_bzmd15"]
        ratios = with_best(rows[rows.study.isin(studies) & (rows.dataset != "synth")])
        methods = {"RS": "leverage_approx", "RP": "random_sign", "Exact SVD": "svd", "Approx. SVD": "approx_svd"}
    times = rows[rows.study == ("bzd10_table1" if bzd10 else "bzmd15_table1")]
    for line in table.pipe(records):
        method = methods.get(line["description"], "leverage")
        rank = '"rank":"r"' if line["reference"] == "[14]" else '"rank":"k"' if "svd" in method else ""
        of_method = [t[(t.reducer == method) & t.params.str.contains(rank, regex=False)] for t in (ratios, times)]
        near = of_method[0].assign(far=(of_method[0].r - 20).abs())
        if rank != '"rank":"k"':
            near = near[near.far == near.groupby("dataset").far.transform("min")]
        cells = ratio_cells(near) | exponents(of_method[1], {"n": "n", "d": "d", "r": "t" if bzd10 else "r"})
        if not bzd10:
            cells["difference"] = cells["ours"] - line["reported, ε = 1/3"]
        where = f"{line['reference']} {line['description']}"
        check_cells(count, file, where, cells, line)


def lst17_growth(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the exponents of lst17's §4.2."""
    rows = folder.rows[(folder.rows.study == "lst17_growth") & (folder.rows.n >= 4000)]
    letter = "nnz(X)" if "exponent of nnz(X)" in table else "n"  # 65 entries per point
    methods = {"bzmd15 [1]": "random_sign", "This paper": "sparse_embedding"}
    for line in table.pipe(records):
        of_method = rows[rows.reducer == methods.get(line["method"], "sparsified")]
        cells = exponents(of_method, {"n": letter, "r": "r"})
        largest = of_method[(of_method.n == 64000) & (of_method.r == 100)]
        cells["median seconds"] = largest.reduction_seconds.median()
        check_cells(count, file, line["method"], cells, line)


def lst17_table1(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check times, powers and ratios of lst17's Table 1 on COIL20."""
    rows = with_best(
        folder.rows[
            folder.rows.study.isin(["lst17_coil20", "lst17_table1", "bzmd15_fig2"]) & (folder.rows.dataset == "coil20")
        ]
    )
    methods = {"SVD-FE": "svd", "SVD-FS": "leverage", "all features": "none", "SE-FE": "sparse_embedding"}
    for line in table.pipe(records):
        method = methods.get(line["description"], "sparsified" if "Pourkamali" in line["method"] else "random_sign")
        study = "lst17_table1" if method == "leverage" or line["method"].startswith("Drineas") else "lst17_coil20"
        F = rows[(rows.study.isin(["lst17_table1", "lst17_coil20"])) & (rows.reducer == method) & (rows.r == line["r"])]
        mean, low, high = mean_interval(F.ratio.to_numpy(float))
        cells = {"F/F_best": mean, "F/F_best low": low, "F/F_best high": high}
        if method != "none":
            times = folder.table("lst17_coil20|lst17_table1", "coil20", method, "reduction_seconds")
            at_r = times.get(line["r"], pd.Series(np.nan)).dropna().to_numpy(float)
            power, timed = (median_interval(values) for values in (slopes(np.log(times)), at_r))
            cells |= dict(zip(("power of r, ours", "power low", "power high"), power, strict=True))
            cells |= dict(zip(("median seconds", "seconds low", "seconds high"), timed, strict=True))
            cells |= {"difference": power[0] - line["power of r, reported"], "timings": len(at_r)}
        check_cells(count, file, f"{line['method']} {study}", cells, line)


def compared_table(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the means of all methods on ORL, and the comparison of each in F with k-means on all features."""
    best = with_best(folder.rows)
    rows = best[best.study == Path(file).stem.removeprefix("own_")]
    names = {"F/F_best": "ratio", "P": "accuracy", "NMI": "nmi", "seconds": "total_seconds"}

    def values(reducer: str, r: int | None, name: str) -> "pd.Series[float]":
        of_line = rows[(rows.reducer == reducer) & ((rows.r == r) | (r is None))]
        of_line = of_line[of_line.concurrency == 1] if name == "total_seconds" else of_line
        return of_line.set_index("repeat")[name].dropna().sort_index()

    p_values: list[float] = []
    tests: list[tuple[str, dict[str, Any], tuple[float, ...], int]] = []
    for line in table.pipe(records):
        method, where = METHODS.get(line["method"], line["method"]), f"{line['method']} at r = {line['r']}"
        for title, name in names.items():
            sample = np.asarray(values(method, line["r"], name), dtype=np.float64)
            middle, low, high = median_interval(sample) if name == "total_seconds" else mean_interval(sample)
            ends = {f"low {title}": low, f"high {title}": high}
            ends = ends if name == "total_seconds" else {f"± {title}": (high - low) / 2}
            check_cells(count, file, where, {title: middle, **ends}, line)
            if method == "none":
                continue
            pairs = pd.concat([values(method, line["r"], name), values("none", None, name)], axis=1, join="inner")
            if pairs.empty:  # nothing was timed serially
                continue
            a, b = pairs.to_numpy(float).T
            change = np.log(a / b) if name == "total_seconds" else a - b
            change = np.where(np.abs(change) <= ROUNDING * max(1.0, np.abs(pairs.to_numpy()).max()), 0.0, change)
            low, high, above, below = t_test(change, 0.0)
            if title == "F/F_best":
                tests.append((where, line, (change.mean(), low, high, above, below, len(p_values)), len(change)))
            p_values.append(min(1.0, 2 * min(above, below)))
        count.check(file, f"{where}: n", len(values(method, line["r"], "ratio")), line["n"])
    adjusted, least = np.empty(len(p_values)), 0.0
    for i, position in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - i) * p_values[position]))
        adjusted[position] = least
    z = stats.norm.ppf(1 - LEVEL / 2 / len(p_values))
    for where, line, (change, low, high, above, below, position), n in tests:
        shown = adjusted[int(position)] <= LEVEL
        word = ("F higher" if change > 0 else "F lower") if shown else "no difference shown"
        count.text(file, f"{where}: against none", word, line["against none"])
        t = stdtrit(n - 1, 1 - min(above, below))
        needed = np.ceil(n * ((z + stats.norm.ppf(0.9)) / t) ** 2 + z**2 / 2) if t > 0 and not shown else np.nan
        change_of_F = {"Δ F/F_best": change, "low Δ F/F_best": low, "high Δ F/F_best": high}
        check_cells(count, file, where, {**change_of_F, "n to show F/F_best": needed}, line)


def distortion_table(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check ess22's distortions: ours with the prediction interval of a mean of ten, and the published ones."""
    for line in records(table):
        dataset, points = DATASETS[line["dataset"]], line["points"]
        k, alpha = INSTANCES[dataset]
        natural = k ** (alpha - 1) * (k - 1) * (alpha - 1)
        x = distortions(folder, dataset)[points].to_numpy(float)
        half = stdtrit(len(x) - 1, 1 - LEVEL / 2) * np.sqrt(x.var(ddof=1) * (1 / len(x) + 1 / 10))
        theirs = {
            name: published(folder, dataset, "sensitivity_sampling", name)[points]
            for name in ("distortion", "distortion_deviation", "real_cost")
        }
        ours = {
            "reported": theirs["distortion"],
            "ours": x.mean(),
            "low": x.mean() - half,
            "high": x.mean() + half,
            "difference": x.mean() - theirs["distortion"],
            "deviation, reported": theirs["distortion_deviation"],
            "deviation, ours": x.std(ddof=1),
            "cost, reported": theirs["real_cost"] / natural,
            "cost, ours": distortions(folder, dataset, "real_cost")[points].mean() / natural,
        }
        for name, method in CONSTRUCTIONS.items():
            if name != "reported":
                ours[name] = float(published(folder, dataset, method, "distortion").get(points, np.nan))
        check_cells(count, file, f"{dataset}, {points} points", ours, line)


def coreset_table(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check ess22's costs of k-means on coresets and on all points of the instance with k = 10."""
    for line in records(table):
        size = re.match(r"(\d+) points", line["clustered"])
        study = f"ess22_coreset_{int(size[1]) // 10}" if size else "ess22_natural"
        values = costs(folder, study, "benchmark_k10")
        names = ("cost / natural", "low", "high", "lowest", "highest", "runs")
        ours = dict(zip(names, (*mean_interval(values), values.min(), values.max(), len(values)), strict=True))
        check_cells(count, file, line["clustered"], ours, line)


def two_seeds(folder: Folder, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the central statements of this seed and of the earlier one, and which of them have the same verdicts."""
    key, texts, numbers = ["claim", "label"], ["verdict", "statement_verdict", "unit"], ["effect", "low", "high"]
    now = folder.components[folder.components.decides == "yes"].drop_duplicates(key)
    now = now.merge(pd.read_csv(folder.path / "verdicts.csv")[["claim", "verdict"]], on="claim").set_index(key)
    earlier = pd.read_csv(folder.path / "seeds.csv").set_index(key)
    both = now.index[now.index.isin(earlier.index)]
    count.text(file, "statements of both seeds", repr([*both]), repr([*zip(table.claim, table.label, strict=True)]))
    lines = {(str(line["claim"]), str(line["label"])): line for line in records(table)}
    without = {"changed", "not run"}
    apart = {  # no verdict with one of the seeds, or an interval with one of them alone
        name
        for name in both
        if {now.loc[name, "verdict"], earlier.loc[name, "verdict"]} & without
        or pd.isna(now.loc[name, "low"]) != pd.isna(earlier.loc[name, "low"])
    }
    claims_apart = {claim for claim, _ in apart}
    for name in (name for name in both if name in lines):
        line, where = lines[name], " ".join(name)
        for side, source in (("", now), (", earlier seed", earlier)):
            for column in numbers:
                count.check(file, f"{where}: {column}{side}", source.loc[name, column], line[f"{column}{side}"])
            for column in texts[: 2 if side else 3]:
                ours, printed = source.loc[name, column], line[f"{column}{side}"]
                count.text(file, f"{where}: {column}{side}", str(ours), str(printed))
        for flag, column in (("same_verdict", "verdict"), ("same_statement", "statement_verdict")):
            pair = now.loc[name, column], earlier.loc[name, column]
            comparable = name not in apart if flag == "same_statement" else name[0] not in claims_apart
            count.text(file, f"{where}: {flag}", str(pair[0] == pair[1]) if comparable else "nan", str(line[flag]))


TABLES: dict[str, Check] = {
    "seeds": two_seeds,
    "own_bzmd15_fig3_orl": compared_table,
    "bmd09_table1": best_of_table,
    "lf20_fig7": best_of_table,
    "lf20_section3-3": two_papers,
    "lf20_table1": lf20_table1,
    "lf20_table2": lf20_table2,
    "bzd10_table1": provable_table,
    "bzd10_table2": bzd10_table2,
    "bzmd15_table1": provable_table,
    "lst17_table1": lst17_table1,
    "lst17_section4-2": lst17_growth,
    "ess22_tabledistortions": distortion_table,
    "ess22_tablecoresets": coreset_table,
}


# --- multiverses ------------------------------------------------------------------------------------------------------

# The numbers of a multiverse, and the runs of which a method keeps the one of smallest F, by dataset.
NUMBERS = {
    "bmd09": ["bmd09_table1"],
    "bzd10": ["bzd10_table2"],
    "lf20": ["lf20_fig1", "lf20_fig7", "lf20-5", "lf20_table2"],
}
KEPT = {
    ("bmd09", "nips", "leverage"): 30,
    ("lf20", "nips", "leverage"): 100,
    ("lf20", "nips", "leverage_approx"): 100,
    ("lf20", "nips", "random_sign"): 100,
}
DEFAULT_DATASET = {"bmd09": "nips", "bzd10": "orl_64x64", "lf20": "nips"}
SHARE = "share of good runs"  # of 100 runs with P of at least one half
# The name of our column in a table that has another one under a reconstructed protocol.
AS_WRITTEN, RECONSTRUCTED = "ours as written", "ours reconstructed"
NUMBER = re.compile(r"(.+?), ([^,(]+?(?:, unsquared)?)(?:, r = (\d+))?(?: on ([^(]+?))?(?: \(([\w -]+)\))?")


class Law(NamedTuple):
    """The distribution of a number in a universe: values and weights, and a kernel of some width around each value."""

    values: Array
    weights: Array
    exact: float  # probability that the number equals a value
    width: float
    size: float

    @property
    def unknown(self) -> float:
        """The weight of the uniform part."""
        return 1 / (self.size + 1)

    def inside(self, low: float, high: float) -> float:
        """Return the probability of an interval, with a uniform part for what the runs cannot show."""
        unknown = self.unknown
        same = self.weights[(self.values >= low) & (self.values <= high)].sum()
        below = stats.norm.cdf(high, self.values, self.width) - stats.norm.cdf(low, self.values, self.width)
        above = stats.norm.sf(low, self.values, self.width) - stats.norm.sf(high, self.values, self.width)
        near = np.where(low > self.values, above, below) @ self.weights  # without cancellation
        return float((1 - unknown) * (self.exact * same + (1 - self.exact) * near) + unknown * (high - low))

    def tail(self, low: float, high: float) -> float:
        """Return the two-sided probability of a value at least as extreme as an interval."""
        unknown = self.unknown

        def below(x: float, same: NDArray[np.bool_]) -> float:
            known = self.exact * (same @ self.weights) + (1 - self.exact) * (
                stats.norm.cdf(x, self.values, self.width) @ self.weights
            )
            return float((1 - unknown) * known + unknown * np.clip(x, 0, 1))

        return min(1.0, 2 * min(below(high, self.values <= high), 1 - below(low, self.values < low)))


def law_of_runs(F: Array, values: Array, m: int, quantity: str) -> Law:
    """Return the distribution of a quantity of the best of m runs by F; weights up to 1e-9 are dropped."""
    order, weights = best_weights(F, m)
    used = weights > 1e-9
    v, w = values[order][used], weights[used] / weights[used].sum()
    size, spread = 1 / (w @ w), np.sqrt(max(0.0, w @ (v - w @ v) ** 2))
    if spread > 1e-9:  # Silverman's width
        return Law(v, w, 0.0, 1.06 * spread * size**-0.2, size)
    return Law(v, w, 0.5, 0.01 * v[0] if quantity == "objective" else 0.02, np.inf)


def law_of_share(good: int, n: int) -> Law:
    """Return the distribution of the share of good runs among 100, by Jeffreys's prior."""
    weights = stats.betabinom.pmf(np.arange(101), 100, good + 0.5, n - good + 0.5)
    return Law(np.arange(101) / 100, weights / weights.sum(), 1.0, 1.0, np.inf)


class Universes:
    """The universes of a paper in the order in which they were run."""

    def __init__(self, folder: Folder, paper: str) -> None:
        self.folder, self.paper = folder, paper
        every = json.loads(text_of(folder.path / "multiverse/universes.json"))[paper]
        known = folder.multiverse_rows
        self.configs = {
            tuple(u["options"]): u["configs"] for u in every if u["configs"] and set(u["configs"]) <= set(known)
        }

    @property
    def options(self) -> list[tuple[str, ...]]:
        """The options of each universe; the first has the paper's own."""
        return list(self.configs)

    def runs(self, universe: tuple[str, ...], dataset: str, method: str, *, every: bool) -> pd.DataFrame:
        """Return the runs of a method, with further repetitions of the studies or without."""
        parts = [
            self.folder.multiverse_rows[config]
            for config, (_, data, reducer) in self.configs[universe].items()
            if (data, reducer) == (dataset, method)
        ]
        rows = pd.concat(parts)  # another paper's multiverse may have the same configuration
        rows = rows[rows.study.isin([f"multiverse_{study}" for study, _, _ in self.configs[universe].values()])]
        cell = ["config_hash", "seed", "r"]
        known = self.folder.rows_by_config if every else {}
        more = [known[config] for config in rows.config_hash.unique() if config in known]
        further = [part.merge(rows[cell].drop_duplicates(), on=cell) for part in more]
        return pd.concat([rows, *further]).drop_duplicates([*cell, "repeat"])

    @cache  # noqa: B019
    def edges(self, label: str, reported: float) -> tuple[float, float]:
        """Return the range of a reported number before it was rounded."""
        quantity, method, r, dataset, id_ = self.parsed(label)
        table = self.folder.reported(self.paper)
        table = table[table.id.isin([id_] if id_ else NUMBERS[self.paper]) & (table.method == method)]
        table = table[(table.dataset == dataset) & (table.value == reported)]
        table = table[table.r.astype(float).eq(float(r)) | table.r.isna()] if r else table
        share = quantity == SHARE
        table = table[table.id.eq("lf20-5") if share else table.quantity.eq(QUANTITIES[quantity])]
        error = float(table.reading_error.iloc[0]) * (1 + 1e-9)
        return reported - error, reported + error

    def parsed(self, label: str) -> tuple[str, str, str | None, str, str | None]:
        """Return quantity, method, r, dataset and id of a number."""
        match = NUMBER.fullmatch(label)
        if match is None:
            raise ValueError(f"{label!r} is not the name of a number")
        quantity, method, r, data, place = match.groups()
        item = re.fullmatch(r"(Fig|Tab)(?:ure|le) (\d+)", place or "")
        id_ = f"{self.paper}_{'fig' if item[1] == 'Fig' else 'table'}{item[2]}" if item else place
        return quantity, METHODS.get(method, method), r, DATASETS.get(data or "", DEFAULT_DATASET[self.paper]), id_

    @cache  # noqa: B019
    def law(self, label: str, universe: tuple[str, ...], *, every: bool = True) -> Law:
        """Return the distribution of a number in a universe, from all runs or from its repetitions alone."""
        quantity, method, r, dataset, _ = self.parsed(label)
        rows = self.runs(universe, dataset, method, every=every)
        if rows.r.nunique() > 1:
            open_r = next((option[4:] for option in universe if option.startswith("r = ")), "60")
            rows = rows[rows.r == int(r or (open_r if quantity == SHARE else "60"))]
        rows = rows.drop_duplicates("repeat").sort_values("repeat")
        if quantity == SHARE:
            return law_of_share(int((rows.accuracy >= 0.5).sum()), len(rows))
        m = 1 if "one draw" in universe else KEPT.get((self.paper, dataset, method), 1)
        name = QUANTITIES[quantity]
        return law_of_runs(rows.objective.to_numpy(float), rows[name].to_numpy(float), m, name)

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The reported numbers by their names."""
        file = self.folder.path / f"tables/{self.paper}_multiverse_nearest.csv"
        return dict(pd.read_csv(file)[["number", "reported"]].itertuples(index=False)) if file.is_file() else {}

    @cached_property
    def logs(self) -> Array:
        """The log-likelihood of each number (columns) in each universe (rows)."""
        return np.array(
            [
                [np.log(self.law(label, u).inside(*self.edges(label, x)) + 1e-300) for label, x in self.numbers.items()]
                for u in self.options
            ]
        )


def law_of_line(law: Law) -> dict[str, float]:
    """Return mean and central 95 % of a distribution."""
    low, high = central(law.weights, law.values)
    return {"mean": float(law.weights @ law.values), "low": low, "high": high}


def specification_curve(universes: Universes, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check mean, central 95 % and log-likelihood of a number in each universe."""
    names = [
        c for c in table if c not in {"panel", "mean", "low", "high", "log_likelihood", "number", "reported", "rank"}
    ]
    for line in table.pipe(records):
        universe = tuple(str(line[str(name)]) for name in names)
        law = universes.law(line["number"], universe)
        ours = law_of_line(law)
        ours["log_likelihood"] = float(np.log(law.inside(*universes.edges(line["number"], line["reported"])) + 1e-300))
        check_cells(count, file, f"{line['number']} with {', '.join(universe)}", ours, line)


def nearest_universe(universes: Universes, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the numbers in the nearest universe, and in that with the paper's own choices."""
    position = int(universes.logs.sum(axis=1).argmax())
    for column, line in enumerate(table.pipe(records)):
        for name, place in (("nearest", position), ("own", 0)):
            ours = {
                f"{name}: {key}": x
                for key, x in law_of_line(universes.law(line["number"], universes.options[place])).items()
            }
            ours[f"{name}: log-likelihood"] = universes.logs[place, column]
            check_cells(count, file, line["number"], ours, {key: line[key] for key in ours})


def all_universes(universes: Universes, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check log-likelihoods and tails of all universes."""
    if not universes.numbers:
        count.leave(file, "verdicts in each universe", int(table.notna().to_numpy().sum()))
        return
    for universe, logs, line in zip(universes.options, universes.logs, table.pipe(records), strict=True):
        where = ", ".join(universe)
        count.text(file, f"{where}: options", where, ", ".join(str(x) for x in list(line.values())[: len(universe)]))
        ours = {"log_likelihood": float(logs.sum())}
        for label, reported in universes.numbers.items():
            if f"probability of {label}" in line:
                tail = universes.law(label, universe).tail(*universes.edges(label, reported))
                ours[f"probability of {label}"] = tail
        unknown: dict[tuple[str | None, ...], float] = {}  # of each cell, the largest
        for label in universes.numbers:
            _, method, r, dataset, _ = universes.parsed(label)
            part = universes.law(label, universe).unknown
            unknown[dataset, method, r] = max(part, unknown.get((dataset, method, r), 0.0))
        ours["least_p"] = 1 - float(np.prod([1 - part for part in unknown.values()]))
        for name, value in ours.items():
            count.check(file, f"{where}: {name}", value, line[name], scale=1e-3)
        outcome = "rejected" if line["p"] <= 0.05 else "not rejected" if ours["least_p"] <= 0.05 else "too few runs"
        count.text(file, f"{where}: numbers", outcome, line["numbers"])
        count.leave(file, "p, from tables drawn at random", 1)
        count.leave(file, "verdicts in each universe", sum("-" in name for name in line))


def options_of_choices(universes: Universes, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the number of universes of each option and its share of the likelihood."""
    choices = list(dict.fromkeys(table.choice))
    likelihoods: dict[tuple[str, str], float] = {}
    together = universes.logs.sum(axis=1) if universes.numbers else np.zeros(len(universes.options))
    for line in table.pipe(records):
        column = choices.index(line["choice"])
        some = [i for i, u in enumerate(universes.options) if u[column] == line["option"]]
        count.check(file, f"{line['choice']}: {line['option']}: universes", len(some), line["universes"])
        if some:
            likelihoods[line["choice"], line["option"]] = float(np.exp(together[some] - together.max()).mean())
        count.leave(file, "verdicts in each universe, and their power", sum("-" in name for name in line))
    for line in table.pipe(records) if universes.numbers else ():
        alike = sum(x for (choice, _), x in likelihoods.items() if choice == line["choice"])
        where = f"{line['choice']}: {line['option']}: likelihood"
        count.check(file, where, likelihoods[line["choice"], line["option"]] / alike, line["likelihood"], scale=1.0)


def shares_of_variance(universes: Universes, count: Count, file: str, table: pd.DataFrame) -> None:
    """Check the share of the variance of each number's mean that each choice explains, by Shapley."""
    choices = list(table.columns[1:-1])
    columns = [np.array([u[i] for u in universes.options]) for i in range(len(choices))]
    for line in table.pipe(records):
        laws = [universes.law(line["number"], u, every=False) for u in universes.options]
        means = np.array([law_of_line(law)["mean"] for law in laws])
        y = means - means.mean()
        explained: dict[frozenset[int], float] = {}
        for size in range(len(choices) + 1):
            for some in combinations(range(len(choices)), size):
                effects = [np.ones(len(y))] + [columns[i] == option for i in some for option in np.unique(columns[i])]
                X = np.column_stack(effects).astype(float)
                fitted = X @ np.linalg.lstsq(X, y, rcond=None)[0]
                explained[frozenset(some)] = float(fitted @ fitted)
        for i, choice in enumerate(choices):
            gains = [
                (explained[some | {i}] - alone) / (len(choices) * comb(len(choices) - 1, len(some)))
                for some, alone in explained.items()
                if i not in some
            ]
            share = sum(gains) / (float(y @ y) or np.nan)
            printed = str(line[choice]).partition(" [")[0]
            close = printed == "–" if np.isnan(share) else abs(100 * share - float(printed.rstrip("%"))) <= 0.5 + 1e-6
            count.text(file, f"{line['number']}: {choice}", printed if close else f"{share:.1%}", printed)
            count.leave(file, "intervals of shares, from bootstraps drawn at random", 2)


OF_MULTIVERSES: dict[str, Callable[[Universes, Count, str, pd.DataFrame], None]] = {
    "nearest": nearest_universe,
    "universes": all_universes,
    "options": options_of_choices,
    "shares": shares_of_variance,
}


# --- agreement with printed numbers -----------------------------------------------------------------------------------

HEADING = re.compile(
    r'^##+ <a id="(\w+(?:-\d+)?)"></a>.*: [✓◐≠] [a-z ]+, '
    r"(?:([✓◐✗]) (\d+) of (\d+) (?:cell|point)s? within our intervals"
    r"(?: as written; ([✓◐✗]) (\d+) of (\d+) cells? within our intervals reconstructed)?|(not comparable))",
    re.MULTILINE,
)


def inside_of_item(folder: Folder, id_: str, protocol: str = "written") -> list[bool]:
    """Return which of the printed numbers of an item lie inside our 95 % intervals; empty if none is comparable."""
    names = (f"tables/{id_}.csv", f"figures/{id_}.csv", f"figures/{id_}.csv.xz")
    file = next(path for path in map(folder.path.joinpath, names) if path.is_file())
    table = pd.read_csv(file)
    if protocol == "reconstructed":
        table = table.drop(columns=["low", "high"])
        table.columns = [name.removesuffix(f" {protocol}") for name in table.columns]
    table = table.rename(columns={AS_WRITTEN: "ours"} if protocol == "written" else {})
    if {"reported", "ours"} <= set(table):
        cells = table[table.reported.notna() & table.ours.notna()]
        keys = [c for c in ("method", "dataset", "quantity", "r", "t", "reported") if c in cells]
        cells = cells[~cells.duplicated(keys)]
        known = folder.reported(id_.partition("_")[0])
        known = known[known.id == id_]
        errors: dict[float, float] = dict(zip(known.value, known.reading_error, strict=True))
        inside = []
        for line in cells.pipe(records):
            x, ours = line["reported"], line["ours"]
            low, high = (ours if pd.isna(line[end]) else line[end] for end in ("low", "high"))
            slack = errors.get(x, 0.0) + 1e-9 * abs(x)
            inside.append(bool(low - slack <= x <= high + slack))
        return inside
    if not {"drawn_as", "mean"} <= set(table.columns):
        return []
    table = table[~table.quantity.astype(str).str.endswith("seconds")]
    printed, curves = table[table.drawn_as == "reported"], table[table.drawn_as != "reported"]
    keys = ["quantity", "dataset", "reducer", "r"]
    keys += ["params"] if len(printed) and printed.params.fillna("").ne("").all() else []
    pairs = printed.merge(curves, on=keys, suffixes=("_printed", ""))
    half = (pairs.high - pairs.low) / 2 * np.sqrt(pairs["count"] + 1)  # a prediction interval of one more run
    return list((pairs.mean_printed - pairs["mean"]).abs() <= half)


def check_agreement(folder: Folder, count: Count) -> None:
    """Check how many printed numbers lie inside our intervals, as the report says."""
    file = "report/*.md"
    text = "".join(page.read_text("utf-8") for page in sorted((folder.path / "report").glob("*.md")))
    for id_, *printed, _ in HEADING.findall(text):
        for protocol, (sign, inside, compared) in (("written", printed[:3]), ("reconstructed", printed[3:])):
            if protocol == "reconstructed" and not sign:
                continue
            ours = inside_of_item(folder, id_, protocol)
            few = 2 * sum(ours) < len(ours)
            enough = bool(ours) and stats.binom.cdf(sum(ours), len(ours), 1 - LEVEL) >= LEVEL
            word = f"{'✗' if few else '✓' if enough else '◐'} {sum(ours)} of {len(ours)}" if ours else "not comparable"
            shown = f"{sign} {inside} of {compared}" if sign else "not comparable"
            what = "agreement" if protocol == "written" else f"agreement, {protocol}"
            count.text(file, f"{id_}: {what}", word, shown)


def check_tables(folder: Folder, count: Count) -> None:
    """Check the tables."""
    for path in sorted((folder.path / "tables").glob("*.csv*")):
        table = pd.read_csv(path)
        file, stem = f"tables/{path.name}", path.name.partition(".")[0]
        paper, _, kind = stem.partition("_multiverse_")
        if stem in TABLES:
            TABLES[stem](folder, count, file, table)
        elif kind in OF_MULTIVERSES:
            OF_MULTIVERSES[kind](folder.multiverse(paper), count, file, table)
        else:
            count.leave(file, "no rule", int(table.notna().to_numpy().sum()))


def main() -> int:
    """Check a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default="results/reference")
    folder = Folder(parser.parse_args().folder)
    count = Count()
    check_components(folder, count)
    check_other_code(folder, count)
    check_verdicts(folder, count)
    check_figures(folder, count)
    check_tables(folder, count)
    check_agreement(folder, count)
    for text in [*count.differences, *(f"components.csv: no rule recomputes {label}" for label in count.unknown)]:
        print(text)
    for file, counts in count.counts.items():
        print(file, dict(counts))
        for why, n in count.reasons[file].most_common():
            print(f"  {n} not recomputed: {why}")
    return int(bool(count.differences or count.unknown))


if __name__ == "__main__":
    sys.exit(main())
