"""Merge the facts of results folders: tables in ``facts`` that were computed from data instead of by trials.

A fact that several folders have from the same data, rows and code must have the same values in all. So must the lines
of a fact that was made from no rows, such as the traits of matrices, for the same dataset. Times may differ. As for
rows, a contradiction is refused; between different platforms it is a warning, because a rounding difference may lead
a computation elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.text import counted, tell
from kmdr.results.checksums import UNKNOWN, read_note, write_table
from kmdr.results.csv_lines import table_bytes
from kmdr.results.folder import has_file, list_contents, require_file
from kmdr.results.reader import fact_texts
from kmdr.results.store import Store

# The columns that identify a line of a fact that was made from no rows, if it has them.
_KEY = ("dataset", "form", "method", "r")
# Relative difference that counts as rounding.
_NEAR = 1e-6


def _facts(folder: Path) -> list[Path]:
    return [file for file in list_contents(folder, "facts") if file.suffix == ".csv"]


def _made_from(folder: Path, file: Path) -> str:
    return read_note(folder, file).made_from or UNKNOWN


def _key(table: pd.DataFrame) -> list[str]:
    """Return the columns that identify a line; empty if the lines of a fact are only understood together."""
    return [name for name in _KEY if name in table] if "dataset" in table else []


def _keys(table: pd.DataFrame) -> pd.Series:
    return pd.Series(list(zip(*(table[name] for name in _key(table)), strict=True)), index=table.index, dtype=object)


def _is_equal(first: str, second: str) -> bool:
    """Return True if two values are the same text, or numbers that differ by rounding."""
    if first == second:
        return True
    try:
        return bool(np.isclose(float(first), float(second), rtol=_NEAR, atol=0, equal_nan=True))
    except ValueError:
        return False


def _difference(known: pd.DataFrame, new: pd.DataFrame) -> str:
    """Return the first difference between two tables with the same columns, except times; empty if there is none."""
    if len(known) != len(new):
        return f"{len(known)} and {counted(len(new), 'line')}"
    for name in known:
        if "seconds" in str(name):
            continue
        pairs = zip(known[name], new[name], strict=True)
        if differing := next((pair for pair in pairs if not _is_equal(*pair)), None):
            return f"{name} {differing[0][:50]} → {differing[1][:50]}"
    return ""


def _contradiction(known: pd.DataFrame, new: pd.DataFrame, is_united: bool) -> str:
    """Return the first difference between a fact of two folders; empty if they agree, or have other columns.

    If ``is_united``, only lines with the same key are compared, because the lines of both are kept.
    """
    if [*known] != [*new]:
        return ""
    if not is_united:
        return _difference(known, new)
    if not _key(known):
        return ""
    lines = [dict(list(table.groupby(_keys(table), sort=False))) for table in (known, new)]
    for key in (key for key in lines[0] if key in lines[1]):
        if difference := _difference(lines[0][key], lines[1][key]):
            return f"{', '.join(key)}: {difference}"
    return ""


def check_facts(folders: Sequence[Path], is_same_platform: Callable[[int, int], bool]) -> None:
    """Compare the facts that folders share, of which the first folder's are kept; report those with other columns.

    ``is_same_platform`` says whether two folders, by their numbers, were computed on one platform. Raise `UserError` if
    a fact has other values in two folders of one platform.
    """
    for second, later in enumerate(folders):
        for first, file, is_united in _shared(folders[:second], later):
            earlier, name = folders[first], file.relative_to(later)
            tables = fact_texts(earlier, earlier / name), fact_texts(later, file)
            if is_united and [*tables[0]] != [*tables[1]]:
                tell(
                    f"kmdr: warning: {name} has other columns in {earlier} than in {later}, as of another version of "
                    f"kmdr; only {earlier}'s is kept"
                )
            if not (difference := _contradiction(*tables, is_united)):
                continue
            sentence = f"{name} has other values in {earlier} than in {later} ({difference})"
            if is_same_platform(first, second):
                raise UserError(f"{sentence}, so nothing is merged; remove the wrong one, which a run computes again")
            tell(f"kmdr: warning: {sentence}, computed on another platform; {earlier}'s is kept")


def _shared(earlier: Sequence[Path], folder: Path) -> Iterator[tuple[int, Path, bool]]:
    """Yield the facts of a folder that earlier ones have from the same, and whether the lines of both are kept.

    The others are computed again by a run.
    """
    for file in _facts(folder):
        name, made_from = file.relative_to(folder), _made_from(folder, file)
        for number, other in enumerate(earlier):
            if has_file(other, other / name) and _made_from(other, other / name) == made_from:
                yield number, file, made_from == UNKNOWN


def take_facts(folder: Path, store: Store) -> None:
    """Copy the facts that the store has not; a run computes them again if they were made from other rows.

    A fact that was made from no rows, such as the traits of matrices, gets the lines that it lacks.
    """
    for file in _facts(folder):
        target = store.folder / file.relative_to(folder)
        made_from = _made_from(folder, file)
        if not has_file(store.folder, target):
            write_table(store.folder, target, require_file(folder, file), made_from)
        elif made_from == _made_from(store.folder, target) == UNKNOWN:
            known, new = fact_texts(store.folder, target), fact_texts(folder, file)
            if _key(known) and [*known] == [*new]:
                more = new[~_keys(new).isin(_keys(known))]
                if not more.empty:
                    write_table(store.folder, target, table_bytes(pd.concat([known, more])))
