"""Rows that no paper's table, figure or claim reads: somebody's own runs, drawn and told at the head of a report."""

import json
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kmdr.analysis.rows import mean_interval, quantity_rows, ratio_to_best
from kmdr.analysis.statistics import above
from kmdr.analysis.untrusted import rows_of
from kmdr.claims.effects import LEVEL, paired
from kmdr.figures.panels import figures_of, named_by_setting
from kmdr.figures.style import method_styles
from kmdr.figures.tables import Table, save_table
from kmdr.text import override

# What the table of own runs has, by the columns of rows; times where there are any.
QUANTITIES = {"ratio": "F/F_best", "accuracy": "P", "nmi": "NMI", "total_seconds": "seconds"}
FORMATS = {"ratio": ".4f", "accuracy": ".3f", "nmi": ".3f", "total_seconds": ".3g"}


@dataclass(frozen=True)
class OwnRuns:
    """Rows of one study that no paper knows.

    Attributes
    ----------
    study : str
    files : tuple of Path
        Its figures and its table, relative to the folder.
    table : Table
        A line a dataset, method and r.
    commands : tuple of str
        What runs them again.
    """

    study: str
    files: tuple[Path, ...]
    table: Table
    commands: tuple[str, ...]

    @property
    def pictures(self) -> list[Path]:
        """Its figures as PNG."""
        return [file for file in self.files if file.suffix == ".png"]


def own_runs(folder: Path, studies: Collection[str]) -> list[OwnRuns]:
    """Draw and tabulate some studies of a folder, in all settings that they were run with.

    Parameters
    ----------
    folder : Path
    studies : collection of str
        Those that no item, claim or open point reads.
    """
    if not studies:
        return []
    rows = rows_of(folder)
    own = rows[rows["study"].isin(list(studies))]
    # F_best is that of the data, whatever the settings.
    renamed, names = named_by_setting(own.assign(ratio=ratio_to_best(own)))
    runs = []
    for study, of_study in renamed.groupby("study", sort=True):
        stem = re.sub(r"[^\w.+-]", "_", str(study))
        drawn = figures_of(
            of_study, folder / "figures" / f"own_{stem}", {name: told for name, (_, told) in names.items()}
        )
        table = _table(of_study, names)
        files = [*drawn, *save_table(table, folder / "tables" / f"own_{stem}")]
        commands = _commands(own[own["study"] == study])
        runs.append(OwnRuns(str(study), tuple(file.relative_to(folder) for file in files), table, commands))
    return runs


def _table(rows: pd.DataFrame, names: Mapping[str, tuple[str, str]]) -> Table:
    """Return means with intervals, and whether F differs from that of k-means on all features."""
    lines: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    for quantity, title in QUANTITIES.items():
        values = quantity_rows(rows, quantity)
        for key, group in values.groupby(["dataset", "reducer", "params", "r"]):
            dataset, reducer, params, r = map(str, key)
            interval = mean_interval(group["value"].to_numpy())
            line = lines.setdefault((dataset, reducer, params, int(float(r))), {"n": interval.size})
            line[title] = interval.mean
            line[f"± {title}"] = interval.high - interval.mean
    styles = method_styles({(reducer, params) for _, reducer, params, _ in lines})
    frame = pd.DataFrame(
        {
            "dataset": names.get(dataset, (dataset, dataset))[1],
            "method": styles[reducer, params].label,
            "r": r,
            **line,
            "against kMeans": _against_all_features(rows, dataset, reducer, params, r),
        }
        for (dataset, reducer, params, r), line in sorted(lines.items())
    )
    formats = {title: FORMATS[quantity] for quantity, title in QUANTITIES.items() if title in frame}
    formats |= {f"± {title}": form for title, form in list(formats.items())}
    note = "± is half the 95 % interval of a mean; against kMeans: F beside that on all features, paired t test at 5 %."
    return Table(frame, formats, note)


def _against_all_features(rows: pd.DataFrame, dataset: str, reducer: str, params: str, r: int) -> str:
    """Say whether F is higher or lower than on all features, from the same starts."""
    F = quantity_rows(rows[rows["dataset"] == dataset], "objective")
    own = F[(F["reducer"] == reducer) & (F["params"] == params) & (F["r"] == r)].set_index("repeat")["value"]
    whole = F[F["reducer"] == "none"].drop_duplicates("repeat").set_index("repeat")["value"]
    both = pd.concat({"own": own, "whole": whole}, axis=1).dropna()
    if reducer == "none" or len(both) < 2:
        return ""
    gaps = above("", paired(both, "own", "whole"))
    if min(gaps.p_for, gaps.p_against) > LEVEL / 2:
        return "no difference shown"
    return "F higher" if gaps.effect > 0 else "F lower"


def _commands(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return a command for each configuration."""
    commands = []
    for _, group in rows.groupby("config_hash", sort=False):
        row = group.iloc[0]
        options = {"name": row["dataset"], **json.loads(row["options"] or "{}")}
        settings = {
            "dataset": options.pop("name"),
            **{f"dataset.{name}": value for name, value in options.items()},
            **_reducer(row["reducer"], json.loads(row["params"])),
            "r_grid": sorted({int(r) for r in group["r"]}),
            "k": int(row["k"]),
            "repeats": int(group["repeat"].max()) + 1,
            "seed": int(row["seed"]),
            **{f"kmeans.{name}": row[name] for name in ("engine", "start", "n_init", "max_iter") if row[name] != ""},
            **_kmeans(json.loads(row["kmeans"] or "{}")),
            "matching": row["matching"] or "best",
        }
        commands.append(shlex.join(["kmdr", *(f"{name}={override(value)}" for name, value in settings.items())]))
    return tuple(dict.fromkeys(commands))


def _reducer(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that name a reducer; one of another package has its import path as name."""
    if "." not in name:
        return {"reducer": name, **{f"reducer.{key}": value for key, value in params.items()}}
    return {"reducer": "outside", "reducer.path": name, **{f"reducer.args.{key}": v for key, v in params.items()}}


def _kmeans(settings: Mapping[str, Any]) -> dict[str, Any]:
    args = json.loads(settings.get("args", "{}"))
    others = {f"kmeans.{name}": value for name, value in settings.items() if name != "args"}
    return {**others, **{f"kmeans.args.{name}": value for name, value in args.items()}}
