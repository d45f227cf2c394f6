"""Made-up rows: trials whose numbers are simple functions of r and the repetition, to test what is made of rows."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kmdr.analysis.results import Results
from kmdr.base.text import short_hash
from kmdr.config.task import Task, code_of, settings_of
from kmdr.results.reader import facts_of
from kmdr.results.row_check import config_of
from kmdr.results.schema import COLUMNS

HASH = "0123456789ab"
Value = float | Callable[[int, int], float]


def make_rows(
    study: str,
    dataset: str,
    reducer: str,
    r: int | Iterable[int] = 10,
    repeats: int = 5,
    *,
    objective: Value = 0.5,
    accuracy: Value = 0.5,
    seconds: Value = 0.1,
    **changes: object,
) -> pd.DataFrame:
    """Return the rows of one reducer on one dataset.

    Parameters
    ----------
    study, dataset, reducer : str
    r : int or iterable of int
    repeats : int
        Repetitions 0, 1, ….
    objective, accuracy, seconds : float or callable
        A number, or a function of (r, repeat). The total time is ``seconds``: a tenth of it to prepare, two to reduce
        and seven to cluster.
    **changes
        Other columns with one value each, e.g. ``params`` or ``concurrency``.
    """

    def at(value: Value, size: int, repeat: int) -> float:
        return float(value(size, repeat) if callable(value) else value)

    fixed: dict[str, object] = {
        "study": study, "dataset": dataset, "reducer": reducer, "params": "{}", "n": 100, "d": 200, "nnz": 20000,
        "k": 5, "seed": 0, "objective_ratio": 1.0, "nmi": 0.5, "ari": 0.5, "score_seconds": 0.01, "n_iter": 10,
        "n_init_failed": 0, "status": "ok", "error": "", "concurrency": 1, "threads": 1, "stand_in": "",
        "config_hash": f"{study}-{dataset}-{reducer}", "data_sha256": f"sha-{dataset}", "code_version": "v",
        "env_hash": "e",
    }  # fmt: skip
    lines = []
    for size in [r] if isinstance(r, int) else r:
        for repeat in range(repeats):
            total = at(seconds, size, repeat)
            lines.append(
                fixed
                | {
                    "r": size,
                    "repeat": repeat,
                    "objective": at(objective, size, repeat),
                    "accuracy": at(accuracy, size, repeat),
                    "prepare_seconds": 0.1 * total,
                    "reduce_seconds": 0.2 * total,
                    "cluster_seconds": 0.7 * total,
                    "total_seconds": total,
                }
                | changes
            )
    return pd.DataFrame(lines, columns=list(COLUMNS))


def trial(task: Task, r: int, objective: float, env_hash: str = "e" * 12) -> dict[str, Any]:
    """Return a finished row of a task, all of whose columns hold what they are to hold."""
    return {
        "study": task.study, "dataset": task.dataset, "reducer": task.reducer, "params": task.params, "n": 9, "d": 20,
        "nnz": 180, "k": task.k, "r": r, "repeat": task.repeat, "seed": task.seed, **settings_of(task.config),
        "options": "{}", "objective": objective,
        "accuracy": 0.5, "nmi": 0.25, "ari": -0.125, "prepare_seconds": 0.5, "reduce_seconds": 0.25,
        "cluster_seconds": 0.125, "total_seconds": 0.875, "score_seconds": 1e-05, "n_iter": 3, "n_init_failed": 0,
        "status": "ok", "error": "", "concurrency": 2, "threads": 1, "stand_in": "", "config_hash": task.config_hash,
        "data_sha256": task.data_sha256, "code_version": "0.1.0", "code_hash": code_of(task.reducer, task.dataset),
        "env_hash": env_hash,
    }  # fmt: skip


def make_results(
    rows: Iterable[pd.DataFrame],
    folder: Path | None = None,
    facts: Mapping[str, pd.DataFrame] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Results:
    """Return results that hold some rows and, written to ``folder/facts``, some facts."""
    if facts:
        assert folder is not None
        (folder / "facts").mkdir(exist_ok=True)
        for name, table in facts.items():
            table.to_csv(folder / "facts" / f"{name}.csv", index=False)
    return Results(pd.concat(list(rows), ignore_index=True), facts_of(folder) if folder else None, missing)


def hashed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with settings where they have none, and with the hash of the configuration that they state."""
    usual = {"engine": "kmdr", "start": "sample", "n_init": 1, "max_iter": 9, "kmeans": "{}", "matching": "best"}
    rows = rows.reindex(columns=list(COLUMNS))
    filled = rows.assign(**{n: rows[n].astype(object).where(rows[n].notna(), usual[n]) for n in usual})
    filled = filled.astype(dict.fromkeys(("n_init", "max_iter"), int))
    return filled.assign(config_hash=[short_hash(config_of(row)) for row in filled.astype(str).to_dict("records")])


def write_rows(folder: Path, *parts: pd.DataFrame, **changes: object) -> Path:
    """Write a table of made-up rows whose keys are such as kmdr writes, and return its folder."""
    rows = pd.concat(parts or [make_rows("bzmd15_fig1", "synth", "random_sign", (5, 10), 3)], ignore_index=True)
    keys = {"env_hash": HASH, "data_sha256": "0" * 64, "code_version": "1.0", "code_hash": HASH}
    rows = hashed(rows.assign(**(keys | {name: value for name, value in changes.items() if name != "config_hash"})))
    rows.assign(**changes).to_csv(folder / "rows.csv", index=False)
    return folder


def markdown_of(folder):
    """Return all Markdown pages of a folder's report as one text."""
    return "\n".join(page.read_text("utf-8") for page in sorted((folder / "report").glob("*.md")))
