"""New metrics of old trials: ``kmdr metrics DIR`` scores the labels that ``keep_labels=true`` kept, without a trial."""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kmdr.datasets import open_prepared, prepared_by_content
from kmdr.errors import UserError
from kmdr.guests import origin_of
from kmdr.linalg import Matrix
from kmdr.linalg.matrix import canonical_csr, normalised
from kmdr.metrics import BUILT_IN, metrics, score
from kmdr.run.labels import Labels
from kmdr.run.store import Store, labels_file, task_files
from kmdr.run.task import canonical
from kmdr.text import tell

# By which F of the labels may differ from the row's, on another machine.
_NEAR = 1e-6


class _Scaled(NamedTuple):
    """A dataset as trials score it: A and its squared norm as `normalised` returns them, and the classes."""

    A: Matrix
    total: float
    classes: NDArray[np.int64] | None


@lru_cache(maxsize=1)  # the rows of a folder come dataset by dataset within a study
def _scaled(folder: Path) -> _Scaled:
    data = open_prepared(folder)
    A, _, total = normalised(canonical_csr(data.A))
    return _Scaled(A, total, data.labels)


def _filled(row: dict[str, str], labels: NDArray[np.unsignedinteger], data: _Scaled) -> bool:
    """Fill the metrics that a row has not; return whether there were any."""
    before = json.loads(row["metrics"] or "{}")
    scores = score(data.A, labels.astype(np.int64), data.classes, total=data.total)
    if not math.isclose(scores["objective"], float(row["objective"]), rel_tol=_NEAR, abs_tol=_NEAR**2):
        raise UserError("the labels are not those of this row, whose F is another")
    new = {name: value for name, value in scores.items() if name not in BUILT_IN and name not in before}
    row["metrics"] = canonical(before | new) if before or new else ""
    brought = (origin_of(metrics()[name].function.__module__) for name in new)
    row["guests"] = "; ".join(dict.fromkeys(filter(None, (*row["guests"].split("; "), *brought))))
    return bool(new)


def fill(folder: Path) -> tuple[int, int]:
    """Compute, for every trial of a folder whose labels are kept, the metrics that its row has not.

    Task files are written again one by one, each at once, and the table is merged at the end; so it may be stopped at
    any time, and called again.

    Parameters
    ----------
    folder : Path
        Of results.

    Returns
    -------
    rows, failed : int
        How many rows have a new metric, and how many could not be scored, of which each is told.

    Raises
    ------
    UserError
        When the folder has no labels.
    """
    files = [file for file in task_files(folder) if labels_file(folder, file).exists()]
    if not files:
        raise UserError(
            f"{folder} has no labels, of which metrics are computed; run with keep_labels=true, which keeps them"
        )
    store, filled, failed = Store(folder), 0, 0
    folders = prepared_by_content()
    wanted = metrics().keys() - set(BUILT_IN)
    absent: set[str] = set()

    def change(rows: list[dict[str, str]], labels: Labels) -> bool:
        nonlocal filled, failed
        before = filled
        for row in rows:
            r = int(row["r"])
            if row["status"] != "ok" or r not in labels or wanted <= json.loads(row["metrics"] or "{}").keys():
                continue
            if row["data_sha256"] not in folders:
                absent.add(row["dataset"])
                failed += 1
                continue
            try:
                filled += _filled(row, labels[r], _scaled(folders[row["data_sha256"]]))
            except Exception as error:  # whatever a user's metric raises
                failed += 1
                tell(f"kmdr: {row['dataset']} {row['reducer']} r={r} repeat={row['repeat']}: {error}")
        return filled > before

    with store.in_use():
        for file in files:
            store.change_task(file, change)
        store.merge()
    for name in sorted(absent):
        tell(f"kmdr: {name} is not prepared here with the content of these rows; 'kmdr data get {name}' may help")
    return filled, failed


def run(arguments: Sequence[str]) -> int:
    """``kmdr metrics DIR``: score the trials of a folder, run with keep_labels=true, by metrics that its rows lack.

    Exit status 1 when a trial could not be scored.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise UserError("'kmdr metrics' takes one folder of results, e.g. 'kmdr metrics results/runs'")
    folder = Path(arguments[0])
    filled, failed = fill(folder)
    print(
        f"{folder}: {filled} rows have metrics that they had not"
        + (f", {failed} could not be scored" if failed else "")
    )
    return int(failed > 0)
