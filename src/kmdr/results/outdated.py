"""Which trials have no finished row yet, and which rows were made by other code than the current version."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from kmdr.config.task import Task, code_identity, current_code, data_of

# The columns that `mixed_code` reads.
CODE_COLUMNS = ("study", "reducer", "engine", "dataset", "options", "code_hash", "guests")


def _row_code(row: Mapping[str, str]) -> str:
    return code_identity(row["code_hash"], row["guests"])


def is_stale(row: Mapping[str, str], current: Callable[[str, str, str, str], str] = current_code) -> bool:
    """Return True if a row was computed by other code than the current one.

    Also if its code is not available now, but then no task asks for it. ``current`` is `current_code` or a cache of it.
    """
    return _row_code(row) != current(row["reducer"], row["engine"], row["dataset"], row["options"])


def unfinished_tasks(tasks: Iterable[Task], rows: Iterable[Mapping[str, str]], refresh: bool = False) -> list[Task]:
    """Return the tasks that have values of r without a finished row, restricted to these r.

    A failed row is not finished, so the same command tries it again. For tasks with serial timing, only rows with
    concurrency 1 count.

    ``rows`` are the merged table. With ``refresh``, rows of older code do not count either.
    """
    done: dict[tuple[str, str, str], dict[int, bool]] = {}
    current = cache(current_code)
    for row in rows:
        if row["status"] == "ok" and not (refresh and is_stale(row, current)):
            trial = done.setdefault((row["study"], row["config_hash"], row["repeat"]), {})
            trial[int(row["r"])] = row["concurrency"] == "1"
    unfinished = []
    for task in tasks:
        is_serial = done.get((task.study, task.config_hash, str(task.repeat)), {})
        sizes = tuple(r for r in task.r_grid if r not in is_serial or (task.serial and not is_serial[r]))
        if sizes:
            unfinished.append(task.restricted(sizes))
    return unfinished


def _dataset_name(title: str, options: str) -> str:
    try:
        return data_of(title, options)[0]
    except (ValueError, TypeError, AttributeError, RecursionError):  # rows that kmdr did not write
        return title


def mixed_code(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each study and reducer whose rows on one dataset come from several versions of the code.

    ``rows`` may be the distinct values in `CODE_COLUMNS`. Rows of older versions, which have no ``code_hash``, count as
    one version. A plugin with a metric is part of the code of all rows that it scored.
    """
    codes: dict[tuple[str, str, str, str, str], set[str]] = {}
    dataset_name = cache(_dataset_name)
    for row in rows:
        name = dataset_name(row["dataset"], row["options"])
        key = (row["study"], row["reducer"], row["engine"], row["dataset"], name)
        codes.setdefault(key, set()).add(_row_code(row))
    counts: dict[tuple[str, str], int] = {}
    for (study, reducer, *_), hashes in sorted(codes.items()):
        if len(hashes) > 1:
            counts[study, reducer] = max(counts.get((study, reducer), 0), len(hashes))
    return [
        f"{study}: the rows of {reducer} were made by {count} versions of the code that computes them; run the "
        "same command with --refresh to compute the older ones again"
        for (study, reducer), count in sorted(counts.items())
    ]


def outdated_code(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each study with reducers that, on some dataset, have only rows of older code."""
    current = cache(current_code)
    codes: dict[tuple[str, ...], set[bool]] = {}
    for row in rows:
        key = row["study"], row["reducer"], row["engine"], row["dataset"], row["options"]
        codes.setdefault(key, set()).add(is_stale(row, current))
    names: dict[str, set[str]] = {}
    for (study, reducer, *_), stale in codes.items():
        if stale == {True}:
            names.setdefault(study, set()).add(reducer)
    return [
        f"{study}: the rows of {', '.join(sorted(reducers))} were made by an older version of the code; run the same "
        "command with --refresh to compute them again"
        for study, reducers in sorted(names.items())
    ]
