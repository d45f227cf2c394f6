"""lf20's Figures 1–10 and Tables 1–2."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import count_repetitions, is_time, statistic, without_scores
from kmdr.claims.best_of import SYMBOLS, law, runs, selection_table
from kmdr.claims.catalogue import figure, table
from kmdr.claims.reported import Number, numbers
from kmdr.figures.canvas import Drawing, canvas, finish
from kmdr.figures.panels import dataset_label, paper_grid, plot_panel
from kmdr.figures.style import KNOWN, LineStyle, Method, Style, method_styles, print_style
from kmdr.figures.tables import Table

from .cells import compare_cell
from .protocol import (
    AS_SCORED,
    BEST_OF,
    ENOUGH,
    GOOD,
    MATRICES,
    NEAR,
    NIPS,
    NIPS_RUNS,
    ORL,
    ORL_64,
    ORL_64_TIMES,
    ORL_TIMES,
    TABLE2,
    TABLE2_NIPS_R,
    WORDS_R,
    near_in_words,
    with_matching,
)  # fmt: skip

# Figure 6, in the order in which MATLAB printed it.
WORDS = (
    *("basic", "code", "code", "code", "code", "computer", "david", "efficiency", "engine", "estimates"),
    *("exploring", "formulation", "hand", "hand", "hand", "hidden", "hill", "ideas", "iterative", "naftali"),
    *("potentials", "providing", "result", "rev", "rob", "ruyter", "ruyter", "ruyter", "turn", "universality"),
)
_PARTS: tuple[tuple[LineStyle, str], ...] = (("-", "total"), ("--", "preprocessing"))
_ONE_RUN = "The report does not say how many runs a point represents."


def _draw_panel(results: Results, id_: str, quantity: str) -> Drawing:
    """Draw one quantity of random signs on ORL against t, with the value that the text reports."""
    studies = (ORL, ORL_TIMES) if is_time(quantity) else ORL
    rows = results.rows(studies, datasets=["orl"], reducers=["random_sign"])
    with print_style():
        fig, (ax,) = canvas(1)
        drawn = plot_panel(ax, rows, quantity)
        ax.set_xlabel("number of dimensions t")
        reported = _draw_reported(ax, id_, drawn)
        count = int(drawn["count"].max())
        note = (
            f"Median of {count} timings; band: distribution-free 95 % interval. {_ONE_RUN}"
            if is_time(quantity)
            else f"Mean of {count} repetitions; band: 95 % Student-t interval of the mean. {_ONE_RUN}"
        )
        return Drawing(finish(fig, [note], legend_columns=2), [pd.concat([drawn, reported])])


def _draw_reported(ax: Axes, id_: str, drawn: pd.DataFrame) -> pd.DataFrame:
    """Mark the reported numbers of a figure as open grey squares, and return them in the form of `plot_panel`."""
    reported = [number for number in numbers(id_) if number.quantity == drawn["quantity"].iloc[0]]
    if reported:
        x, y = [number.r for number in reported], [number.value for number in reported]
        ax.plot(x, y, "s", color="#777777", markerfacecolor="white", markersize=4, zorder=4, label="reported")
        low, high = ax.get_ylim()
        pad = 0.05 * (high - low)
        ax.set_ylim(min(low, min(y) - pad), max(high, max(y) + pad))
    return _as_drawn(reported)


def _as_drawn(reported: Sequence[Number], **settings: str) -> pd.DataFrame:
    """Return reported numbers, of certain settings if these are given, in the form of `plot_panel`."""
    return pd.DataFrame(
        [
            {
                "quantity": number.quantity, "dataset": number.dataset, "reducer": number.method, "r": int(number.r),
                statistic(number.quantity): number.value, "label": "reported", "drawn_as": "reported", **settings,
            }
            for number in reported
        ]
    )  # fmt: skip


@figure("lf20_fig1", "Normalised objective of random signs on ORL against t", studies=[ORL])
def figure1(results: Results) -> Drawing:
    """F against t = 5, 10, …, 300, one panel; the text's F at t = 130 marked."""
    return _draw_panel(results, "lf20_fig1", "objective")


@figure("lf20_fig2", "Accuracy of random signs on ORL against t", studies=[ORL])
def figure2(results: Results) -> Drawing:
    """P against t = 5, 10, …, 300 under the best matching, one panel; the text's P at t = 130 marked."""
    return _draw_panel(results, "lf20_fig2", "accuracy")


@figure("lf20_fig3", "Total running time of random signs on ORL against t", studies=[ORL, ORL_TIMES])
def figure3(results: Results) -> Drawing:
    """Time of reduction and k-means against t, one panel: medians of trials that ran one at a time."""
    return _draw_panel(results, "lf20_fig3", "total_seconds")


@figure(
    "lf20_fig4", "Total and preprocessing time of four projection matrices on ORL 64×64", studies=[ORL_64, ORL_64_TIMES]
)  # fmt: skip
def figure4(results: Results) -> Drawing:
    """Total time solid and the part before k-means dashed, in one panel, for each matrix (the report shows one)."""
    rows = results.rows((ORL_64, ORL_64_TIMES), reducers=MATRICES)
    solid = method_styles((name, params) for name, params in rows[["reducer", "params"]].drop_duplicates().to_numpy())
    whole, before = (
        {key: look._replace(linestyle=line, marker="", label=f"{look.label}, {part}") for key, look in solid.items()}
        for line, part in _PARTS
    )
    with print_style():
        fig, (ax,) = canvas(1, height=2.3)
        drawn = [
            plot_panel(ax, rows, "total_seconds", styles=whole),
            plot_panel(ax, rows, "reduction_seconds", styles=before),
        ]
        both = pd.concat(drawn)
        ax.set_title(f"{dataset_label('orl_64x64')} – Total and preprocessing time", loc="left")
        ax.set_ylabel("time (s)")
        ax.set_yscale("linear")
        ax.set_ylim(0, 1.05 * float(both["median"].max()))
        ax.set_xlabel("number of dimensions t")
        part = (drawn[1]["median"] / drawn[0]["median"]).mean()
        note = (
            f"Preprocessing is everything before k-means: {100 * part:.0f} % of the total here, on average; the report "
            f"calls k-means the main part. Medians of {int(both['count'].max())} timings, measured serially, with "
            "their distribution-free 95 % intervals."
        )
        return Drawing(finish(fig, [note], legend_columns=2), [both])


@figure("lf20_fig5", "Accuracy of four projection matrices on ORL 64×64", studies=[ORL_64, ORL_64_TIMES])
def figure5(results: Results) -> Drawing:
    """P against t for random signs, normal, sparse ternary (Achlioptas) and fast Johnson–Lindenstrauss matrices."""
    return paper_grid(results.rows(ORL_64, reducers=MATRICES), ["orl_64x64"], ["accuracy"], note=_ONE_RUN)


def _often(words: Sequence[str]) -> str:
    return ", ".join(f"{word} ({times})" for word, times in Counter(words).most_common(4) if times > 1) or "none"


@figure(
    "lf20_fig6", "The 30 words that leverage sampling selects on NIPS", studies=[NIPS_RUNS], facts=["lf20_words"]
)  # fmt: skip
def figure6(results: Results) -> Drawing:
    """As MATLAB printed them: the reported words and the words of our best of 100 runs by F, each as often as drawn.

    Words in both lists are bold.
    """
    ours = results.fact("lf20_words")
    lists = {"reported": list(WORDS), "ours": [str(word) for word in ours["word"]]}
    common = set(lists["reported"]) & set(lists["ours"])
    with print_style():
        fig, axes = canvas(2, height=1.6)
        panels = []
        for ax, (name, drawn) in zip(axes, lists.items(), strict=True):
            ax.set_axis_off()
            ax.set_title(name, loc="left")
            for i, word in enumerate(drawn):
                row, column = divmod(i, 4)
                weight = "bold" if word in common else "normal"
                ax.text(column / 4, 1 - (row + 0.5) / 8, word, weight=weight, transform=ax.transAxes, va="center")
            in_both = [int(word in common) for word in drawn]
            position = np.arange(1, len(drawn) + 1)
            panels.append(pd.DataFrame({"list": name, "position": position, "word": drawn, "in_both": in_both}))
        notes = [
            f"Different words: {len(set(WORDS))} reported, {len(set(lists['ours']))} ours, {len(common)} both (bold).",
            f"Ours: the best of {BEST_OF} runs by F. Drawn more than once, most often: reported {_often(WORDS)}; ours "
            f"{_often(lists['ours'])}.",
        ]
        return Drawing(finish(fig, notes), panels)


@table(
    "lf20_fig7", "P and F of leverage-score sampling on NIPS at r = 5k, 10k, 20k and of all features",
    studies=[NIPS_RUNS, NIPS],
)  # fmt: skip
def figure7(results: Results) -> Table:
    """P and F at r = 5k, 10k, 20k and without reduction: a table, which the report prints as its Figure 7.

    Ours is the mean of the best of 100 runs by F, of all features of one run, estimated from all runs.
    """
    note = (
        f"Ours: mean of the best of {BEST_OF} runs by F, of all features of one run; low to high: central 95 % of its "
        "distribution; ≤ reported: the probability of the reported value or less; typical run: mean of single runs."
    )
    studies = {"leverage": NIPS_RUNS, "none": NIPS}
    return selection_table(results, "lf20_fig7", studies, {"leverage": BEST_OF, "none": 1}, note)


@table(
    "lf20_section3-3",
    "P and F of leverage-score sampling on NIPS in bmd09, in its replication here, and in ours",
    studies=[NIPS_RUNS, NIPS, "bmd09_table1"],
    datasets=["nips"],
)
def replications(results: Results) -> Table:
    """Compare the report's replication with bmd09's Table 1 and with ours under either protocol, one row per cell.

    Ours is the best of m single runs by F: of 30 runs of 30 starts as in bmd09 (of one run on all features), and of 100
    runs of ten starts as in the report; mean and central 95 % of its distribution.
    """
    sides: tuple[tuple[str, dict[str, str], dict[str, int]], ...] = (
        ("bmd09_table1", {"leverage": "bmd09_table1", "none": "bmd09_table1"}, {"leverage": 30, "none": 1}),
        ("lf20_fig7", {"leverage": NIPS_RUNS, "none": NIPS}, {"leverage": BEST_OF, "none": 1}),
    )
    lines: dict[tuple[str, str], dict[str, object]] = {}
    gaps = []
    for id_, studies, kept in sides:
        paper, m = id_.partition("_")[0], kept["leverage"]
        for number in numbers(id_, dataset="nips"):
            symbol, r = SYMBOLS[number.quantity], "all" if np.isnan(number.r) else f"{number.r:.0f}"
            line = lines.setdefault((symbol, r), {"quantity": symbol, "r": r})
            line[paper] = number.value
            try:
                rows = runs(results, studies[number.method], "nips", number.method, number.r)
            except NotRunError as reason:
                gaps.append(str(reason))
                continue
            best, values = law(rows, kept[number.method]), rows[number.quantity].to_numpy(dtype=float)
            line |= {
                f"ours of {m}": best.mean(values),
                f"low of {m}": best.quantile(values, 0.025),
                f"high of {m}": best.quantile(values, 0.975),
            }
    frame = pd.DataFrame(lines.values())
    if not any(str(name).startswith("ours") for name in frame):
        raise NotRunError("; ".join(dict.fromkeys(gaps)))
    note = (
        "bmd09: its Table 1; ours of 30: mean and central 95 % of the best of 30 runs by F with 30 starts each (of one "
        f"run on all features). lf20: Figure 7; ours of {BEST_OF}: the same for {BEST_OF} runs with ten starts each."
    )
    formats = {name: ".4g" if name in ("bmd09", "lf20") else ".3f" for name in frame.columns[2:]}
    return Table(frame, formats, note + "".join(f" Not run: {reason}." for reason in dict.fromkeys(gaps)))


@figure(
    "lf20_fig8", "Accuracy and time of leverage-score sampling and random signs on ORL",
    studies=[*AS_SCORED.values(), ORL, ORL_TIMES],
)  # fmt: skip
def figure8(results: Results) -> Drawing:
    """P (left) and total time (right) against r for leverage sampling and random signs, with the reported curves.

    P is drawn under the matching that the report's code used for each method (solid: cluster j taken for person j; for
    random signs each tenth image compared with the next person) and under the best matching (dashed).
    """
    rows = with_matching(results)
    scored, right = '{"matching":"report\'s"}', '{"matching":"best"}'
    styles: dict[Method, Style] = {}
    for name in AS_SCORED:
        look = KNOWN[name]._replace(marker="")
        styles[name, scored] = look._replace(linestyle="-", label=f"{look.label}, report's matching")
        styles[name, right] = look._replace(linestyle="--", label=f"{look.label}, best matching")
    timed = results.rows((ORL, ORL_TIMES), datasets=["orl"], reducers=list(AS_SCORED)).assign(params=right)
    with print_style():
        fig, axes = canvas(2, height=2.3)
        panels = []
        for letter, ax, shown, quantity in zip("ab", axes, (rows, timed), ("accuracy", "total_seconds"), strict=True):
            drawn = plot_panel(ax, shown, quantity, name=dataset_label("orl"), letter=letter, styles=styles)
            reported = numbers("lf20_fig8", quantity=quantity)
            for name in AS_SCORED:
                curve = [(number.r, number.value) for number in reported if number.method == name]
                ax.plot(
                    *zip(*curve, strict=True), linestyle="none", marker=KNOWN[name].marker, markerfacecolor="none",
                    markeredgecolor=KNOWN[name].color, markersize=3, alpha=0.7, label=f"{KNOWN[name].label}, reported",
                )  # fmt: skip
            ax.autoscale(axis="y")
            ax.set_xlabel("number of dimensions r")
            panels.append(pd.concat([drawn, _as_drawn(reported, params=scored)]))
        notes = [
            f"Within {NEAR} of the reported curve: {near_in_words(results)}.",
            f"Ours are means of {count_repetitions(rows)} repetitions, and medians of timings; bands: 95 % intervals.",
            "Times: of the runs scored by the best matching, timed serially, without scoring. The reported times are "
            "from another machine, with a full decomposition.",
        ]
        return Drawing(finish(fig, notes, legend_columns=3), panels)


@figure("lf20_fig9", "Accuracy and time with approximate singular vectors on ORL", studies=[ORL, ORL_TIMES])
def figure9(results: Results) -> Drawing:
    """Draw (a) P and (b) total time against r: leverage sampling by exact and approximate vectors, random signs."""
    methods = ["leverage", "leverage_approx", "random_sign"]
    rows = without_scores(results.rows((ORL, ORL_TIMES), datasets=["orl"], reducers=methods), [ORL_TIMES])
    styles = method_styles((name, params) for name, params in rows[["reducer", "params"]].drop_duplicates().to_numpy())
    with print_style():
        fig, axes = canvas(2)
        panels = []
        for letter, ax, quantity in zip("ab", axes, ("accuracy", "total_seconds"), strict=True):
            panels.append(plot_panel(ax, rows, quantity, letter=letter, styles=styles))
            ax.set_xlabel("number of dimensions r")
        note = (
            f"Means of {count_repetitions(rows)} repetitions; times: medians of serial timings; bands: 95 % intervals."
        )
        return Drawing(finish(fig, [f"{note} {_ONE_RUN}"], legend_columns=3), panels)


@figure(
    "lf20_fig10", "Accuracy over repeated runs of leverage sampling on NIPS, and a typical bad run",
    studies=[NIPS_RUNS],
    facts=["lf20_tsne"],
)  # fmt: skip
def figure10(results: Results) -> Drawing:
    """Histogram of P over 100 runs at r = 30 (left); t-SNE of C of a typical bad run, coloured by cluster (right)."""
    rows = runs(results, NIPS_RUNS, "nips", "leverage", WORDS_R)
    P = rows["accuracy"].to_numpy(dtype=float)
    edges = np.linspace(0.3, 1.0, 15)
    first, _ = np.histogram(P[:BEST_OF], edges)
    every, _ = np.histogram(P, edges)
    scaled = every * (first.sum() / every.sum())
    with print_style():
        fig, (left, right) = canvas(2, height=2.3)
        color = KNOWN["leverage"].color
        left.bar(edges[:-1], first, np.diff(edges), align="edge", color=color, label=f"first {first.sum()} runs")
        left.stairs(scaled, edges, color="black", label=f"all {len(P)} runs, scaled")
        left.set_title(f"(a) {dataset_label('nips')} – P of single runs, r = {WORDS_R}", loc="left")
        left.set_xlabel("accuracy P")
        left.set_ylabel("runs")
        left.legend(loc="upper right")
        bars = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "first_runs": first, "all_runs": every})
        notes = [f"{100 * np.mean(P >= GOOD):.0f} % of all runs reach P ≥ {GOOD}."]
        points = pd.DataFrame()
        try:
            points = results.fact("lf20_tsne")
        except NotRunError as reason:
            right.text(0.5, 0.5, str(reason), ha="center", va="center", wrap=True, transform=right.transAxes)
            right.set_axis_off()
        else:
            looks = [KNOWN[name] for name in ("leverage", "random_sign", "svd")]
            for (name, members), look in zip(points.groupby("cluster"), looks, strict=False):
                label = f"cluster {name} ({len(members)})"
                right.plot(members["x"], members["y"], look.marker, color=look.color, markersize=2.5, label=label)
            right.set_title("(b) t-SNE of the reduced points of a typical bad run", loc="left")
            right.set_xticks([])
            right.set_yticks([])
            right.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
            run = points.iloc[0]
            notes.append(
                f"(b): repetition {run['repeat']:.0f}, of median F ({run['objective']:.3f}) among the first {BEST_OF} "
                f"runs with P < {GOOD}; its P is {run['accuracy']:.3f}, its largest cluster has "
                f"{points['cluster'].value_counts().max()} of {len(points)} papers."
            )
        return Drawing(finish(fig, notes), [bars, points])


@table("lf20_table1", "Leverage scores of the selected features on ORL and NIPS", facts=["lf20_scores"])
def table1(results: Results) -> Table:
    """As in the paper: smallest and largest score and variance over the features that sampling selects.

    Ours: mean and central 95 % over 300 draws, with singular vectors of A, and of the centred A as in the report's
    code.
    """
    drawn = results.fact("lf20_scores")
    lines = []
    for number in numbers("lf20_table1"):
        for centred, vectors in ((0, "of A"), (1, "of the centred A")):
            draws = drawn[(drawn["dataset"] == number.dataset) & (drawn["centred"] == centred)]
            if draws.empty:
                continue
            values = draws[number.quantity]
            lines.append(
                {
                    "dataset": dataset_label(number.dataset), "quantity": number.quantity.replace("_", " "),
                    "singular vectors": vectors, "r": int(draws["r"].iloc[0]), "reported": number.value,
                    "ours": values.mean(), "low": values.quantile(0.025), "high": values.quantile(0.975),
                    "difference": values.mean() - number.value,
                }
            )  # fmt: skip
    if not lines:
        raise NotRunError("lf20_scores has no draws")
    note = (
        "The report does not state r; we use 130 on ORL and 30 on NIPS. Ours: mean over 300 draws; low to high: their "
        "central 95 %. The report's code uses singular vectors of the column-centred A."
    )
    formats = dict.fromkeys(("reported", "ours", "low", "high"), ".3g") | {"difference": "+.2g", "r": "d"}
    return Table(pd.DataFrame(lines), formats, note)


@table("lf20_table2", "Accuracy of A, AV_k, ASD and AR on ORL and NIPS", studies=[ORL, NIPS])
def table2(results: Results) -> Table:
    """As in the paper: P of all features, of projection on singular vectors, of sampling and of random signs.

    Singular vectors are approximate, as the report states for this table.
    """
    lines: list[dict[str, Any]] = []
    gaps: dict[str, str] = {}
    for number in numbers("lf20_table2"):
        label = dataset_label(number.dataset)
        line: dict[str, Any] = {"method": TABLE2[number.method], "dataset": label, "reported": number.value}
        try:
            cell = compare_cell(results, number)
        except NotRunError as reason:
            gaps[number.dataset] = str(reason)
            lines.append(line)
            continue
        draw = cell.draw
        ours = {"ours": draw.mean, "low": max(0.0, draw.low), "high": min(1.0, draw.high)}
        difference = {"difference": draw.mean - number.value, "typical run": cell.typical, "runs": cell.runs}
        lines.append(line | ours | difference)
    frame = pd.DataFrame(lines)
    if "ours" not in frame:
        raise NotRunError("; ".join(gaps.values()))
    note = (
        "A: all features; AV_k: approximate singular vectors; ASD: sampling by approximate leverage scores; AR: random "
        f"signs. The report does not state r. ORL: runs at t = {ENOUGH}. NIPS: at r = {TABLE2_NIPS_R}, the best of "
        f"{BEST_OF} runs by F for ASD and AR, as in Figure 7, and one run for A and AV_k. Ours: mean of such a result; "
        "low to high: its 95 % prediction interval, which is 0 to 1 where our runs are too few to reject any value; "
        "typical run: mean of single runs."
    )
    formats = {"reported": ".2f", "difference": "+.3f", "runs": ".0f"}
    return Table(frame, formats | dict.fromkeys(("ours", "low", "high", "typical run"), ".3f"), note)


ITEMS = (
    *(figure1, figure2, figure3, figure4, figure5, figure6, figure7, figure8, figure9, figure10),
    *(table1, table2, replications),
)
