"""lst17: Sparse Embedded k-Means Clustering (NIPS 2017)."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, PercentFormatter
from numpy.typing import NDArray

from kmdr.report.canvas import power_of_ten
from kmdr.report.figures import dataset_label, drawn_numbers, methods_of, paper_grid, record
from kmdr.report.statistics import Component, above, below, equal, ratio_above, ratio_below, slopes
from kmdr.report.style import KNOWN, Method, Style, method_styles
from kmdr.report.summary import mean_interval, quantity_rows, ratio_to_best
from kmdr.studies.catalogue import Finding, Table, claim, figure, table
from kmdr.studies.results import NotRunError, Results, reported
from kmdr.studies.verdicts import outcome

Floats = NDArray[np.float64]

STUDIES = (
    "lst17_coil20",
    *("lst17_sector", "lst17_sector_slow", "lst17_sector_lle"),
    *("lst17_rcv1", "lst17_rcv1_slow"),
    "lst17_ilsvrc2012",
)
# The papers' datasets in the order of the panels, each with what may stand in for it.
DATASETS: Mapping[str, tuple[str, ...]] = {
    "coil20": (), "sector": ("sector_like",), "rcv1": ("rcv1_like",), "ilsvrc2012": (),
}  # fmt: skip
UNSTATED = {"ilsvrc2012": "the paper states neither its size nor its features"}
LABELS = {"sector_like": "SECTOR-like", "rcv1_like": "RCV1-like"}
NAMES = {
    "none": "k-means", "svd": "SVD", "lle": "LLE", "laplacian_score": "LS", "random_sign": "RP", "sparsified": "PD",
    "sparse_embedding": "SE",
}  # fmt: skip
REDUCERS = [name for name in NAMES if name != "none"]
# A time that grows with a smaller power of r than this is called stable: at most 3.2-fold from r = 10 to 1000, which is
# little on the paper's logarithmic axes of three decades and more.
STABLE = 0.25


# -- figures -----------------------------------------------------------------------------------------------------------


def _shown(results: Results) -> dict[str, str]:
    """Return for each dataset of the paper what its panel shows: itself, or what stands in for it."""
    have = set(results.rows(STUDIES)["dataset"])
    return {name: next((one for one in (name, *others) if one in have), name) for name, others in DATASETS.items()}


def _styles(rows: pd.DataFrame) -> dict[Method, Style]:
    """Return the looks of the methods under the paper's names, in the order of its legend."""
    known = list(NAMES)
    looks = method_styles(methods_of(rows))
    ordered = sorted(looks, key=lambda method: known.index(method[0]) if method[0] in known else len(known))
    return {
        (name, params): looks[name, params]._replace(
            label=looks[name, params].label.replace(KNOWN[name].label, NAMES[name])
            if name in NAMES
            else looks[name, params].label
        )
        for name, params in ordered
    }


def _fewer_r(rows: pd.DataFrame, shown: Sequence[str]) -> str:
    """Say which methods were run at fewer r than the others of their panel."""
    found = []
    for dataset in shown:
        mine = rows[(rows["dataset"] == dataset) & (rows["reducer"] != "none")]
        few: dict[tuple[int, ...], list[str]] = {}
        for reducer, group in mine.groupby("reducer"):
            if set(group["r"]) < set(mine["r"]):
                few.setdefault(tuple(sorted(set(group["r"]))), []).append(NAMES.get(str(reducer), str(reducer)))
        name = dataset_label(dataset, LABELS)
        found += [f"{' and '.join(who)} on {name} at r = {', '.join(map(str, rs))}" for rs, who in few.items()]
    return f"As they take long, only at some r: {'; '.join(found)}." if found else ""


def _against_r(results: Results, id_: str, quantity: str, ylabel: str, note: str) -> Figure:
    """Draw one quantity against r in the paper's four panels."""
    results.rows(STUDIES)  # says that these were used, and why there are none
    rows = results.all_rows[results.all_rows["study"].isin(STUDIES)]  # failed ones too, which the notes count
    if quantity == "reduction_seconds":
        rows = rows[rows["reducer"] != "none"]
    shown = _shown(results)
    stand_ins = [dataset_label(name, LABELS) for paper, name in shown.items() if name != paper]
    published = reported("lst17")
    axis = published[published["id"] == id_].set_index(["dataset", "quantity"])["value"]
    notes = [
        note,
        "The grey bar at the right edge is reported: what the y axis of the paper's panel spans.",
        f"{' and '.join(stand_ins)}: generated text of the shape of what could not be had." if stand_ins else "",
        "The paper has no SVD, LLE and LS on RCV1 and ILSVRC2012: no result within three days."
        + (" LLE, which takes minutes for each r there, is not run on SECTOR-like." if stand_ins else ""),
        _fewer_r(rows, list(shown.values())),
    ]
    fig = paper_grid(
        rows,
        list(shown.values()),
        (quantity,),
        LABELS,
        {name: shorten(text, 100, placeholder=" …") for name, text in (results.missing | UNSTATED).items()},
        " ".join(text for text in notes if text),
        styles=_styles(rows),
    )
    fig.axes[0].set_ylabel(ylabel)
    numbers = drawn_numbers(fig)
    for ax, (paper, name) in zip(fig.axes, shown.items(), strict=True):
        mine = numbers[numbers["dataset"] == name]
        if mine.empty:
            continue
        low, high = (axis.xs((paper, f"{quantity}_axis_{end}")).item() for end in ("low", "high"))
        ax.set_xscale("linear")
        ax.set_xlim(0, 1040)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        ax.plot([1025, 1025], [low, high], color="#999999", linewidth=3, alpha=0.8, solid_capstyle="butt", zorder=1)
        least, most = min(low, mine["shown"].min()), max(high, mine["shown"].max())
        if quantity == "accuracy":
            ax.set_ylim(max(-0.02, least - 0.03), min(1.02, most + 0.03))
            ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
        else:
            ax.set_yscale("log", nonpositive="clip")
            ax.set_ylim(least / 1.5, most * 1.5)
            ax.yaxis.set_major_locator(LogLocator(numticks=7))
            ax.yaxis.set_major_formatter(power_of_ten)
            ax.yaxis.set_minor_formatter(NullFormatter())
        span = {"dataset": paper, "quantity": quantity, "low": low, "high": high, "label": "reported: the y axis"}
        record(ax, pd.concat([mine.drop(columns="panel"), pd.DataFrame([{**span, "drawn_as": "reported"}])]))
    return fig


@figure("lst17_fig1", "Accuracy of clustering against the number of dimensions", studies=STUDIES)
def fig1(results: Results) -> Figure:
    """Four panels in a row, P in % against r from 0 to 1000: COIL20, SECTOR, RCV1, ILSVRC2012."""
    return _against_r(results, "lst17_fig1", "accuracy", "accuracy P (%)", "")


@figure("lst17_fig2", "Dimension reduction time against the number of dimensions", studies=STUDIES)
def fig2(results: Results) -> Figure:
    """Four panels as in Figure 1, logarithmic y: the time to reduce, what does not depend on r included at each r."""
    note = "Reduction time: all that a method does before k-means, at this r alone."
    return _against_r(results, "lst17_fig2", "reduction_seconds", "reduction time (s)", note)


@figure("lst17_fig3", "Clustering time against the number of dimensions", studies=STUDIES)
def fig3(results: Results) -> Figure:
    """Four panels as in Figure 1, logarithmic y: the time of k-means on the reduced points, and on all features."""
    return _against_r(results, "lst17_fig3", "cluster_seconds", "clustering time (s)", "")


# -- Table 1 -----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of the paper's Table 1, the reducer it speaks of, and the power of r in its time."""

    method: str
    description: str
    dimensions: str
    time: str
    accuracy: str
    reducer: str
    exponent: float


# The numbers are those of the paper's references.
TABLE1 = (
    Row("Drineas et al. [13]", "SVD-FE", "k", "O(nd min{n, d})", "2", "svd", 0),
    Row("Folklore", "RP-FE", "O(log(n)/ε²)", "O(nd log(n)/(ε² log(d)))", "1 + ε", "random_sign", 1),
    Row("bmd09 [12]", "SVD-FS", "O(k log(k/ε)/ε²)", "O(nd min{n, d})", "2 + ε", "leverage", 0),
    Row("Feldman et al. [14]", "SVD-FE", "O(k/ε²)", "O(nd min{n, d})", "1 + ε", "svd", 0),
    Row("bzmd15 [1]", "RP-FE", "O(k/ε²)", "O(ndk/(ε² log(d)))", "2 + ε", "random_sign", 1),
    Row("Pourkamali-Anaraki, Becker [15]", "RP-FE", "O(log(n)/n)", "O(d log(d) n + d log(n))", "N/A", "sparsified", 0),
    Row("This paper", "SE-FE", "O(max((k + log(1/δ))/ε², 6/(ε²δ)))", "O(nnz(X))", "1 + ε", "sparse_embedding", 0),
    Row("k-means", "all features", "d", "", "", "none", np.nan),
)  # fmt: skip
R_TABLE1 = 100


def _interval(values: Floats) -> tuple[float, float, float]:
    if values.size == 0:
        return np.nan, np.nan, np.nan
    mean, low, high, _ = mean_interval(values)
    return mean, low, high


@table(
    "lst17_table1",
    "Dimension reduction methods for k-means: the paper's bounds, and time and approximation ratio measured on COIL20",
    studies=("lst17_coil20", "lst17_table1", "bzmd15_fig2"),
)
def table1(results: Results) -> Table:
    """Print the paper's rows and columns, and beside them what was measured on COIL20 at r = 100 (row [13]: r = k).

    The power of r in the reduction time is the slope of log time on log r over the grid, one a repetition that ran
    alone; reported is the power of r = k/ε² (or log(n)/ε²) in the paper's time. F/F_best is the objective over the
    smallest that any run found.
    """
    studies = ("lst17_coil20", "lst17_table1")
    rows = results.rows(studies, datasets=["coil20"])
    best = results.rows((*studies, "bzmd15_fig2"), datasets=["coil20"])
    ratios = quantity_rows(best.assign(ratio=ratio_to_best(best)), "ratio")
    seconds = quantity_rows(rows, "reduction_seconds")
    times = results.wide(studies, "reduction_seconds", datasets=["coil20"]).droplevel("dataset").apply(np.log10)
    times = times.reindex(columns=sorted({row.reducer for row in TABLE1}))
    k = int(rows["k"].iloc[0])
    lines = []
    for row in TABLE1:
        grid = sorted(set(rows.loc[rows["reducer"] == row.reducer, "r"]))
        if not grid:
            continue
        r = min(grid, key=lambda size: abs(np.log(size / (k if row.dimensions == "k" else R_TABLE1))))
        here = [
            frame.loc[frame["study"].isin(studies) & (frame["reducer"] == row.reducer) & (frame["r"] == r), "value"]
            for frame in (seconds, ratios)
        ]
        reduces = row.reducer != "none"
        power, power_low, power_high = _interval(_slopes(times, row.reducer) if reduces else np.empty(0))
        ratio, ratio_low, ratio_high = _interval(here[1].to_numpy())
        lines.append(
            {
                "method": row.method,
                "description": row.description,
                "dimensions": row.dimensions,
                "time": row.time,
                "accuracy": row.accuracy,
                "r": r,
                "seconds": here[0].mean() if reduces else np.nan,
                "power of r, reported": row.exponent,
                "power of r, ours": power,
                "power low": power_low,
                "power high": power_high,
                "difference": power - row.exponent,
                "F/F_best": ratio,
                "F/F_best low": ratio_low,
                "F/F_best high": ratio_high,
            }
        )
    formats = {
        "r": "d", "seconds": ".2g", "power of r, reported": ".0f", "power of r, ours": ".2f", "power low": ".2f",
        "power high": ".2f", "difference": "+.2f", "F/F_best": ".3f", "F/F_best low": ".3f", "F/F_best high": ".3f",
    }  # fmt: skip
    repeats = rows["repeat"].nunique()
    note = (
        f"The columns from r on are measured on COIL20: {repeats} repetitions, times from those that ran alone; low "
        "and high: 95 % Student-t intervals of the mean. The paper's accuracies bound F/F_opt when the reduced points "
        "are clustered optimally; the measured ratio, of one k-means start to the smallest F found, also holds the "
        "loss of that start, which the last row shows alone. [12] is Sampl/SVD, [13] and [14] are SVD, [1] and "
        "Folklore RP, [15] PD. Our SVD computes only r singular vectors, so its time grows with r where the paper's "
        "does not."
    )
    return Table(pd.DataFrame(lines), formats, note)


# -- claims ------------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A component with its place in the sentence: dataset, what is told of it, of which method, and where it holds."""

    dataset: str
    what: str
    name: str
    component: Component
    where: str = ""

    @property
    def outcome(self) -> str:
        """What its test says by itself."""
        return outcome(self.component.p_for, self.component.p_against)


Test = Callable[..., Component]
Parts = Callable[[Results, str], list[Part]]
RELATIONS = {"above": "> ", "below": "< ", "equal": "within ± ", "ratio_above": "> ", "ratio_below": "< "}
FORMATS = {"P": "+z.3f", "power of r": "z.2f", "ratio of times": ".3g"}


def _table(results: Results, quantity: str, dataset: str) -> pd.DataFrame:
    """Return a quantity of one dataset by (r, repeat), a column a method of the paper."""
    wide = results.wide(STUDIES, quantity, datasets=[dataset], reducers=list(NAMES))
    return wide.droplevel("dataset").reindex(columns=list(NAMES))


def _slopes(values: pd.DataFrame, name: str) -> Floats:
    """Return the least-squares slope of a quantity on log₁₀ r within each repetition that has every r."""
    lines = values[name].dropna().unstack("r").dropna()
    if lines.shape[1] < 2 or lines.shape[0] == 0:
        return np.empty(0)
    return slopes(lines, np.log10(lines.columns.to_numpy(dtype=float)))


def _label(what: str, name: str, test: Test, bound: float, dataset: str) -> str:
    return f"{what} {NAMES[name]} {RELATIONS[test.__name__]}{bound:g}, {dataset_label(dataset, LABELS)}"


def _grows(dataset: str, what: str, test: Test, values: pd.DataFrame, name: str, bound: float, unit: str) -> list[Part]:
    """Return the part that tests a method's slope on log₁₀ r, one a repetition; none where r did not vary."""
    powers = _slopes(values, name)
    if powers.size == 0:
        return []
    label = _label(what, name, test, bound, dataset)
    return [Part(dataset, what, NAMES[name], test(label, powers, bound, unit=unit))]


def _differs(dataset: str, what: str, test: Test, values: pd.DataFrame, name: str, other: str, told: str) -> list[Part]:
    """Return the part that compares two methods at the r that both have; none where there is no such r.

    Differences are averaged over r within a repetition. Times are compared by ratios, that is by their logarithms.
    """
    ratio = test in (ratio_above, ratio_below)
    pair = values[[name, other]].apply(np.log) if ratio else values[[name, other]]
    gaps = (pair[name] - pair[other]).dropna()
    if gaps.empty:
        return []
    means = gaps.groupby("repeat").mean().to_numpy(dtype=float)
    by_r = gaps.groupby("r").mean() * (1 if test in (above, ratio_above) else -1)
    label = _label(what, told, test, 1 if ratio else 0, dataset)
    component = test(label, np.exp(means), unit="ratio of times") if ratio else test(label, means, unit="P")
    return [Part(dataset, what, NAMES[told], component, f"at {int((by_r > 0).sum())} of {len(by_r)} r")]


def _told(part: Part) -> str:
    """Return effect and, unless the part holds, what the test says."""
    value = part.component.effect
    effect = f"{part.name} {format(value, '.0f' if value >= 100 else FORMATS[part.component.unit])}"
    if part.outcome == "reproduced":
        return effect
    says = "not so" if part.outcome == "not reproduced" else "undecided"
    return f"{effect} ({says}{f'; true {part.where}' if part.where else ''})"


def _holding(parts: Sequence[Part]) -> int:
    return sum(part.outcome == "reproduced" for part in parts)


def _on(results: Results, datasets: Sequence[str], parts: Parts) -> dict[str, list[Part]]:
    """Return the parts of a claim on each dataset that has rows for any."""
    found = {}
    for dataset in datasets:
        try:
            mine = parts(results, dataset)
        except NotRunError:
            continue
        if mine:
            found[dataset] = mine
    return found


def _finding(results: Results, parts: Parts, more: Callable[[Results, str], str] = lambda *_: "") -> Finding:
    """Test a claim on the paper's datasets; what stands in for one is told of, but decides nothing.

    Raises
    ------
    NotRunError
        When no dataset of the paper has what the claim needs.
    """
    found = _on(results, list(DATASETS), parts)
    generated = _on(results, [name for others in DATASETS.values() for name in others], parts)
    if not found:
        raise NotRunError("no dataset of the paper was run with the methods that the claim compares")
    every = [part for mine in found.values() for part in mine]
    texts: list[str] = []
    for dataset, mine in found.items():
        for what in dict.fromkeys(part.what for part in mine):
            told = ", ".join(_told(part) for part in mine if part.what == what)
            texts.append(f"on {dataset_label(dataset)} the {what} {told}")
        texts += [text] if (text := more(results, dataset)) else []
    for dataset, mine in generated.items():
        undecided = sum(part.outcome == "inconclusive" for part in mine)
        failing = [f"{part.what} {_told(part)}" for part in mine if part.outcome == "not reproduced"]
        texts.append(
            f"on generated {dataset_label(dataset, LABELS)} text (not counted) {_holding(mine)} of {len(mine)} hold"
            + (f", {undecided} undecided" if undecided else "")
            + (f", the {', the '.join(failing)}" if failing else "")
        )
    sentence = f"{_holding(every)} of {len(every)} parts hold: {'; '.join(texts)}."
    return Finding([part.component for part in every], sentence)


@claim(
    "lst17-1",
    "As the number of dimensions increases, the accuracy and the running times of all reduction methods increase.",
    "§4.2, first point",
    studies=STUDIES,
)
def claim1(results: Results) -> Finding:
    """P and the running time (reduction and clustering) of each of the six methods grow with r.

    For each dataset and method two statements: the slope of P on log₁₀ r over the grid, and that of log time on log r
    (the power of r with which the time grows), are above 0; one slope a repetition, by Student's t. Any method on any
    dataset of the paper whose P or time does not grow makes the claim fail; stand-ins decide nothing.
    """

    def parts(results: Results, dataset: str) -> list[Part]:
        P = _table(results, "accuracy", dataset)
        seconds = _table(results, "total_seconds", dataset).apply(np.log10)
        tested = (
            ("change of P per tenfold r of", P, "P"),
            ("power of r in the running time of", seconds, "power of r"),
        )
        return [
            part
            for what, values, unit in tested
            for name in REDUCERS
            for part in _grows(dataset, what, above, values, name, 0, unit)
        ]

    return _finding(results, parts)


@claim(
    "lst17-2",
    "SE has superior performance compared to the RP method and other baselines in terms of accuracy.",
    "§4.2, second point",
    studies=STUDIES,
)
def claim2(results: Results) -> Finding:
    """SE has a higher P than each of the five other reduction methods, averaged over the grid of r.

    For each dataset and other method: the difference of P between trials that started from the same centres, averaged
    over the r that both have, is above 0; one value a repetition, by Student's t, without a margin, for the paper says
    superior. Any method that is not behind SE makes the claim fail; stand-ins decide nothing.
    """

    def parts(results: Results, dataset: str) -> list[Part]:
        P = _table(results, "accuracy", dataset)
        return [
            part
            for name in REDUCERS
            if name != "sparse_embedding"
            for part in _differs(dataset, "P of SE less that of", above, P, "sparse_embedding", name, told=name)
        ]

    return _finding(results, parts)


@claim(
    "lst17-3",
    "LLE and LS generally underperform on the COIL20 and SECTOR data sets.",
    "§4.2, second point",
    studies=("lst17_coil20", "lst17_sector", "lst17_sector_slow", "lst17_sector_lle"),
)
def claim3(results: Results) -> Finding:
    """LLE and LS each have a lower P than each of SVD, RP, PD and SE, averaged over the grid of r.

    For each dataset and pair: the difference of P between trials that started from the same centres, averaged over the
    r that both have (the paper says generally), is below 0; one value a repetition, by Student's t. One method that
    LLE or LS is not behind makes the claim fail; stand-ins decide nothing.
    """

    def parts(results: Results, dataset: str) -> list[Part]:
        P = _table(results, "accuracy", dataset)
        weak = ("lle", "laplacian_score")
        return [
            part
            for name in weak
            for other in REDUCERS
            if other not in weak
            for part in _differs(dataset, f"P of {NAMES[name]} less that of", below, P, name, other, told=other)
        ]

    return _finding(results, parts)


@claim(
    "lst17-4",
    "SVD and LLE are the two slowest methods in terms of dimensionality reduction time.",
    "§4.2, third point",
    studies=STUDIES,
)
def claim4(results: Results) -> Finding:
    """SVD and LLE each take longer to reduce than each of LS, RP, PD and SE, averaged over the grid of r.

    For each dataset and pair: the ratio of reduction times (all before k-means), as a geometric mean over the r that
    both have, is above 1; one value a repetition that ran alone, by Student's t on its logarithm. One method that SVD
    or LLE is not slower than makes the claim fail; stand-ins decide nothing.
    """

    def parts(results: Results, dataset: str) -> list[Part]:
        seconds = _table(results, "reduction_seconds", dataset)
        slow = ("svd", "lle")
        return [
            part
            for name in slow
            for other in REDUCERS
            if other not in slow
            for part in _differs(
                dataset, f"reduction time of {NAMES[name]} over that of", ratio_above, seconds, name, other, told=other
            )
        ]

    return _finding(results, parts)


@claim(
    "lst17-5",
    "The reduction time of RP increases significantly with the dimensions, while SE has a stable and the lowest one.",
    "§4.2, third point",
    studies=STUDIES,
)
def claim5(results: Results) -> Finding:
    """RP's reduction time grows with r, SE's is stable, and SE's is lower than that of each other method.

    For each dataset: the power of r in RP's reduction time (slope of log time on log r over the grid) is above 0.25;
    that of SE lies within ± 0.25, by two one-sided tests: such a time grows at most 3.2-fold from r = 10 to 1000,
    little on the paper's logarithmic axes; and the ratio of SE's reduction time to that of each other method, as a
    geometric mean over r, is below 1. One value a repetition that ran alone, by Student's t. Any of these that does not
    hold makes the claim fail; stand-ins decide nothing. The paper's 'several hundred orders of magnitude faster' cannot
    be meant literally and is not tested.
    """

    def parts(results: Results, dataset: str) -> list[Part]:
        seconds = _table(results, "reduction_seconds", dataset)
        logs = seconds.apply(np.log10)
        powers: list[tuple[str, Test]] = [("random_sign", above), ("sparse_embedding", equal)]
        return [
            part
            for name, test in powers
            for part in _grows(dataset, "power of r in the reduction time of", test, logs, name, STABLE, "power of r")
        ] + [
            part
            for name in REDUCERS
            if name != "sparse_embedding"
            for part in _differs(
                dataset, "reduction time of SE over that of", ratio_below, seconds, "sparse_embedding", name, told=name
            )
        ]

    return _finding(results, parts)


@claim(
    "lst17-6",
    "All dimensionality reduction methods are significantly faster than the standard k-means on the full dimensions.",
    "§4.2, fourth point",
    studies=STUDIES,
)
def claim6(results: Results) -> Finding:
    """K-means on the reduced points takes less time than on all features, for each of the six methods.

    For each dataset and method: the ratio of the clustering time to that of k-means on all features from the same
    initial centres, as a geometric mean over the grid of r, is below 1; one value a repetition that ran alone, by
    Student's t on its logarithm. One method that is not faster makes the claim fail; stand-ins decide nothing. The
    explanation also names the r from which on a method's mean ratio is 1 or more.
    """

    def parts(results: Results, dataset: str) -> list[Part]:
        seconds = _table(results, "cluster_seconds", dataset)
        return [
            part
            for name in REDUCERS
            for part in _differs(
                dataset, "clustering time, over that on all features, of", ratio_below, seconds, name, "none", told=name
            )
        ]

    return _finding(results, parts, _no_longer_faster)


def _no_longer_faster(results: Results, dataset: str) -> str:
    """Say from which r on methods take as long as k-means on all features."""
    seconds = _table(results, "cluster_seconds", dataset).apply(np.log)
    means = seconds.sub(seconds["none"], axis=0).groupby("r").mean()
    texts = []
    for name in REDUCERS:
        slower = means.index[means[name] >= 0]
        faster = means.index[means[name] < 0]
        if len(slower):
            after = slower[slower > faster.max()] if len(faster) else slower
            texts.append(f"{NAMES[name]} from r = {after[0]} on" if len(after) else f"{NAMES[name]} at some r")
    return f"not faster there: {', '.join(texts)}" if texts else ""
