"""Data of the interactive plots: all means, or medians of times, with their intervals, for the script in the page."""

import base64
import gzip
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from kmdr.analysis.ranks import mean_ranks, profiles
from kmdr.analysis.rows import (
    CELL,
    code_notes,
    is_time,
    median_interval,
    mixed_settings,
    ok_rows,
    quantity_columns,
    quantity_rows,
    serial_rows,
    statistic,
)
from kmdr.figures.panels import dataset_label, methods_of, named_by_setting, quantity_label
from kmdr.figures.style import Style, method_styles
from kmdr.metrics import metrics
from kmdr.results.frame import to_text

# In the order of the page's list; True if the smallest value is the best.
QUANTITIES: Mapping[str, bool] = {
    "objective_ratio": True, "objective": True, "accuracy": False, "nmi": False, "ari": False,
    "reduction_seconds": True, "cluster_seconds": True, "total_seconds": True, "n_iter": True,
}  # fmt: skip
# Plotly's names of matplotlib's lines and markers.
_DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
_SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "D": "diamond", "d": "diamond-tall",
    "P": "cross", "X": "x", "*": "star", "p": "pentagon", "h": "hexagon", "<": "triangle-left", ">": "triangle-right",
}  # fmt: skip
# Significant digits of numbers in the page.
_DIGITS = 6
_UNTIMED = "No trial was timed serially, so there are no seconds; timing_repeats=3 runs 3 repetitions for them."
_PROFILE = ("factor", "share", "low", "high")


@cache
def library() -> str:
    """Return the part of Plotly that a browser runs, as text."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def unstyled() -> list[str]:
    """Return the element ids that the library looks for before it adds styles of maps, which the page does not need.

    If an element with the id exists, the library adds no style; the page's policy would refuse it.
    """
    return re.findall(r'getElementById\("([0-9a-f]{64})"\)', library())


def packed(text: str) -> str:
    """Return a text compressed and base64-encoded, reproducibly."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def explored(rows: pd.DataFrame, configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data of the interactive plots.

    Parameters
    ----------
    rows : DataFrame
        Of a folder, including failed ones; its text may be categories.
    configs : sequence of mapping
        The ``study`` tree of every study.

    Returns
    -------
    dict
        ``quantities``: label, direction and statistic of each quantity. ``styles``: the look of each method.
        ``views``: one per dataset of each study, with a line for each method and quantity. ``overviews``: ranks and
        profiles over the datasets of each paper's studies, except studies that flip a choice, and over the datasets of
        custom runs (key ``""``). Numbers have six significant digits.
    """
    known = {study["name"]: study for study in configs}
    views: list[dict[str, Any]] = []
    custom = [name for name in metrics() if name not in QUANTITIES]
    least = {**QUANTITIES} | {name: metrics()[name].better == "lower" for name in custom}
    quantities = {
        name: {"label": quantity_label(name)[1], "least": is_least, "statistic": statistic(name)}
        for name, is_least in least.items()
    }
    method = ["study", "dataset", "reducer", "params"]
    styles: dict[str, dict[str, str]] = {}
    of_papers: dict[str, list[pd.DataFrame]] = {}
    machines: dict[tuple[str, str], set[str]] = {}
    for study, ok in ok_rows(rows).groupby("study", sort=True):
        of_study, names = named_by_setting(to_text(ok))
        if refused := mixed_settings(of_study, method):  # of settings that were not recorded, as in figures
            of_study = of_study[~pd.MultiIndex.from_frame(of_study[method]).isin(list(refused))]
        if of_study.empty:
            continue
        config = known.get(str(study), {})
        paper = str(config.get("paper") or "")
        looks = method_styles(methods_of(of_study))
        styles |= {style.label: _look(style) for style in looks.values()}
        parts = _summaries(of_study, quantities)
        drawn = {name: _lines(part, looks) for name, part in parts.items()}
        for dataset, of_dataset in of_study.groupby("dataset", sort=True):
            name, label = names.get(str(dataset), (str(dataset), dataset_label(str(dataset))))
            curves = {quantity: lines[str(dataset)] for quantity, lines in drawn.items() if str(dataset) in lines}
            stand_in = "; ".join(sorted({str(text) for text in of_dataset["stand_in"].unique() if text}))
            views.append(
                {
                    "study": str(study), "paper": paper, "title": config.get("title") or "",
                    "dataset": name, "label": label, "stand_in": stand_in, "lines": curves,
                    "untimed": "" if len(serial_rows(of_dataset)) else _UNTIMED,
                    "code": " ".join(f"{note}." for note in code_notes(of_dataset)),
                }
            )  # fmt: skip
        if "flip" not in config:
            table = pd.concat(parts.values(), keys=parts.keys(), names=["quantity"]).reset_index("quantity")
            of_papers.setdefault(paper, []).append(table)
            for dataset, of_dataset in serial_rows(of_study).groupby("dataset"):
                machines.setdefault((paper, str(dataset)), set()).update(
                    of_dataset["machine"].astype(object).fillna("")
                )
    overviews = {}
    for paper, tables in of_papers.items():
        table = pd.concat(tables)
        # Times of several machines are not ranked.
        several = table["dataset"].isin(
            [name for (source, name), few in machines.items() if source == paper and len(few) > 1]
        )
        table = table[~(several & table["quantity"].map(is_time))]
        by_method = method_styles(zip(table["reducer"], table["params"], strict=True))
        styles |= {style.label: _look(style) for style in by_method.values()}
        labels = [by_method[pair].label for pair in zip(table["reducer"], table["params"], strict=True)]
        overviews[paper] = _overview(table.assign(label=labels), quantities)
    return {"quantities": quantities, "styles": styles, "views": views, "overviews": overviews}


def _look(style: Style) -> dict[str, str]:
    line = style.linestyle
    dash = _DASHES.get(line, "solid") if isinstance(line, str) else _dashed(line[1])
    symbol = _SYMBOLS.get(style.marker, "circle")
    return {"color": style.color, "dash": dash, "symbol": symbol if style.filled else f"{symbol}-open"}


def _dashed(lengths: Sequence[float]) -> str:
    """Return Plotly's name of a line of dashes and gaps, whose lengths are multiples of its width."""
    return ",".join(f"{2 * length:g}px" for length in lengths)


def _summaries(rows: pd.DataFrame, quantities: Collection[str]) -> dict[str, pd.DataFrame]:
    """Return centre and interval of quantities for each dataset, method and r, as `kmdr.analysis.rows.summarise` does.

    Each dataset name has one setting here, so thousands of cells are computed at once.
    """
    timed = serial_rows(rows)
    tables = {}
    for name in quantities:
        columns = [column for column in rows.columns if column in quantity_columns(name)]
        values = quantity_rows((timed if is_time(name) else rows)[columns], name)
        cells = values.groupby(CELL)["value"]
        if is_time(name):
            medians = [(*key, *median_interval(of_cell.to_numpy())) for key, of_cell in cells if len(of_cell)]
            table = pd.DataFrame(medians, columns=[*CELL, "centre", "low", "high", "count"])
            tables[name] = table.astype(dict.fromkeys(("centre", "low", "high"), float))
        else:
            table = cells.agg(["mean", "std", "count"])
            tables[name] = _with_intervals(table[table["count"] > 0])
    return {name: table[[*CELL, "centre", "count", "low", "high"]] for name, table in tables.items()}


def _with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    half = student.ppf(0.975, np.maximum(table["count"] - 1, 1)) * table["std"] / table["count"] ** 0.5
    return table.assign(centre=table["mean"], low=table["mean"] - half, high=table["mean"] + half).reset_index()


def _lines(table: pd.DataFrame, looks: Mapping[tuple[str, str], Style]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each dataset, one per method, in the order of legends."""
    lines: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for dataset, reducer, params, r, centre, count, low, high in table.itertuples(index=False, name=None):
        empty: dict[str, Any] = {"label": "", "r": [], "n": [], "centre": [], "low": [], "high": []}
        line = lines.setdefault(dataset, {}).setdefault((reducer, params), empty)
        for name, value in (("r", int(r)), ("n", int(count)), ("centre", centre), ("low", low), ("high", high)):
            line[name].append(value if isinstance(value, int) else _short(value))
    return {
        dataset: [
            {**of_methods[method], "label": style.label} for method, style in looks.items() if method in of_methods
        ]
        for dataset, of_methods in lines.items()
    }


def _short(value: float) -> float | None:
    """Return a value with six digits; from 1000 on an integer, as the page shows it, to avoid rounding twice."""
    if math.isnan(value):
        return None
    return float(round(value)) if abs(value) >= 1000 else float(f"{value:.{_DIGITS}g}")


def _overview(table: pd.DataFrame, quantities: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return ranks and profiles for each quantity; problems are datasets, with means over r and studies."""
    of_quantities = {}
    for quantity, part in table.groupby("quantity"):
        least = bool(quantities[str(quantity)]["least"])
        wide = part.groupby(["dataset", "label"])["centre"].mean().unstack("label")
        # Methods that ran on at least half of the datasets, compared on the datasets that they share.
        common = wide.loc[:, wide.notna().mean() >= 0.5]
        ranks, profile = mean_ranks(common, least), profiles(common, least)
        if ranks.empty:
            continue
        of_quantities[str(quantity)] = {
            "ranks": [
                {"label": str(name), **{key: _short(float(value)) for key, value in line.items()}}
                for name, line in ranks.iterrows()
            ],
            "profiles": [
                {
                    "label": str(name),
                    **{key: [_short(v) for v in of_method[key]] for key in _PROFILE},
                }
                for name, of_method in profile.groupby("method", sort=False)
            ],
            "problems": list(map(str, common.dropna().index)),
            "omitted": [str(name) for name in wide if name not in common],
        }
    return of_quantities


def data_text(content: Mapping[str, Any]) -> str:
    """Return the data of `explored` as text."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
