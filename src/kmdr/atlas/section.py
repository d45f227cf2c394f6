"""The atlas in the report: the page "Which method?", its tables and figures, and the data of its script."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kmdr.analysis.rows import median_interval
from kmdr.atlas.advice import MOST_REGRET, SPEEDUP, Goal, Validation, evidence, percent, validate
from kmdr.atlas.design import design
from kmdr.atlas.effects import REFERENCE
from kmdr.atlas.evidence import rules
from kmdr.atlas.explanation import explain, sentence_of, summary_of
from kmdr.atlas.figures import critical_differences, profile_curves, trade_off
from kmdr.atlas.ranking import (
    ALONE,
    ASCENDING,
    Condition,
    Ranking,
    chosen_lines,
    conditions,
    pareto_over_datasets,
    performance_profiles,
    rank,
    sources_of,
    usable,
)
from kmdr.base.errors import UserError
from kmdr.base.text import counted, format_number, typeset
from kmdr.figures.canvas import FORMATS, figure_files
from kmdr.figures.panels import dataset_label
from kmdr.figures.tables import Piece, Table, table_files

ALL = "all data"
OURS = "kmdr"
# The form of the data with all methods and times.
_FORM = "raw"
_MULTIPLES = (1.0, 5.0, 20.0)
_BUDGETS = (0.5, 0.1)
_SPEEDUPS = (1.5, SPEEDUP, 5.0, 10.0)
_QUANTITIES = ("loss", "accuracy", "time")
# Titles of the quantities, and how their values are shown.
QUANTITIES: Mapping[str, str] = {
    "loss": "F over that of all features, minus 1",
    "accuracy": "P minus that of all features",
    "time": "time over that of all features",
}
_SHORT = {"loss": "F", "accuracy": "P", "time": "time"}
_MOST_LEADERS = 6
_LARGE = 10.0  # a loss from which on F is shown as a ratio
_NEAR, _SHOWN_FACTOR = 1.05, 1.1  # factors of the best F: in words, and the largest in the figure


@dataclass(frozen=True)
class AtlasSection:
    """The atlas in the report.

    Attributes
    ----------
    summary : tuple of str
        Its findings, one sentence or two each.
    pieces : mapping of str to list of Piece
        Its tables and figures by heading.
    data : mapping
        What the script of the page reads.
    command : str
        That runs its methods again.
    """

    summary: tuple[str, ...]
    pieces: Mapping[str, list[Piece]]
    data: Mapping[str, Any]
    command: str = "kmdr atlas"

    @property
    def files(self) -> dict[Path, bytes]:
        """The files of all tables and figures."""
        return {
            path: content for some in self.pieces.values() for piece in some for path, content in piece.files.items()
        }


def atlas_section(
    effects: pd.DataFrame,
    traits: pd.DataFrame | None = None,
    formats: Sequence[str] = FORMATS,
    provenance: Mapping[str, str] | None = None,
) -> AtlasSection:
    """Return the page of an atlas.

    ``effects`` are from `kmdr.atlas.effects.effects`. Without ``traits``, by ``dataset`` and ``form``, there is no
    advice. ``provenance`` states by method of a third party how its rows were checked.
    """
    by = dict.fromkeys(design().methods, OURS) | dict(provenance or {})
    domains = {str(name): part for name, part in effects.groupby("domain") if name and len(sources_of(part)) > 1}
    scopes = {ALL: effects, **domains}
    third_parties = [*(provenance or {})]
    packed = {name: list(_rankings(part, third_parties)) for name, part in scopes.items()}
    several = {name: [ranking for ranking, _ in some] for name, some in packed.items()}
    # Advice is given, and explained, with kmdr's methods alone.
    ours = effects[~effects["method"].isin(third_parties)]
    validations = _validations(ours, traits)
    explained = pd.DataFrame() if traits is None else explain(ours, traits)
    pieces = {"Rankings": [_ranking_piece(name, part, several[name], by) for name, part in scopes.items()]}
    pieces["Figures"] = list(_figures(effects, ours, several[ALL], formats, third_parties))
    if validations:
        pieces["How good is the advice?"] = [_advice_piece(validations)]
    if len(explained):
        pieces["Do traits of the data explain which method is better?"] = [_explanation_piece(explained)]
    return AtlasSection(
        (*_summary(ours, several, validations), *([sentence_of(explained)] if len(explained) else [])),
        {title: some for title, some in pieces.items() if some},
        {
            "by": {_label(name): text for name, text in by.items()},
            "quantities": {name: {"label": QUANTITIES[name], "least": ASCENDING[name]} for name in _QUANTITIES},
            "scopes": {name: [data for _, data in some] for name, some in packed.items()},
            "datasets": {dataset_label(str(n)): _lines(part) for n, part in effects.groupby("dataset", sort=True)},
            "multiples": sorted(effects["multiple"].dropna().unique().tolist()),
            "budgets": list(_BUDGETS),
        },
    )


# -- rankings --------------------------------------------------------------------------------------------------------


def _rankings(effects: pd.DataFrame, third_parties: Collection[str]) -> Iterator[tuple[Ranking, dict[str, Any]]]:
    """Yield the rankings of each form of some data, by each quantity, at each r and within each time.

    Methods of third parties do not choose the data, see `kmdr.atlas.ranking.largest_block`.

    Each comes with its data for the script.
    """
    for form in [name for name in design().forms if name in set(effects["form"])]:
        part = effects[effects["form"] == form]
        sources, lines = sources_of(part), {c: chosen_lines(part, c) for c in conditions(part, _BUDGETS)}
        for quantity in _QUANTITIES:
            for condition, chosen in lines.items():
                if quantity == "time" and not math.isnan(condition.budget):
                    continue
                ranking = rank(chosen, quantity, condition, form, sources, third_parties)
                if ranking is not None:
                    yield ranking, _packed(ranking, _medians(chosen, quantity))


def _find(several: Sequence[Ranking], quantity: str, condition: Condition) -> Ranking | None:
    matching = (r for r in several if (r.quantity, str(r.condition), r.form) == (quantity, str(condition), _FORM))
    return next(matching, None)


def medians(effects: pd.DataFrame, quantity: str, condition: Condition, form: str = _FORM) -> pd.DataFrame:
    """Return the median of a quantity over sources of data: ``median low high count`` by method.

    Losses and times of single datasets may be a hundred times as large as others, so means would show these alone. The
    interval is the exact one at 95 %; fewer than six sources have none. Within a time, only data on which a method is
    fast enough count.
    """
    return _medians(chosen_lines(effects[effects["form"] == form], condition), quantity)


def _medians(lines: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return the medians, as of `medians`, of the lines that a condition chooses."""
    lines = lines[np.isfinite(lines[quantity])]
    by_source = lines.groupby(["method", "source", "dataset"])[quantity].mean().groupby(["method", "source"]).mean()
    table = {str(method): median_interval(values.to_numpy()) for method, values in by_source.groupby("method")}
    return pd.DataFrame.from_dict(table, orient="index", columns=["median", "low", "high", "count"])


def _iterate_lines(table: pd.DataFrame) -> Iterator[tuple[str, "pd.Series[float]"]]:
    """Yield each method with its line of `medians`."""
    return ((str(name), line) for name, line in table.iterrows())


def _shown(line: Any, quantity: str) -> str:
    """Return a median with its interval: losses by `_loss`, other quantities as numbers."""
    form = _loss if quantity == "loss" else _number
    value, low, high = (form(value) if np.isfinite(value) else "–" for value in line[["median", "low", "high"]])
    return value if low == high else f"{value} [{low}, {high}]"


def _loss(value: float) -> str:
    """Return a loss in percent, or from `_LARGE` on as the ratio to F of all features.

    Examples
    --------
    >>> _loss(0.012), _loss(132738.7)
    ('1.2 %', '1.3e5 ×')
    """
    if abs(value) < _LARGE:
        return percent(value)
    mantissa, exponent = f"{1 + value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)} ×" if abs(value) >= 1000 else f"{1 + value:.0f} ×"


def _number(value: float) -> str:
    return typeset(format_number(value, ".3f"))


def _ranking_piece(scope: str, effects: pd.DataFrame, several: Sequence[Ranking], by: Mapping[str, str]) -> Piece:
    """Return the table of a domain: each method's F, P and time at some r, the best of which are marked."""
    columns: dict[str, dict[str, str]] = {}
    best: set[tuple[str, str]] = set()
    order: list[str] = []
    for quantity, multiple in (*(("loss", m) for m in _MULTIPLES), ("accuracy", 20.0), ("time", 20.0)):
        condition = Condition(multiple=multiple)
        table = medians(effects, quantity, condition)
        name = f"{_SHORT[quantity]} at {condition}"
        most = table["count"].max()
        few = {str(method) for method in table.index[table["count"] < most] if by.get(str(method)) != OURS}
        columns[name] = {
            method: _shown(line, quantity) + f" ({line['count']:g} of {counted(int(most), 'source')})" * (method in few)
            for method, line in _iterate_lines(table)
        }
        ranking = _find(several, quantity, condition)
        if ranking is not None:
            best |= {(method, name) for method in ranking.best}
        if (quantity, multiple) == ("loss", 20.0):
            order = [method for method, _ in _iterate_lines(table.sort_values("median", kind="stable"))]
            order.sort(key=few.__contains__)
    names = dict.fromkeys([*order, *(method for column in columns.values() for method in column)])
    names.pop(REFERENCE, None)
    lines = [
        {"method": name, "by": by.get(name, "–")}
        | {title: column.get(name, "–") + " †" * ((name, title) in best) for title, column in columns.items()}
        for name in names
    ]
    frame = pd.DataFrame(lines, columns=["method", "by", *columns])
    sources = counted(len(sources_of(effects[effects["form"] == _FORM])), "source")
    note = (
        "† not significantly worse than the best (Friedman, Nemenyi, over sources of data). No † in a column: "
        f"Friedman's test is not significant, or there are too few data. Medians over {sources} of data with 95 % "
        "intervals, in comparison with k-means on all features: F in percent above its F, P minus its P, time divided "
        "by its time."
    )
    if any("×" in cell for column in columns.values() for cell in column.values()):
        note += (
            " ×: F divided by its F, where that is more than ten times as large; on well-separated data F of all "
            "features is nearly 0, so that one wrong cluster multiplies it."
        )
    note += f" {ALONE}" if any(ranking.joined for ranking in several) else ""
    table_ = Table(frame, {}, note, sections=["method"], groups=[["method", "by"], *([name] for name in columns)])
    stem = Path("tables", f"atlas_{scope.replace(' ', '_').replace('/', '_')}")
    return Piece(f"{scope[0].upper()}{scope[1:]}", table_files(table_, stem), table_)


def _figures(
    effects: pd.DataFrame,
    ours: pd.DataFrame,
    several: Sequence[Ranking],
    formats: Sequence[str],
    third_parties: Collection[str],
) -> Iterator[Piece]:
    """Yield the figures: two of kmdr's methods, and the times of all."""
    ranking = _find(several, "loss", Condition(multiple=20.0))
    if ranking is not None and len(ranking.ranks) > 1:
        files = figure_files(critical_differences(ranking), Path("figures/atlas_ranks"), formats)
        alt = f"Average ranks of methods, the best first: {_listed(map(_label, ranking.ranks.index))}."
        yield Piece(f"Average ranks by F at {ranking.condition}", files, alt=alt)
    at_20k = Condition(multiple=20.0)
    profiles = performance_profiles(ours, at_20k, _FORM)
    if len(profiles):
        drawing = profile_curves(profiles, str(at_20k), _SHOWN_FACTOR)
        files = figure_files(drawing, Path("figures/atlas_profiles"), formats)
        shares = profiles[profiles["factor"] <= _NEAR].groupby("method")["share"].max().sort_values(ascending=False)
        near = _listed(f"{_label(name)} {100 * share:.0f} %" for name, share in shares.items())
        alt = f"Share of the sources on which F of a method is at most {_NEAR:g} times the best one: {near}."
        yield Piece(f"Performance profiles by F at {at_20k}", files, alt=alt)
    points = pareto_over_datasets(effects, _FORM, third_parties)
    if len(points):
        files = figure_files(trade_off(points, _FORM), Path("figures/atlas_trade_off"), formats)
        front = points[points["front"]].sort_values("time").to_dict("records")
        names = [p["method"] if math.isnan(p["multiple"]) else f"{p['method']} at {p['multiple']:g} k" for p in front]
        alt = f"Time against loss of F. No other method is better in both than: {_listed(names)}."
        yield Piece("Time against F", files, alt=alt)


def _explanation_piece(explained: pd.DataFrame) -> Piece:
    note = (
        "Predicted: F of a family of methods (median) over that of all features minus the same of random projections, "
        "at r = 20 k; from all traits by ridge regression, from one by least squares. Errors are means over sources, "
        "each held out in turn; “of the mean” is the error of always predicting the mean of the others, for the choice "
        "of a family that of always choosing the one that is best on average. Intervals are from bootstrap samples of "
        f"sources; p is Holm-adjusted over {len(explained)} tests. Of single traits, that of the smallest p is shown."
    )
    table = Table(summary_of(explained), {"sources": "d", "adjusted p": ".2g"}, note)
    return Piece("Losses predicted from traits", table_files(table, Path("tables/atlas_traits")), table)


def _listed(names: Iterable[object]) -> str:
    """Return names, some of which have commas, as a list."""
    return "; ".join(map(str, names))


# -- the advice ------------------------------------------------------------------------------------------------------


def _validations(effects: pd.DataFrame, traits: pd.DataFrame | None) -> dict[float, Validation]:
    if traits is None:
        return {}
    validations = {}
    try:
        known = evidence(effects, traits)
        for speedup in _SPEEDUPS:
            goal = Goal(speedup)
            validations[speedup] = validate(known, goal, rules(known, goal), with_domain=True)
    except UserError:  # too few datasets, or none so fast
        pass
    return validations


def _advice_piece(validations: Mapping[float, Validation]) -> Piece:
    lines = []
    for speedup, validation in validations.items():
        value, low, high = map(percent, validation.regret)
        head = {
            "times as fast": format_number(speedup, "g"), "datasets": validation.datasets,
            "sources": validation.sources, "regret of the advice": f"{value} [{low}, {high}]",
        }  # fmt: skip
        lines += [
            head
            | {
                "rule": rule.rule, "regret of the rule": percent(rule.regret), "difference": rule.difference_text,
                "the advice is": rule.verdict.removesuffix(" than"),
            }
            for rule in validation.comparisons
        ]  # fmt: skip
    note = (
        "Regret: how much more of F the choice of method and r loses than the best one that is as fast as asked, on "
        f"data whose source was held out; at most {percent(MOST_REGRET)}, also for choices that fail or are too slow. "
        "Means over datasets; the intervals are from bootstrap samples of sources."
    )
    table = Table(pd.DataFrame(lines), {"datasets": "d", "sources": "d"}, note)
    return Piece("The advice against simple rules", table_files(table, Path("tables/atlas_advice")), table)


# -- the summary -----------------------------------------------------------------------------------------------------


def _summary(
    effects: pd.DataFrame, several: Mapping[str, Sequence[Ranking]], validations: Mapping[float, Validation]
) -> Iterator[str]:
    """Yield the findings of the atlas, each with its interval."""
    some = usable(effects)
    runs = int(some["runs"].sum())
    others = some[some["method"] != REFERENCE]
    r = others["multiple"].dropna()
    multiples = f", r from {r.min():g} k to {r.max():g} k" if len(r) else ""
    yield (
        f"{counted(some['dataset'].nunique(), 'dataset')} of {counted(some['source'].nunique(), 'source')}, "
        f"{counted(others['method'].nunique(), 'method')} and k-means on all features{multiples}: "
        f"{counted(runs, 'trial')}."
    )
    without = effects[~effects["method"].isin(some["method"].unique()) & (effects["failed"] != "")]
    for method, reason in without.groupby("method")["failed"].first().items():
        yield f"Not ranked, because trials failed at each r: {_label(method)} ({reason})."
    yield from _random_signs(effects)
    at_20k, half = Condition(multiple=20.0), Condition(budget=0.5)
    yield from _leaders(effects, several[ALL], "loss", at_20k)
    yield from _leaders(effects, several[ALL], "loss", half)
    yield from _compare_domains(effects, several)
    if validation := validations.get(SPEEDUP):
        rule = validation.comparisons[-1]
        yield (
            f"Advice for new data from their traits (`kmdr recommend`), at least {SPEEDUP:g} times as fast: "
            f"{validation.sentence} The difference to {rule.rule} is {rule.difference_text}: it is {rule.verdict} this."
        )
    for multiple in _MULTIPLES[:-1]:
        yield from _leaders(effects, several[ALL], "loss", Condition(multiple=multiple))
    yield from _leaders(effects, several[ALL], "accuracy", at_20k)
    yield from _leaders(effects, several[ALL], "loss", Condition(budget=0.1))
    yield from _costly(some)


def _costly(effects: pd.DataFrame) -> Iterator[str]:
    plan = design()
    shapes = effects[["dataset", "n", "d", "k"]].drop_duplicates().itertuples(index=False)
    names = sorted({dataset_label(str(name)) for name, *shape in shapes if plan.costly.includes(*shape)})
    if names:
        yield (
            f"k-means has up to {plan.kmeans['n_init']} starts, each with the online phase, which moves single points; "
            f"on {', '.join(names)}, where n·d·k is largest, up to {plan.costly.kmeans['n_init']} starts of Lloyd's "
            "algorithm alone, so that F of all features may be further above the smallest."
        )


def _leaders(effects: pd.DataFrame, several: Sequence[Ranking], quantity: str, condition: Condition) -> Iterator[str]:
    """Yield which methods are the best under a condition, with the median of the first; nothing without a test."""
    ranking = _find(several, quantity, condition)
    if ranking is None or math.isnan(ranking.p):
        return
    names = [str(name) for name in ranking.ranks.index if name != REFERENCE]
    first, N = names[0], len(ranking.block.values)
    table = medians(effects, quantity, condition)
    if first not in table.index:  # only a submission is fast enough
        return
    value = _shown(table.loc[first], quantity)
    its = f"F is {value} above" if quantity == "loss" else f"P differs by {value} from"
    within = f"Within {100 * condition.budget:g} % of the time of all features"
    where = f"At {condition}" if math.isnan(condition.budget) else within
    rank_ = f"the best average rank by {_SHORT[quantity]} of {len(names)} methods on {N} sources"
    best = f"{where}, “{first}” has {rank_}: {its} that of all features"
    others = [name for name in ranking.leaders if name not in (first, REFERENCE)]
    more = [f"and {len(others) - _MOST_LEADERS} more"] if len(others) > _MOST_LEADERS else []
    if not ranking.is_rejected:
        yield f"{best}; equality of all methods is not rejected (p = {ranking.p:.2g})."
    elif first not in ranking.leaders:
        yield f"{best}; it is worse than all features (Friedman's test, Nemenyi's distance)."
    elif not others:
        yield f"{best}; it is better than every other (Friedman's test, Nemenyi's distance)."
    else:
        yield f"{best}. Not distinguished from it: {_listed([*others[:_MOST_LEADERS], *more])}."


def _random_signs(effects: pd.DataFrame) -> Iterator[str]:
    """Yield what random signs at r = 20 k lose and save."""
    name = next((name for name, method in design().methods.items() if method.reducer == "random_sign"), "")
    condition = Condition(multiple=20.0)
    tables = {quantity: medians(effects, quantity, condition) for quantity in _QUANTITIES}
    if not all(name in table.index for table in tables.values()):
        return
    loss, accuracy = (_shown(tables[quantity].loc[name], quantity) for quantity in _QUANTITIES[:2])
    share, *ends = (f"{100 * float(value):.0f} %" for value in tables["time"].loc[name].to_numpy()[:3])
    seconds = f"{share} [{', '.join(ends)}]" if len({*ends}) > 1 else share
    yield (
        f"Random signs at r = 20 k, the simplest rule: F is {loss} above that of k-means on all features, P differs by "
        f"{accuracy}, and it takes {seconds} of the time (medians over sources of data, with 95 % intervals)."
    )


def _compare_domains(effects: pd.DataFrame, scopes: Iterable[str]) -> Iterator[str]:
    """Yield which method has the least median F in each domain."""
    condition, texts = Condition(multiple=20.0), []
    for name in scopes:
        table = medians(effects[effects["domain"] == name], "loss", condition).drop(index=REFERENCE, errors="ignore")
        if len(table):
            first, line = next(_iterate_lines(table.sort_values("median", kind="stable")))
            texts.append(f"{name}: {first}, {_shown(line, 'loss')}")
    if len(texts) > 1:
        yield f"Least median F at {condition} by domain, without a test: {_listed(texts)}."


def _label(name: object) -> str:
    return "all features" if name == REFERENCE else str(name)


# -- the data of the script ------------------------------------------------------------------------------------------


def _packed(ranking: Ranking, table: pd.DataFrame) -> dict[str, Any]:
    """Return a ranking: its methods, the best first, each with median, interval, average rank and number of sources."""
    ranks = ranking.mean_ranks
    ranked = [str(name) for name in ranks.index if name in table.index]
    others = [str(name) for name in table.sort_values("median", ascending=ASCENDING[ranking.quantity]).index]
    rows = dict(_iterate_lines(table))
    lines = [
        [
            _label(name),
            *(_rounded(rows[name][column]) for column in ("median", "low", "high")),
            int(rows[name]["count"]),
            _rounded(ranks.get(name, math.nan)),
        ]
        for name in dict.fromkeys([*ranked, *others])
    ]
    return {
        "form": ranking.form, "quantity": ranking.quantity, "at": _place(ranking.condition), "lines": lines,
        "leaders": [*map(_label, ranking.leaders)] if ranking.is_rejected else [], "best": [*map(_label, ranking.best)],
        "joined": [*map(_label, ranking.joined)], "sources": len(ranking.block.values),
        "methods": ranking.block.values.shape[1], "p": _rounded(ranking.p),
    }  # fmt: skip


def _place(condition: Condition) -> str:
    return f"r{condition.multiple:g}" if math.isnan(condition.budget) else f"t{condition.budget:g}"


def _rounded(value: Any) -> float | None:
    """Return a number with four significant digits; None if it is missing."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _lines(effects: pd.DataFrame) -> dict[str, list[list[Any]]]:
    """Return the lines of a dataset by form: method, r, multiple, repetitions, then each quantity with its interval."""
    some = usable(effects)
    by_form: dict[str, list[list[Any]]] = {}
    for line in some.to_dict("records"):
        time = line["time"]
        by_form.setdefault(str(line["form"]), []).append(
            [
                _label(line["method"]), int(line["r"]), _rounded(line["multiple"]), int(line["runs"]),
                *(_rounded(line[f"{name}{end}"]) for name in ("loss", "accuracy") for end in ("", "_low", "_high")),
                _rounded(time),
            ]
        )  # fmt: skip
    return by_form
