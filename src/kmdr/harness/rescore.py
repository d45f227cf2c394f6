"""Score finished trials by new metrics: ``kmdr metrics DIR`` uses the labels that ``keep_labels=true`` kept.

Metrics that an older version of their plugin computed are computed again.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.text import canonical, counted, tell
from kmdr.config.task import data_of, methods_from, origin_of_metric
from kmdr.datasets import open_prepared, prepared_by_content
from kmdr.datasets.references import references_of
from kmdr.linalg import Matrix
from kmdr.linalg.matrix import canonical_csr, normalised
from kmdr.metrics import BUILT_IN, metrics, score
from kmdr.metrics.references import score_against
from kmdr.results.folder import has_file
from kmdr.results.labels import Labels
from kmdr.results.paths import labels_file, task_files
from kmdr.results.row_check import value_fault
from kmdr.results.store import Store
from kmdr.results.text_rows import TextRow

# Largest relative difference between F of the labels and of the row, on another machine.
_NEAR = 1e-6


class Scaled(NamedTuple):
    """A dataset as trials score it: A and its squared norm as `normalised` returns them, and the classes."""

    A: Matrix
    total: float
    classes: NDArray[np.int64] | None
    references: NDArray[np.int64] | None = None


@lru_cache(maxsize=1)  # the rows of a folder come dataset by dataset within a study
def scaled(folder: Path) -> Scaled:
    """Return the dataset of a prepared folder as trials score it."""
    data = open_prepared(folder)
    A, _, total = normalised(canonical_csr(data.A))
    return Scaled(A, total, data.labels, references_of(data))


def score_labels(data: Scaled, labels: NDArray[Any], matching: str = "best") -> dict[str, float]:
    """Return the scores of a partition, as trials have them."""
    if data.references is not None:
        return score_against(data.A, labels, data.references, matching, total=data.total)
    return score(data.A, labels, data.classes, matching, total=data.total)


def _fill_row(row: TextRow, labels: NDArray[np.unsignedinteger], data: Scaled) -> bool:
    """Fill the metrics that a row lacks or that other code computed; return whether there were any."""
    before = {name: value for name, value in _metrics_of(row).items() if name not in _outdated(row)}
    scores = score_labels(data, labels.astype(np.int64))
    if not math.isclose(scores["objective"], float(row["objective"]), rel_tol=_NEAR, abs_tol=_NEAR**2):
        raise UserError("the labels do not belong to this row: their F differs from its F")
    new = {name: value for name, value in scores.items() if name not in BUILT_IN and name not in before}
    text = canonical(before | new) if before or new else ""
    if fault := value_fault("metrics", text):  # with it, no reader would accept the row
        raise UserError(f"{fault}; correct the metric")
    row["metrics"] = text
    plugins = [origin for name in new if name in metrics() and (origin := origin_of_metric(name))]
    row["guests"] = "; ".join(dict.fromkeys([*_without_older(row, plugins), *plugins]))
    return bool(new)


def scores_of_labels(row: Mapping[str, str], labels: NDArray[np.unsignedinteger], data: Scaled) -> dict[str, float]:
    """Return the scores of the labels that belong to a row."""
    matching = row["matching"] or "best"
    return score_labels(data, labels.astype(np.int64), matching)


def _metrics_of(row: Mapping[str, str]) -> dict[str, float]:
    return dict(json.loads(row["metrics"] or "{}"))


def _outdated(row: Mapping[str, str]) -> set[str]:
    """Return the metrics in a row that code other than the current one computed."""
    known = row["guests"].split("; ")
    return {name for name in _metrics_of(row).keys() & metrics().keys() if origin_of_metric(name) not in ("", *known)}


def _without_older(row: Mapping[str, str], plugins: Sequence[str]) -> list[str]:
    """Return the plugins that a row names, without those that only provided metrics now computed again."""
    name, _ = data_of(row["dataset"], row["options"])
    try:
        others = methods_from(row["reducer"], row["engine"] or "kmdr", name)
    except (UserError, LookupError):  # not available, so its origin is unknown
        return row["guests"].split("; ")
    again = {_name(origin) for origin in plugins} - {_name(origin) for origin in others}
    return [origin for origin in row["guests"].split("; ") if origin and _name(origin) not in again]


def _name(origin: str) -> str:
    """Return the part of an origin before its hash."""
    return origin.rpartition(" ")[0]


def fill(folder: Path) -> tuple[int, int]:
    """Compute the metrics that rows lack or that other code computed, for trials whose labels are kept.

    Task files are rewritten one by one and the table is merged at the end, so it can be stopped at any time and called
    again. Return the number of rows with a new metric, and of those that could not be scored, which are reported.
    """
    files = [file for file in task_files(folder) if has_file(folder, labels_file(folder, file))]
    if not files:
        raise UserError(f"{folder} has no labels to compute metrics of; run with keep_labels=true, which keeps them")
    store, filled, failed = Store(folder), 0, 0
    folders = prepared_by_content()
    wanted = metrics().keys() - set(BUILT_IN)
    absent: set[str] = set()

    def change(rows: list[TextRow], labels: Labels) -> bool:
        nonlocal filled, failed
        before = filled
        by_r = {int(row["r"]): row for row in rows}
        for r, labels_of_r in labels:
            row = by_r.get(r)
            if row is None or row["status"] != "ok" or wanted <= _metrics_of(row).keys() - _outdated(row):
                continue
            if row["data_sha256"] not in folders:
                absent.add(row["dataset"])
                failed += 1
                continue
            try:
                filled += _fill_row(row, labels_of_r, scaled(folders[row["data_sha256"]]))
            except Exception as error:  # whatever a user's metric raises
                failed += 1
                tell(f"kmdr: warning: {row['dataset']} {row['reducer']} r={r} repeat={row['repeat']}: {error}")
        return filled > before

    with store.held():
        for file in files:
            try:
                store.change_task(file, change)
            except DamagedError as error:
                failed += 1
                tell(f"kmdr: warning: {error}")
        store.merge()
    for name in sorted(absent):
        tell(
            f"kmdr: warning: {name} is not prepared here with the content of these rows; "
            f"'kmdr data get {name}' may help"
        )
    return filled, failed


def run(folder: Path) -> int:
    """Score the trials of a folder by metrics that its rows lack; return 1 if a trial could not be scored, else 0."""
    filled, failed = fill(folder)
    print(
        f"{folder}: {counted(filled, 'row has', 'rows have')} new metrics"
        + (f", {failed} could not be scored" if failed else "")
    )
    return int(failed > 0)
