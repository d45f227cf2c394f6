"""Data of the views "Answers" and "Explore": every mean with its interval, for the scripts in the page."""

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Outline

from kmdr.analysis.comparison import Quantity, differences
from kmdr.analysis.ranks import mean_ranks, profiles
from kmdr.analysis.rows import SETTING_COLUMNS, differing_settings, settings_text, statistic, summary
from kmdr.figures.panels import dataset_label
from kmdr.figures.style import Method, Style, label_styles, method_styles, reducer_styles
from kmdr.reporting.answers import (
    QUANTITIES,
    Experiment,
    all_quantities,
    contenders,
    experiments_of,
    restrict_to_shared_r,
)

# The quantities by which methods are ranked at each r; F itself only where all features were not run.
RANKED = ("relative_objective", "accuracy", "nmi", "ari", "total_seconds")
_UNTIMED = "No trial was timed serially, so there are no seconds; `timing_repeats=6` runs six repetitions for them."
# Names and values of settings in words.
_SETTINGS: Mapping[str, str] = {
    "n_init": "starts of k-means", "max_iter": "most iterations", "start": "initial centres", "online": "online phase",
    "empty_action": "empty clusters", "engine": "k-means", "matching": "matching of clusters",
}  # fmt: skip
_VALUES: Mapping[tuple[str, str], str] = {
    ("start", "sample"): "points drawn uniformly", ("start", "plus"): "k-means++",
    ("start", "greedy"): "greedy k-means++", ("start", "first_of_class"): "the first point of each class",
    ("matching", "identity"): "cluster j is class j", ("online", "True"): "yes", ("online", "False"): "no",
}  # fmt: skip
_PROFILE = ("factor", "share", "low", "high")
_CODES = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C", Outline.CLOSEPOLY: "Z"}


def packed(text: str) -> str:
    """Return a text compressed and base64-encoded, reproducibly."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def data_text(content: Mapping[str, Any]) -> str:
    """Return the data of `explored` as text."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def explored(rows: pd.DataFrame, configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data of both views.

    ``rows`` are of a folder, including failed ones, their text perhaps as categories; ``configs`` has the ``study``
    tree of every study.

    Returns
    -------
    dict
        ``quantities``: label, format, direction and statistic of each quantity. ``styles``: the look of each method.
        ``views``: one per experiment, the usual one of each dataset first, with a line for each method and quantity,
        and the methods that may be the best at each r. A line of a score, such as accuracy, has the ``change``
        of its centres from that of k-means on all features. ``overviews``: ranks and profiles over the
        datasets of each paper's studies that flip no choice, each in its usual experiment, and of custom runs (key
        ``""``). Numbers are rounded as the page shows them.
    """
    known = {study["name"]: study for study in configs}
    quantities = all_quantities()
    reducers: dict[str, str] = {}
    views: list[dict[str, Any]] = []
    cells: dict[str, list[pd.DataFrame]] = {}
    by_dataset = groupby(experiments_of(rows), key=lambda experiment: experiment.dataset)
    for dataset, experiments in by_dataset:
        ordered = sorted(experiments, key=lambda experiment: _usefulness(experiment, known), reverse=True)
        of_papers: dict[str, pd.DataFrame] = {}
        for experiment, name in zip(ordered, _names(ordered, known), strict=True):
            looks = _looks(experiment, known)
            reducers |= {style.label: reducer for (reducer, _), style in looks.items()}
            views.append({**_view(experiment, looks, quantities), **name})
            of_papers = _cells(experiment, views[-1], known) | of_papers  # the first one of each paper stays
        for paper, of_paper in of_papers.items():
            cells.setdefault(paper, []).append(of_paper.assign(dataset=dataset_label(dataset)))
    overviews = {}
    for paper, tables in cells.items():
        table = pd.concat(tables)
        methods = list(zip(table["reducer"], table["params"], strict=True))
        by_method = method_styles(methods)
        reducers |= {style.label: reducer for (reducer, _), style in by_method.items()}
        overviews[paper] = _overview(table.assign(method=[by_method[method].label for method in methods]), quantities)
    return {
        "quantities": {
            name: {"label": q.title, "form": q.form, "least": q.less, "statistic": statistic(name)}
            for name, q in quantities.items()
        },
        "styles": {label: _look(style) for label, style in label_styles(reducers).items()},
        "views": views,
        "overviews": overviews,
    }


def _view(experiment: Experiment, looks: Mapping[Method, Style], quantities: Mapping[str, Quantity]) -> dict[str, Any]:
    methods = list(looks)
    lines: dict[str, list[dict[str, Any]]] = {}
    for name, quantity in quantities.items():
        centres: dict[int, list[float]] = {}
        for number, method in enumerate(methods):
            samples = {r: trial.samples[name].values for r, trial in sorted(experiment.trials[method].items())}
            intervals = {r: summary(name, values) for r, values in samples.items() if len(values)}
            if intervals:
                columns = zip(*intervals.values(), strict=True)
                numbers = [[shown(value, quantity.form) for value in column] for column in columns]
                line = dict(zip(("centre", "low", "high"), numbers, strict=False))
                sizes = [interval.size for interval in intervals.values()]
                lines.setdefault(name, []).append({"method": number, "r": list(intervals), "n": sizes, **line})
                centres[number] = [centre for centre, *_ in intervals.values()]
        whole = next((centres[number][0] for number in centres if methods[number][0] == "none"), None)
        if whole is not None and not quantity.less:
            for curve in lines[name]:
                curve["change"] = [shown(centre - whole, quantity.form) for centre in centres[curve["method"]]]
    ranked = {name: q for name, q in quantities.items() if name in RANKED or name not in QUANTITIES}
    if "relative_objective" not in lines:
        ranked["objective"] = quantities["objective"]
    best = {
        name: [
            [number for number, method in enumerate(methods) if method in of_r]
            for of_r in (contenders(experiment.trials_at(r), name, quantity) for r in experiment.grid)
        ]
        for name, quantity in ranked.items()
        if name in lines
    }
    timed = any(len(t.samples["total_seconds"].values) for by_r in experiment.trials.values() for t in by_r.values())
    return {
        "dataset": experiment.dataset, "title": dataset_label(experiment.dataset), "studies": list(experiment.studies),
        "stand_in": experiment.stand_in, "untimed": "" if timed else _UNTIMED, "code": experiment.notes,
        "methods": [looks[method].label for method in methods], "reducers": [name for name, _ in methods],
        "flat": [number for number, method in enumerate(methods) if method in experiment.flat],
        "grid": experiment.grid, "lines": lines, "best": best,
    }  # fmt: skip


def _is_changed(study: str, known: Mapping[str, Mapping[str, Any]]) -> bool:
    return "flip" in known.get(study, {})


def _usefulness(experiment: Experiment, known: Mapping[str, Mapping[str, Any]]) -> tuple[bool, int, int]:
    """Return the rank of an experiment as the usual one of its dataset: unchanged settings, methods, repetitions."""
    unchanged = any(not _is_changed(study, known) for study in experiment.studies)
    repetitions = max(trial.n for by_r in experiment.trials.values() for trial in by_r.values())
    return unchanged, len(experiment.trials), repetitions


def _names(experiments: Sequence[Experiment], known: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the names of a dataset's experiments: the papers that run it so, or what changes, and its settings."""
    table = pd.DataFrame([experiment.setting for experiment in experiments], columns=SETTING_COLUMNS)
    settings = [{key: value for key, value in row.items() if value != "–"} for row in differing_settings(table)]
    names = []
    for experiment, differing in zip(experiments, settings, strict=True):
        unchanged = [
            {**known.get(study, {}), "name": study} for study in experiment.studies if not _is_changed(study, known)
        ]
        papers = [str(study.get("paper") or study.get("title") or study["name"]) for study in unchanged]
        changes = [str(known[study]["title"]) for study in experiment.studies if _is_changed(study, known)]
        others = {key: value for key, value in differing.items() if settings[0].get(key) != value}
        label = ", ".join(dict.fromkeys(papers or changes[:1]))
        names.append(
            {
                "label": f"{label} ({settings_text(_describe_settings(others))})" if others else label,
                "settings": settings_text(_describe_settings(differing)),
            }
        )
    return names


def _describe_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings by names and with values in words; those without words, as of plugins, are unchanged."""
    words = {(name, str(value)): _VALUES.get((name, str(value)), str(value)) for name, value in settings.items()}
    return {_SETTINGS.get(name, name): text for (name, _), text in words.items()}


def _cells(
    experiment: Experiment, view: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]
) -> dict[str, pd.DataFrame]:
    """Return the means at each r of the methods that each paper's unchanged studies ran."""
    by_paper: dict[str, set[Method]] = {}
    for study, methods in experiment.studies.items():
        if not _is_changed(study, known):
            by_paper.setdefault(str(known.get(study, {}).get("paper") or ""), set()).update(methods)
    ordered = list(method_styles(experiment.trials))
    cells = [
        (name, *ordered[line["method"]], ordered[line["method"]] not in experiment.flat, r, centre)
        for name, lines in view["lines"].items()
        for line in lines
        for r, centre in zip(line["r"], line["centre"], strict=True)
    ]
    table = pd.DataFrame(cells, columns=["quantity", "reducer", "params", "varies", "r", "centre"])
    method = pd.MultiIndex.from_frame(table[["reducer", "params"]])
    return {paper: table[method.isin(list(methods))] for paper, methods in by_paper.items()}


def _overview(table: pd.DataFrame, quantities: Mapping[str, Quantity]) -> dict[str, Any]:
    """Return ranks and profiles for each quantity; problems are datasets, with means over the r of all methods."""
    of_quantities = {}
    for quantity, part in table.groupby("quantity"):
        least = bool(quantities[str(quantity)].less)
        on_datasets = part.groupby("method")["dataset"].nunique() / part["dataset"].nunique()
        # Methods that ran on at least half of the datasets, compared on the datasets and at the r that they share.
        usual = on_datasets.index[on_datasets >= 0.5]
        values = restrict_to_shared_r(part[part["method"].isin(usual)].reset_index(drop=True))
        common = values.groupby(["dataset", "method"])["centre"].mean().unstack("method")
        ranks, profile = mean_ranks(common, least), profiles(common, least)
        if ranks.empty:
            continue
        of_quantities[str(quantity)] = {
            "ranks": [
                {"label": str(name), **{key: shown(float(value), ".3f") for key, value in line.items()}}
                for name, line in ranks.iterrows()
            ],
            "profiles": [
                {"label": str(name), **{key: [shown(v, ".4g") for v in of_method[key]] for key in _PROFILE}}
                for name, of_method in profile.groupby("method", sort=False)
            ],
            "problems": list(map(str, common.dropna().index)),
            "omitted": [str(name) for name in on_datasets.index if name not in usual],
        }
    return of_quantities


def shown(value: float, form: str) -> float | None:
    """Return a number rounded as the page shows it; with significant digits, from 1000 on as an integer.

    Examples
    --------
    >>> shown(0.123456, ".4f"), shown(0.00123456, ".4g"), shown(12345.6, ".4g"), shown(float("nan"), ".3f")
    (0.1235, 0.001235, 12346.0, None)
    """
    if math.isnan(value):
        return None
    return float(round(value)) if form.endswith("g") and abs(value) >= 1000 else float(format(value, form))


def _looks(experiment: Experiment, known: Mapping[str, Mapping[str, Any]]) -> dict[Method, Style]:
    """Return the styles of an experiment's methods.

    If only one variant of a reducer is of studies that change nothing, it has the reducer's name, and the others name
    what they change.
    """
    usual = {
        method for study, methods in experiment.studies.items() if not _is_changed(study, known) for method in methods
    }
    styles = method_styles(experiment.trials)
    names = reducer_styles(name for name, _ in styles)
    for name in names:
        base = [method for method in styles if method[0] == name and method in usual]
        if len(base) == 1:
            for method in [method for method in styles if method[0] == name]:
                change = differences([base[0][1], method[1]])[1] if method != base[0] else ""
                styles[method] = styles[method]._replace(label=names[name].label + change)
    return styles


def _look(style: Style) -> dict[str, Any]:
    """Return colour, dashes and marker of a method for SVG; the marker's path is of the size 1."""
    line = "" if isinstance(style.linestyle, str) else " ".join(f"{2 * length:g}" for length in style.linestyle[1])
    line = "6 3" if style.linestyle == "--" else line
    return {"color": style.color, "dash": line, "path": _outline(style.marker), "filled": style.filled}


def _outline(marker: str) -> str:
    """Return a marker of matplotlib as the path of an SVG, whose y axis points down."""
    if not marker:
        return ""
    mark = MarkerStyle(marker)
    steps = []
    for points, code in mark.get_path().transformed(mark.get_transform()).iter_segments():
        numbers = np.round(np.reshape(points, (-1, 2)) * (1, -1), 3).ravel() + 0.0
        steps.append(_CODES[code] + ("" if code == Outline.CLOSEPOLY else " ".join(f"{value:g}" for value in numbers)))
    return "".join(steps)
