"""lf20: Dimensionality reduction for k-means clustering (course report, in Chinese, 2020)."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE

from kmdr import reducers
from kmdr.datasets import Dataset
from kmdr.kmeans import Protocol, cluster, starter
from kmdr.linalg import top_right_singular_vectors
from kmdr.metrics import objective
from kmdr.reducers.base import column_centred
from kmdr.reducers.leverage import leverage_scores, sample_columns
from kmdr.report.canvas import canvas, finish
from kmdr.report.figures import dataset_label, paper_grid, plot_panel, record
from kmdr.report.statistics import (
    Component,
    above,
    best_in_blocks,
    equal,
    ratio_above,
    ratio_below,
    share,
)
from kmdr.report.style import KNOWN, LineStyle, Method, Style, method_styles, print_style
from kmdr.report.summary import mean_interval
from kmdr.seeding import generator
from kmdr.studies.best import SYMBOLS, counted, drawn_again, kept_run, law, numbers, runs, selection_table, shown
from kmdr.studies.catalogue import Finding, Table, claim, fact, figure, table
from kmdr.studies.results import NotRunError, Results
from kmdr.threads import pinned
from kmdr.timing import Stopwatch

ORL, ORL_64, NIPS, NIPS_RUNS = "lf20_orl", "lf20_fig5", "lf20_nips", "lf20_nips_runs"
# Figure 8 scored as the report's code did: (study, reducer).
AS_SCORED = {"leverage": "lf20_fig8_leverage", "random_sign": "lf20_fig8_random_sign"}
MATRICES = ("random_sign", "gaussian", "achlioptas", "fjlt")
TABLE2 = {"none": "A", "approx_svd": "AV_k", "leverage_approx": "ASD", "random_sign": "AR"}
BEST_OF = 100
ENOUGH = 130  # the t at which the report says that F and P are almost at their best
WORDS_R = 30  # of Figures 6 and 10
TABLE2_NIPS_R = 60
GOOD = 0.5
NEAR = 0.05  # of a reported curve
# Figure 6, in the order in which MATLAB printed it.
WORDS = (
    *("basic", "code", "code", "code", "code", "computer", "david", "efficiency", "engine", "estimates"),
    *("exploring", "formulation", "hand", "hand", "hand", "hidden", "hill", "ideas", "iterative", "naftali"),
    *("potentials", "providing", "result", "rev", "rob", "ruyter", "ruyter", "ruyter", "turn", "universality"),
)
P_MARGIN = 0.02
HARDLY = {"objective": 0.02, "accuracy": 0.02}  # of F relatively, of P absolutely
FAST = 1.25
SHARE_MARGIN = 0.10
SAME_IN_TABLE2 = 0.03
SPREAD = 1000.0
# conf/kmeans/lf20_nips.yaml; that it is what the rows were made with is checked against their F.
_NIPS_KMEANS = Protocol(n_init=10, max_iter=30, start="sample")
_DRAWS = 300
_PARTS: tuple[tuple[LineStyle, str], ...] = (("-", "total"), ("--", "preprocessing"))
_ONE_RUN = "The report does not say how many runs a point stands for; ours are means."


# --- facts


@fact("lf20_words", ["nips"], studies=[NIPS_RUNS])
def words(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Words drawn by the best of the first 100 runs by F at r = 30, in alphabetical order, with repetitions."""
    nips = datasets[0]
    columns, _ = drawn_again(nips, kept_run(runs(results, NIPS_RUNS, "nips", "leverage", WORDS_R).head(BEST_OF)))
    p = leverage_scores(top_right_singular_vectors(nips.A, nips.k))
    rank = (-p).argsort(kind="stable").argsort(kind="stable") + 1
    names = nips.feature_names or tuple(str(i) for i in range(len(p)))
    table = pd.DataFrame({"word": [names[i] for i in columns], "score": p[columns], "rank": rank[columns]})
    return table.sort_values("word", kind="stable").reset_index(drop=True)


@fact("lf20_scores", ["orl", "nips"])
def selected_scores(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Smallest, largest and variance of the leverage scores of the features that a draw selects, over 300 draws.

    r = 130 on ORL and 30 on NIPS; with singular vectors of A, and of the column-centred A as the report's code takes.
    """
    del results
    lines = []
    for data, r in zip(datasets, (ENOUGH, WORDS_R), strict=True):
        for centred in (0, 1):
            A = column_centred(data.A, "leverage")[0] if centred else data.A
            p = leverage_scores(top_right_singular_vectors(A, data.k))
            for draw in range(_DRAWS):
                columns, _ = sample_columns(p, r, generator(0, data.name, "leverage", r, draw, "reduce"))
                chosen = p[columns]
                lines.append((data.name, r, centred, draw, chosen.min(), chosen.max(), chosen.var(ddof=1)))
    names = ["dataset", "r", "centred", "draw", "smallest_score", "largest_score", "variance_of_scores"]
    return pd.DataFrame(lines, columns=names)


@fact("lf20_tsne", ["nips"], studies=[NIPS_RUNS])
def tsne(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """t-SNE of C of a typical bad run: at r = 30, of median F among those of the first 100 with P < 0.5.

    Columns ``repeat objective accuracy x y cluster``, a line a paper.
    """
    nips = datasets[0]
    rows = runs(results, NIPS_RUNS, "nips", "leverage", WORDS_R).head(BEST_OF)
    bad = rows[rows["accuracy"] < GOOD].sort_values(["objective", "repeat"])
    if bad.empty:
        raise NotRunError(f"none of {len(rows)} runs at r = {WORDS_R} has P < {GOOD}")
    run = bad.iloc[(len(bad) - 1) // 2]
    _, C = drawn_again(nips, run)
    rng = generator(int(run["seed"]), "nips", int(run["repeat"]), "starts")
    starts = starter(_NIPS_KMEANS, nips.A.shape[0], nips.k, nips.labels, rng)
    found = cluster(C, starts(C), _NIPS_KMEANS).labels
    if not np.isclose(objective(nips.A, found), run["objective"], rtol=1e-9):
        raise NotRunError("the rows of lf20_nips_runs were made with another k-means")
    with pinned(1):  # so that the points do not depend on the number of cores
        points = TSNE(init="pca", random_state=0).fit_transform(np.asarray(C, dtype=np.float64))
    same = {"repeat": run["repeat"], "objective": run["objective"], "accuracy": run["accuracy"]}
    return pd.DataFrame({**same, "x": points[:, 0].astype(float), "y": points[:, 1].astype(float), "cluster": found})


@fact("lf20_sign_times", ["orl"])
def sign_times(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Seconds of drawing R and of multiplying by it, for random signs on ORL: the share that the report leaves out."""
    del results
    orl = datasets[0]
    reducer = reducers.make("random_sign", {})
    lines = []
    reducer.reduce(orl.A, 10, generator(0, "warm-up"), None)
    for r in (10, 50, 100, 200, 300):
        for repeat in range(5):
            with Stopwatch() as draw:
                R = reducer.draw(orl.A, r, generator(0, "orl", "random_sign", r, repeat, "reduce"), None)
            with Stopwatch() as apply:
                reducer.apply(orl.A, R)
            lines.append((r, repeat, draw.seconds, apply.seconds))
    return pd.DataFrame(lines, columns=["r", "repeat", "draw_seconds", "apply_seconds"])


# --- figures


def _one_panel(results: Results, id_: str, quantity: str) -> Figure:
    """Draw one quantity of random signs on ORL against t, with the value that the text reports."""
    rows = results.rows(ORL, datasets=["orl"], reducers=["random_sign"])
    with print_style():
        fig, (ax,) = canvas(1)
        drawn = plot_panel(ax, rows, quantity)
        ax.set_xlabel("number of dimensions t")
        told = [_draw_reported(ax, id_, drawn)]
        record(ax, pd.concat([drawn, *told]))
        count = int(drawn["count"].max())
        note = f"Mean of {count} repetitions; band: 95 % Student-t interval of the mean. {_ONE_RUN}"
        return finish(fig, [note], legend_columns=2)


def _draw_reported(ax: Axes, id_: str, drawn: pd.DataFrame) -> pd.DataFrame:
    """Mark the reported numbers of a figure as open grey squares, and return them as `plot_panel` returns ours."""
    found = [one for one in numbers(id_) if one.quantity == drawn["quantity"].iloc[0]]
    if found:
        x, y = [one.r for one in found], [one.value for one in found]
        ax.plot(x, y, "s", color="#777777", markerfacecolor="white", markersize=4, zorder=4, label="reported")
        low, high = ax.get_ylim()
        pad = 0.05 * (high - low)
        ax.set_ylim(min(low, min(y) - pad), max(high, max(y) + pad))
    return _as_drawn(found, "reported")


def _as_drawn(found: Sequence[Any], label: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "quantity": one.quantity, "dataset": one.dataset, "reducer": one.method, "r": int(one.r),
                "mean": one.value, "label": label, "drawn_as": "reported",
            }
            for one in found
        ]
    )  # fmt: skip


@figure("lf20_fig1", "Normalised objective of random signs on ORL against t", studies=[ORL])
def figure1(results: Results) -> Figure:
    """F against t = 5, 10, …, 300, one panel; the text's F at t = 130 marked."""
    return _one_panel(results, "lf20_fig1", "objective")


@figure("lf20_fig2", "Accuracy of random signs on ORL against t", studies=[ORL])
def figure2(results: Results) -> Figure:
    """P against t = 5, 10, …, 300 under the best matching, one panel; the text's P at t = 130 marked."""
    return _one_panel(results, "lf20_fig2", "accuracy")


@figure("lf20_fig3", "Total running time of random signs on ORL against t", studies=[ORL])
def figure3(results: Results) -> Figure:
    """Time of reduction and k-means against t = 5, 10, …, 300, one panel."""
    return _one_panel(results, "lf20_fig3", "total_seconds")


@figure(
    "lf20_fig4", "Total and preprocessing time of four projection matrices on ORL 64×64", studies=[ORL_64]
)  # fmt: skip
def figure4(results: Results) -> Figure:
    """Total time solid and the part before k-means dashed, in one panel, for each matrix (the report: for one)."""
    rows = results.rows(ORL_64, reducers=MATRICES)
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
        record(ax, both)
        ax.set_title(f"{dataset_label('orl_64x64')} – Total and preprocessing time", loc="left")
        ax.set_ylabel("time (s)")
        ax.set_yscale("linear")
        ax.set_ylim(0, 1.05 * float(both["mean"].max()))
        ax.set_xlabel("number of dimensions t")
        part = (drawn[1]["mean"] / drawn[0]["mean"]).mean()
        note = (
            f"Preprocessing is all but k-means: {part:.0%} of the total here, on average; the report calls "
            f"k-means the main part. Means of {int(both['count'].max())} repetitions, timed alone."
        )
        return finish(fig, [note], legend_columns=2)


@figure("lf20_fig5", "Accuracy of four projection matrices on ORL 64×64", studies=[ORL_64])
def figure5(results: Results) -> Figure:
    """P against t for random signs, normal, sparse ternary (Achlioptas) and fast Johnson–Lindenstrauss matrices."""
    return paper_grid(results.rows(ORL_64, reducers=MATRICES), ["orl_64x64"], ["accuracy"], note=_ONE_RUN)


def _often(chosen: Sequence[str]) -> str:
    return ", ".join(f"{word} ({times})" for word, times in Counter(chosen).most_common(4) if times > 1) or "none"


@figure(
    "lf20_fig6", "The 30 words that leverage sampling selects on NIPS", studies=[NIPS_RUNS], facts=["lf20_words"]
)  # fmt: skip
def figure6(results: Results) -> Figure:
    """As MATLAB printed them: the reported words beside those of our best of 100 runs by F, each as often as drawn.

    Words that both have are bold.
    """
    ours = results.fact("lf20_words")
    lists = {"reported": list(WORDS), "ours": [str(word) for word in ours["word"]]}
    common = set(lists["reported"]) & set(lists["ours"])
    with print_style():
        fig, axes = canvas(2, height=1.6)
        for ax, (name, chosen) in zip(axes, lists.items(), strict=True):
            ax.set_axis_off()
            ax.set_title(name, loc="left")
            for i, word in enumerate(chosen):
                row, column = divmod(i, 4)
                weight = "bold" if word in common else "normal"
                ax.text(column / 4, 1 - (row + 0.5) / 8, word, weight=weight, transform=ax.transAxes, va="center")
            record(
                ax,
                pd.DataFrame(
                    {
                        "list": name, "position": np.arange(1, len(chosen) + 1), "word": chosen,
                        "in_both": [int(word in common) for word in chosen],
                    }
                ),
            )  # fmt: skip
        notes = [
            f"Different words: {len(set(WORDS))} reported, {len(set(lists['ours']))} ours, {len(common)} both (bold).",
            f"Ours: the best of {BEST_OF} runs by F. Drawn more than once, most often: reported {_often(WORDS)}; ours "
            f"{_often(lists['ours'])}.",
        ]
        return finish(fig, notes)


@table(
    "lf20_fig7", "P and F of leverage-score sampling on NIPS at r = 5k, 10k, 20k and of all features",
    studies=[NIPS_RUNS, NIPS],
)  # fmt: skip
def figure7(results: Results) -> Table:
    """Give P and F at r = 5k, 10k, 20k and without reduction: a table, which the report prints as its Figure 7.

    Ours is the mean of the law of the best of 100 runs by F, estimated from all runs.
    """
    note = (
        f"Ours: mean of the law of the best of {BEST_OF} runs by F; low to high: its central 95 %; ≤ reported: the "
        "probability of the reported value or less; typical run: mean of single runs."
    )
    studies = {"leverage": NIPS_RUNS, "none": NIPS}
    return selection_table(results, "lf20_fig7", studies, dict.fromkeys(studies, BEST_OF), note)


def _with_matching(results: Results) -> pd.DataFrame:
    """Return the rows of Figure 8 under both matchings, told apart by ``params``."""
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
    """Count the r at which mean P on ORL is within 0.05 of the curve that the report publishes.

    Returns
    -------
    dict
        (reducer, ``"best"`` or ``"report's"``) to the number of such r and that of all r.
    """
    curve = {(one.method, int(one.r)): one.value for one in numbers("lf20_fig8", quantity="accuracy")}
    counts = {}
    for (reducer, params), rows in _with_matching(results).groupby(["reducer", "params"]):
        told = rows["r"].map({r: value for (name, r), value in curve.items() if name == reducer})
        gaps = (rows["accuracy"] - told).groupby(rows["r"]).mean().dropna().abs()
        counts[str(reducer), json.loads(str(params))["matching"]] = int((gaps <= NEAR).sum()), len(gaps)
    return counts


def _near_in_words(results: Results) -> str:
    counts = near_reported(results)
    words = {"report's": "the matching of the report's code", "best": "the right matching"}
    return "; ".join(
        f"{label} at {counts[name, matching][0]} of {counts[name, matching][1]} r under {words[matching]}"
        for name, label in (("leverage", "leverage"), ("random_sign", "random signs"))
        for matching in ("report's", "best")
        if (name, matching) in counts
    )


@figure(
    "lf20_fig8", "Accuracy and time of leverage-score sampling and random signs on ORL",
    studies=[*AS_SCORED.values(), ORL],
)  # fmt: skip
def figure8(results: Results) -> Figure:
    """P (left) and total time (right) against r for leverage sampling and random signs, with the reported curves.

    P is drawn under the matching that the report's code used for each method (solid: cluster j taken for person j, for
    random signs with each tenth image compared with the next person) and under the best matching (dashed).
    """
    rows = _with_matching(results)
    scored, right = '{"matching":"report\'s"}', '{"matching":"best"}'
    styles: dict[Method, Style] = {}
    for name in AS_SCORED:
        look = KNOWN[name]._replace(marker="")
        styles[name, scored] = look._replace(linestyle="-", label=f"{look.label}, report's matching")
        styles[name, right] = look._replace(linestyle="--", label=f"{look.label}, best matching")
    timed = rows[rows["params"] == right]
    with print_style():
        fig, axes = canvas(2, height=2.3)
        for letter, ax, mine, quantity in zip("ab", axes, (rows, timed), ("accuracy", "total_seconds"), strict=True):
            drawn = plot_panel(ax, mine, quantity, name=dataset_label("orl"), letter=letter, styles=styles)
            told = numbers("lf20_fig8", quantity=quantity)
            for name in AS_SCORED:
                curve = [(one.r, one.value) for one in told if one.method == name]
                ax.plot(
                    *zip(*curve, strict=True), linestyle="none", marker=KNOWN[name].marker, markerfacecolor="none",
                    markeredgecolor=KNOWN[name].color, markersize=3, alpha=0.7, label=f"{KNOWN[name].label}, reported",
                )  # fmt: skip
            ax.autoscale(axis="y")
            ax.set_xlabel("number of dimensions r")
            record(ax, pd.concat([drawn, _as_drawn(told, "reported")]))
        notes = [
            f"Within {NEAR} of the reported curve: {_near_in_words(results)}.",
            f"Ours are means of {rows['repeat'].nunique()} repetitions; bands: 95 % intervals.",
            "Times: of the runs scored by the best matching, taken alone; scoring is not inside. The reported ones are "
            "another machine's, with a full decomposition.",
        ]
        return finish(fig, notes, legend_columns=3)


@figure("lf20_fig9", "Accuracy and time with approximate singular vectors on ORL", studies=[ORL])
def figure9(results: Results) -> Figure:
    """Draw (a) P and (b) total time against r: leverage sampling by exact and approximate vectors, random signs."""
    rows = results.rows(ORL, datasets=["orl"], reducers=["leverage", "leverage_approx", "random_sign"])
    styles = method_styles((name, params) for name, params in rows[["reducer", "params"]].drop_duplicates().to_numpy())
    with print_style():
        fig, axes = canvas(2)
        for letter, ax, quantity in zip("ab", axes, ("accuracy", "total_seconds"), strict=True):
            plot_panel(ax, rows, quantity, letter=letter, styles=styles)
            ax.set_xlabel("number of dimensions r")
        note = f"Means of {rows['repeat'].nunique()} repetitions (times: those taken alone); bands: 95 % intervals."
        return finish(fig, [f"{note} {_ONE_RUN}"], legend_columns=3)


@figure(
    "lf20_fig10", "Accuracy over repeated runs of leverage sampling on NIPS, and a typical bad run",
    studies=[NIPS_RUNS],
    facts=["lf20_tsne"],
)  # fmt: skip
def figure10(results: Results) -> Figure:
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
        record(left, pd.DataFrame({"low": edges[:-1], "high": edges[1:], "first_runs": first, "all_runs": every}))
        notes = [f"Of all runs {np.mean(P >= GOOD):.0%} reach P ≥ {GOOD}."]
        try:
            points = results.fact("lf20_tsne")
        except NotRunError as reason:
            right.text(0.5, 0.5, str(reason), ha="center", va="center", wrap=True, transform=right.transAxes)
            right.set_axis_off()
        else:
            looks = [KNOWN[name] for name in ("leverage", "random_sign", "svd")]
            for (name, mine), look in zip(points.groupby("cluster"), looks, strict=False):
                label = f"cluster {name} ({len(mine)})"
                right.plot(mine["x"], mine["y"], look.marker, color=look.color, markersize=2.5, label=label)
            right.set_title("(b) t-SNE of the reduced points of a typical bad run", loc="left")
            right.set_xticks([])
            right.set_yticks([])
            right.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
            record(right, points)
            one = points.iloc[0]
            notes.append(
                f"(b): repetition {one['repeat']:.0f}, of median F ({one['objective']:.3f}) among those of the first "
                f"{BEST_OF} with P < {GOOD}; its P is {one['accuracy']:.3f}, its largest cluster has "
                f"{points['cluster'].value_counts().max()} of {len(points)} papers."
            )
        return finish(fig, notes)


# --- tables


@table("lf20_table1", "Leverage scores of the selected features on ORL and NIPS", facts=["lf20_scores"])
def table1(results: Results) -> Table:
    """As in the paper: smallest and largest score and variance over the features that sampling selects.

    Ours: mean and central 95 % over 300 draws, of singular vectors of A, and of the centred A as the report's code.
    """
    drawn = results.fact("lf20_scores")
    lines = []
    for one in numbers("lf20_table1"):
        for centred, vectors in ((0, "of A"), (1, "of the centred A")):
            mine = drawn[(drawn["dataset"] == one.dataset) & (drawn["centred"] == centred)]
            if mine.empty:
                continue
            values = mine[one.quantity]
            lines.append(
                {
                    "dataset": dataset_label(one.dataset), "quantity": one.quantity.replace("_", " "),
                    "singular vectors": vectors, "r": int(mine["r"].iloc[0]), "reported": one.value,
                    "ours": values.mean(), "low": values.quantile(0.025), "high": values.quantile(0.975),
                    "difference": values.mean() - one.value,
                }
            )  # fmt: skip
    if not lines:
        raise NotRunError("lf20_scores has no draws")
    note = (
        "The report does not state r: ours is 130 on ORL, 30 on NIPS. Ours: mean over 300 draws; low to high: their "
        "central 95 %. Its code takes singular vectors of the column-centred A."
    )
    formats = dict.fromkeys(("reported", "ours", "low", "high"), ".3g") | {"difference": "+.2g", "r": "d"}
    return Table(pd.DataFrame(lines), formats, note)


def _table2_runs(results: Results, dataset: str, method: str) -> pd.DataFrame:
    """Return P and F of the runs behind a cell of Table 2, a line a repetition.

    Of a method that depends on r: on ORL the mean over r ≥ 130, from where on the report sees little change; on NIPS
    the runs at r = 60, the best of its Figure 7. A thinned run has the nearest r.
    """
    rows = results.rows(ORL if dataset == "orl" else NIPS, datasets=[dataset], reducers=[method])
    if method in ("leverage_approx", "random_sign"):
        sizes = set(rows["r"])
        if dataset == "orl":
            rows = rows[rows["r"] >= min(ENOUGH, max(sizes))]
        else:
            rows = rows[rows["r"] == min(sizes, key=lambda r: (abs(r - TABLE2_NIPS_R), r))]
    return rows.groupby("repeat")[["accuracy", "objective"]].mean()


@table("lf20_table2", "Accuracy of A, AV_k, ASD and AR on ORL and NIPS", studies=[ORL, NIPS])
def table2(results: Results) -> Table:
    """As in the paper: P of all features, of projection on singular vectors, of sampling and of random signs.

    Singular vectors are approximate, as the report says of this table.
    """
    lines: list[dict[str, Any]] = []
    gaps: dict[str, str] = {}
    for one in numbers("lf20_table2"):
        label = dataset_label(one.dataset)
        line: dict[str, Any] = {"method": TABLE2[one.method], "dataset": label, "reported": one.value}
        try:
            rows = _table2_runs(results, one.dataset, one.method)
        except NotRunError as reason:
            gaps[one.dataset] = str(reason)
            lines.append(line)
            continue
        P = rows["accuracy"].to_numpy(dtype=float)
        if one.dataset == "orl":
            ours, low, high, _ = mean_interval(P)
        else:
            kept = law(rows, BEST_OF)
            ours, low, high = kept.mean(P), kept.quantile(P, 0.025), kept.quantile(P, 0.975)
        more = {"ours": ours, "low": low, "high": high, "difference": ours - one.value, "typical run": P.mean()}
        lines.append(line | more | {"runs": len(rows)})
    frame = pd.DataFrame(lines)
    if "ours" not in frame:
        raise NotRunError("; ".join(gaps.values()))
    note = (
        f"The report does not state r. ORL: mean over r ≥ {ENOUGH} of all repetitions, and its 95 % interval. NIPS: at "
        f"r = {TABLE2_NIPS_R}, the best of {BEST_OF} runs by F, as in Figure 7: mean and central 95 % "
        "of its law; typical run: mean of single runs."
    )
    formats = {"reported": ".2f", "difference": "+.3f", "runs": ".0f"}
    return Table(frame, formats | dict.fromkeys(("ours", "low", "high", "typical run"), ".3f"), note)


# --- claims


def _over_r(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means over r, a line a repetition."""
    return table.groupby("repeat").mean()


def _needs(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return the columns of some reducers, lines without gaps.

    Raises
    ------
    NotRunError
        When a reducer or every line is missing.
    """
    absent = [name for name in names if name not in table]
    found = table[list(names)].dropna() if not absent else table.iloc[:0]
    if found.empty:
        raise NotRunError(f"no trials that have {', '.join(absent or names)}")
    return found


def _span(sizes: Sequence[int]) -> str:
    return f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else str(sizes[0])


@claim("lf20-1", "At t = 130 F and P are almost at their best; beyond it they hardly change.", "§2.4", studies=[ORL])
def claim1(results: Results) -> Finding:
    """F changes by at most 2 % and P by at most 0.02 beyond t = 130, for random signs on ORL.

    Unit: a repetition. The mean over t = 115 to 130 is compared with that over all t above 130 and with that over the
    four largest t (285 to 300) of the same repetition: four changes, of F relatively and of P absolutely, each by two
    one-sided t tests within the margin, all of which must hold.
    """
    components, words = [], []
    for quantity, symbol in SYMBOLS.items():
        by_r = _needs(results.wide(ORL, quantity, datasets=["orl"], reducers=["random_sign"]), "random_sign")
        grid = by_r["random_sign"].unstack("r").dropna()
        sizes = [int(r) for r in grid.columns]
        at = min(sizes, key=lambda r: (abs(r - ENOUGH), r), default=0)
        before = [r for r in sizes if at - 15 <= r <= at]
        beyond = [r for r in sizes if r > at]
        if not beyond or grid.empty:
            raise NotRunError(f"{ORL} has no t beyond {ENOUGH}")
        for after in (beyond, beyond[-4:]):
            new, old = grid[after].mean(axis=1), grid[before].mean(axis=1)
            relative, margin = quantity == "objective", HARDLY[quantity]
            name = f"t = {_span(after)} against {_span(before)}"
            label = f"{symbol}, {'relative ' * relative}change, {name}, within ±{margin}"
            components.append(equal(label, new / old - 1 if relative else new - old, margin, symbol))
            words.append(f"{symbol} changes by {shown(components[-1], '+.1%' if relative else '+.3f')} ({name})")
    return Finding(components, f"With random signs on ORL {'; '.join(words)}.")


@claim(
    "lf20-2", "The choice among the four projection matrices has little influence on P.", "§2.5.1, Figure 5",
    studies=[ORL_64],
)  # fmt: skip
def claim2(results: Results) -> Finding:
    """P of any two of the four matrices, averaged over t, differs by at most 0.02 on ORL 64×64.

    Unit: a repetition, in which all matrices start from the same centres; the difference of the means over the t of
    the grid. Two one-sided t tests a pair of matrices; all six pairs must be equal.
    """
    table = results.wide(ORL_64, "accuracy", reducers=MATRICES)
    there = [name for name in MATRICES if name in table]
    if len(there) < 2:
        raise NotRunError(f"{ORL_64} has fewer than two of the matrices")
    means = _over_r(_needs(table, *there))
    components = [
        equal(f"P, {KNOWN[a].label} − {KNOWN[b].label}, within ±{P_MARGIN}", means[a] - means[b], P_MARGIN, "P")
        for a, b in combinations(there, 2)
    ]
    widest = max(components, key=lambda c: abs(c.effect))
    levels = ", ".join(f"{KNOWN[name].label} {means[name].mean():.3f}" for name in there)
    return Finding(
        components,
        f"Averaged over t, P is {levels}; the pair farthest apart is {widest.label.split(',')[1].strip()}, by "
        f"{shown(widest, '+.3f')}.",
    )


@claim(
    "lf20-3", "Approximate singular vectors keep P and bring the time down to that of random projection.",
    "§3.4.1, Figure 9", studies=[ORL],
)  # fmt: skip
def claim3(results: Results) -> Finding:
    """On ORL, leverage sampling by approximate vectors has the P of exact ones and the time of random signs.

    Unit: a repetition, averaged over r. P: the difference lies within ±0.02 (two one-sided t tests). Time: the
    geometric mean over r of the ratio of total times taken alone is at most 1.25 to random signs, and below 1 to exact
    vectors (t tests of the logarithms). All three must hold.
    """
    P = _over_r(_needs(results.wide(ORL, "accuracy", datasets=["orl"]), "leverage", "leverage_approx"))
    seconds = _needs(results.wide(ORL, "total_seconds", datasets=["orl"]), "leverage", "leverage_approx", "random_sign")
    logs = _over_r(seconds.apply(np.log))
    same = equal(f"P, approximate − exact, within ±{P_MARGIN}", P["leverage_approx"] - P["leverage"], P_MARGIN, "P")
    to_signs = ratio_below(
        f"time, approximate ÷ random signs, below {FAST}", np.exp(logs["leverage_approx"] - logs["random_sign"]), FAST
    )
    to_exact = ratio_below("time, approximate ÷ exact, below 1", np.exp(logs["leverage_approx"] - logs["leverage"]))
    return Finding(
        [same, to_signs, to_exact],
        f"P changes by {shown(same, '+.3f')}; the time is that of random signs times {shown(to_signs, '.2f')} and that "
        f"with exact vectors times {shown(to_exact, '.2f')}.",
    )


@claim(
    "lf20-4", "Leverage-score sampling is somewhat more accurate than random projection on ORL.", "§3.3.1, Figure 8",
    studies=[ORL, *AS_SCORED.values()],
)  # fmt: skip
def claim4(results: Results) -> Finding:
    """P of leverage sampling exceeds that of random signs on ORL, averaged over r, under the best matching.

    Unit: a repetition, in which both start from the same centres; one-sided t test of the difference of the means over
    r against 0. The report's code matched clusters to persons otherwise for each method; what that does is told, and
    shown by the studies that score as it did.
    """
    P = _over_r(_needs(results.wide(ORL, "accuracy", datasets=["orl"]), "leverage", "random_sign"))
    ahead = above("P, leverage − random signs, above 0", P["leverage"] - P["random_sign"], 0.0, "P")
    sentence = (
        f"Averaged over r, leverage has P {P['leverage'].mean():.3f} and random signs {P['random_sign'].mean():.3f}, a "
        f"difference of {shown(ahead, '+.3f')}"
    )
    try:
        scored = {name: results.rows(study, reducers=[name])["accuracy"].mean() for name, study in AS_SCORED.items()}
        gap = scored["leverage"] - scored["random_sign"]
        sentence += (
            f"; scored as the report's code did it is {gap:+.3f}; within {NEAR} of the reported curves: "
            f"{_near_in_words(results)}"
        )
    except NotRunError:
        pass  # not scored so, or this is one of the flips that do
    return Finding([ahead], f"{sentence}.")


def _share_equal(label: str, good: "pd.Series[bool]", target: float) -> Component:
    """Test that a probability lies within 0.10 of a target: two one-sided binomial tests."""
    successes, n = int(good.sum()), len(good)
    over = share(label, successes, n, target - SHARE_MARGIN)
    under = share(label, successes, n, target + SHARE_MARGIN, at_most=True)
    return over._replace(
        p_for=max(over.p_for, under.p_for), p_against=min(1.0, 2 * min(over.p_against, under.p_against))
    )


@claim(
    "lf20-5", "With unsquared norms the runs of 100 that reach P ≥ 0.5 go up from about 30 to about 50.", "§3.4.2",
    studies=[NIPS_RUNS],
)  # fmt: skip
def claim5(results: Results) -> Finding:
    """On NIPS at r = 30 the share of runs with P ≥ 0.5 is 0.30 ± 0.10 squared, 0.50 ± 0.10 unsquared, and grows.

    Unit: a run. Two one-sided binomial tests a share (the margin is the 95 % range of a share of 100 runs, which is
    what the report has), and a one-sided t test that the difference, paired by repetition, is above 0. The report
    does not state r; 30 is that of its Figure 6, and the shares at the other r are told.
    """
    table = results.wide(NIPS_RUNS, "accuracy", datasets=["nips"])
    pairs = _needs(table, "leverage", "leverage_sqrt") >= GOOD
    sizes = sorted({int(r) for r in pairs.index.get_level_values("r")})
    r = min(sizes, key=lambda size: abs(size - WORDS_R))
    at = pairs.xs(r, level="r")
    told = {one.method: one.value for one in numbers("lf20-5")}
    components = [
        _share_equal(f"share of P ≥ {GOOD}, {name}, {told[key]:.2f} ± {SHARE_MARGIN:.2f}", at[key], told[key])
        for key, name in (("leverage", "squared"), ("leverage_sqrt", "unsquared"))
    ]
    gain = at["leverage_sqrt"].astype(float) - at["leverage"].astype(float)
    components.append(above("gain of the share, unsquared − squared, above 0", gain, 0.0, "share"))
    shares = pairs.groupby("r").mean().to_dict("index")
    others = "; ".join(
        f"{part['leverage']:.0%} and {part['leverage_sqrt']:.0%} at r = {n}" for n, part in shares.items()
    )
    return Finding(
        components,
        f"The share of runs with P ≥ {GOOD}, squared and unsquared, is {others} ({len(at)} runs each), against about "
        f"{told['leverage']:.0%} and {told['leverage_sqrt']:.0%} reported; at r = {r} the gain is "
        f"{shown(components[2], '+.2f')}.",
    )


@claim("lf20-6", "P is in the order A ≈ AV_k > ASD > AR.", "§3.4.3, Table 2", studies=[ORL, NIPS])
def claim6(results: Results) -> Finding:
    """On ORL and on NIPS, P of AV_k is within ±0.03 of that of A, above that of ASD, and that above AR's.

    ORL: the unit is a repetition, averaged over r ≥ 130. NIPS at r = 60: the unit is a block of 100 successive
    repetitions, of which each method keeps its run of smallest F, as the report did. Equality by two one-sided t
    tests, order by one-sided t tests against 0; three components a dataset, all of which must hold. The report does
    not state r.
    """
    components, words = [], []
    for dataset, size in (("orl", 1), ("nips", BEST_OF)):
        try:
            found = {name: _table2_runs(results, dataset, name) for name in TABLE2}
        except NotRunError:
            continue
        common = sorted(set.intersection(*(set(rows.index) for rows in found.values())))
        if not common:
            continue
        P = {}
        for name, rows in found.items():
            mine = rows.loc[common]
            P[name] = mine["accuracy"].to_numpy(dtype=float)[best_in_blocks(mine["objective"], size)]
        label = dataset_label(dataset)
        components += [
            equal(f"{label}: P, AV_k − A, within ±{SAME_IN_TABLE2}", P["approx_svd"] - P["none"], SAME_IN_TABLE2, "P"),
            above(f"{label}: P, AV_k − ASD, above 0", P["approx_svd"] - P["leverage_approx"], 0.0, "P"),
            above(f"{label}: P, ASD − AR, above 0", P["leverage_approx"] - P["random_sign"], 0.0, "P"),
        ]
        levels = ", ".join(f"{TABLE2[name]} {values.mean():.3f}" for name, values in P.items())
        units = counted(len(P["none"]), "repetition" if size == 1 else "block")
        words.append(f"on {label} P is {levels} ({units})")
    if not components:
        raise NotRunError(f"neither {ORL} nor {NIPS} has all four methods of Table 2")
    text = "; ".join(words)
    return Finding(components, f"{text[0].upper()}{text[1:]}.")


@claim(
    "lf20-7", "The leverage scores of the selected features are far more spread on NIPS than on ORL.",
    "§3.4.2, Table 1",
    facts=["lf20_scores"],
)  # fmt: skip
def claim7(results: Results) -> Finding:
    """Test whether the variance of the selected features' scores on NIPS is at least 1000 times that on ORL.

    Unit: a draw of 130 features of ORL and of 30 of NIPS, 300 of each; t test that the mean logarithm of the ratio of
    variances is above log 1000. The report's own ratio is 1.4 million; singular vectors are of A.
    """
    drawn = results.fact("lf20_scores")
    table = drawn.pivot_table(index=["centred", "draw"], columns="dataset", values="variance_of_scores")
    both = _needs(table, "nips", "orl").reset_index()
    ratios = both["nips"] / both["orl"]
    of_A, of_centred = ratios[both["centred"] == 0], ratios[both["centred"] == 1]
    if of_A.empty:
        raise NotRunError("lf20_scores has no draws by singular vectors of A")
    label = f"variance of the selected scores, NIPS ÷ ORL, above {SPREAD:.0f}"
    component = ratio_above(label, of_A, SPREAD, "ratio of variances")
    told = {one.dataset: one.value for one in numbers("lf20_table1", quantity="variance_of_scores")}
    centred = f"; with centred vectors {np.exp(np.log(of_centred).mean()):.2g}" if len(of_centred) else ""
    means = both[both["centred"] == 0][["nips", "orl"]].mean()
    return Finding(
        [component],
        f"The variance is {means['nips']:.2g} on NIPS and {means['orl']:.2g} on ORL (means of {component.n} draws), "
        f"the ratio {shown(component, '.2g')} (geometric mean){centred}; "
        f"reported: {told['nips'] / told['orl']:.2g}.",
    )
