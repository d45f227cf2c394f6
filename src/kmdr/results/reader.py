"""The reader of a results folder, which every command uses. The folder may come from a stranger.

A table of rows is read in steps: bytes of a regular file within the folder (`kmdr.results.table_stream` limits their
number) → columns of text, a block of rows at a time → checked rows (`kmdr.results.row_check`) → either rows of text
(`kmdr.results.text_rows`), for commands that write a table again, or a typed frame (`kmdr.results.typed_rows`), for
those that compute. `kmdr.results.json_files` reads the others.
"""

import csv
import io
import json
import lzma
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.private_paths import paths_in
from kmdr.base.text import canonical, first_few, tell
from kmdr.config.task import SETTINGS
from kmdr.results.checksums import has_checksum, with_checksum, without_checksum
from kmdr.results.csv_lines import complete_lines
from kmdr.results.folder import file_size, file_status, has_file, list_contents, require_file
from kmdr.results.paths import MULTIVERSE, place
from kmdr.results.row_check import RowCheck
from kmdr.results.schema import COLUMNS, JSON_COLUMNS, NUMBERS
from kmdr.results.table_stream import check_rows, most_bytes, open_table, refuse_zeros, too_large
from kmdr.results.text_rows import TextRow, add_ratios, csv_content
from kmdr.results.typed_rows import TextColumn
from kmdr.results.untrusted_text import PATH_COLUMNS, display_text, for_display, parse_json, public_text

_ROWS = 20_000  # rows that are parsed at a time
_MAX_COLUMNS = 1000
_MAX_FACT_ROWS = 10_000_000
_REPORT_FOLDERS = ("facts", "figures", "tables", "report")
_REMEDY = "get the folder again, or run the study again"
# Columns that were added after version 0.1.
_LATER_COLUMNS = (*SETTINGS, "code_hash", "metrics", "guests", "machine")
_CHECKSUM_SINCE = "code_hash"  # the column that was added together with the checksum of task files
# Bytes of a task file, which has one row for each r of a grid.
MOST_TASK = 1 << 23


def check_places(folder: Path) -> None:
    """Refuse a folder whose subfolders, which a report reads and writes, are links or files.

    Raises
    ------
    UserError
        Also if the folder itself is not one.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is not a folder; name the folder of results that holds rows.csv")
        for name in (*_REPORT_FOLDERS, MULTIVERSE):
            status = file_status(folder, name)
            if status and not stat.S_ISDIR(status.st_mode):
                raise UserError(f"{folder / name} is not a folder of {folder} itself but a link or a file; remove it")
    except OSError as error:  # permissions
        raise UserError(f"{folder} cannot be read ({error.strerror}); name another folder of results") from error


# -- blocks of text --------------------------------------------------------------------------------------------------


def _read_header(file: BinaryIO, path: Path) -> list[str]:
    line = file.readline().decode("utf-8-sig").rstrip("\r\n")
    names = next(csv.reader([line]), [])
    if not names:
        raise DamagedError(f"{path} is damaged: it cannot be read as a CSV file (it is empty); {_REMEDY}")
    if len(names) > _MAX_COLUMNS:
        raise DamagedError(f"{path} has {len(names)} columns, unlike any table that kmdr writes; {_REMEDY}")
    for i, text in enumerate(names):
        if text in names[:i]:
            raise DamagedError(f"{path} has the column {display_text(text)[:50]!r} twice; {_REMEDY}")
    return names


def _csv_blocks(file: BinaryIO, path: Path, rows: int, *, complete: bool, **options: Any) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV file, at most ``rows`` at a time; ``options`` are for `pandas.read_csv`.

    If ``complete``, a line of fewer fields than columns is an error; else the absent fields are empty.
    """
    try:
        names = _read_header(file, path)
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):  # of superfluous fields
            blocks: Any = pd.read_csv(
                complete_lines(file, path, len(names)) if complete else file, header=None, names=names,
                index_col=False, keep_default_na=False, chunksize=rows, **options,
            )  # fmt: skip
            yield from blocks
    except UserError:
        raise
    except pd.errors.EmptyDataError:  # nothing after the first line
        yield pd.DataFrame(columns=names)
    except (ValueError, OverflowError, csv.Error, pd.errors.ParserWarning) as error:
        reason = display_text(str(error)).strip()[:200]
        raise DamagedError(
            f"{path} is damaged: it cannot be read as a CSV file in UTF-8 ({reason}); {_REMEDY}"
        ) from error


def _text_blocks(file: BinaryIO, path: Path, *, exact: bool) -> Iterator[pd.DataFrame]:
    """Yield blocks of a table as text, with all `COLUMNS`; those that an older version lacks are empty.

    If ``exact``, columns that this version does not know are an error; else they are ignored.
    """
    count = 0
    for block in _csv_blocks(file, path, _ROWS, complete=False, dtype=object):
        unknown = sorted({*block} - {*COLUMNS})
        if unknown and exact:
            names = first_few([repr(name[:30]) for name in unknown])  # may be private text of another file
            raise UserError(
                f"{path} has other columns than this version of kmdr ({names}); move it away or use another out folder"
            )
        if absent := [name for name in COLUMNS if name not in block and name not in _LATER_COLUMNS]:
            raise DamagedError(f"{path} is damaged: it lacks {', '.join(absent)} of a table of rows; {_REMEDY}")
        count += len(block)
        check_rows(count, path)
        yield block.assign(**{name: "" for name in _LATER_COLUMNS if name not in block})[list(COLUMNS)]


# -- rows of text ----------------------------------------------------------------------------------------------------


def _text_rows(
    file: BinaryIO, path: Path, check: RowCheck, *, strict: bool, private: set[str] | None = None
) -> Iterator[TextRow]:
    """Yield the rows of an open table that are not refused; if ``strict``, a refused row is an error."""
    for block in _text_blocks(file, path, exact=True):
        columns = {name: block[name].tolist() for name in COLUMNS}
        faults, _ = check.faults(columns)
        if faults and strict:
            raise DamagedError(f"{path} is damaged: a row has {faults[min(faults)]}")
        for name in PATH_COLUMNS:
            public = {text: public_text(name, text) for text in {*columns[name]}}
            if private is not None:
                private.update(text for text in public if public[text] != text)
            columns[name] = [public[text] for text in columns[name]]
        rows = map(TextRow, zip(*columns.values(), strict=True))
        yield from (row for number, row in enumerate(rows) if number not in faults) if faults else rows


def table_rows(path: Path, check: RowCheck | None = None, private: set[str] | None = None) -> Iterator[TextRow]:
    """Yield the rows of a table as text; see `read_rows`."""
    with open_table(path.parent, path.name) as file:
        if file is None:
            raise DamagedError(f"there is no {path}; name a folder of results")
        yield from _text_rows(file, path, check or RowCheck(path.parent), strict=check is None, private=private)


def read_rows(path: Path, check: RowCheck | None = None, private: set[str] | None = None) -> list[TextRow]:
    """Return the rows of a table, compressed or not, as text.

    A compressed table has no ``objective_ratio``; it is computed from these rows.

    ``check`` counts the refused rows, which are omitted; without it, a refused row is an error. Texts that state
    private paths, as older versions wrote them, are added to ``private`` and shortened in the rows.

    Raises
    ------
    DamagedError
        If it is not a table, or all of its rows are refused.
    UserError
        If it has a column that this version does not know.
    """
    rows = list(table_rows(path, check, private))
    if check and check.refused and not rows:
        raise DamagedError(f"{path} is damaged: no row is valid; {check.sentences(path)[0]}")
    if path.suffix == ".xz" and not any(row["objective_ratio"] for row in rows):
        add_ratios(rows)
    return rows


def read_task(folder: Path, path: Path) -> list[TextRow]:
    """Return the rows of a task file.

    Raises
    ------
    DamagedError
        If it is truncated, differs from its checksum, lacks a checksum that its version wrote, has a refused row, or
        has rows of another task than its path names.
    UserError
        If it has a column that this version does not know.
    """
    return parse_task(require_file(folder, path, MOST_TASK), folder, path, RowCheck(folder))


def parse_task(
    content: bytes, folder: Path, path: Path, check: RowCheck, private: set[str] | None = None
) -> list[TextRow]:
    """Return the rows in the content of a task file, as `read_task` does."""
    content = _checked_task(content, path)
    rows = list(_text_rows(io.BytesIO(content), path, check, strict=True, private=private))
    _check_path(rows, folder, path)
    return rows


def parse_tasks(contents: Mapping[Path, bytes], folder: Path, check: RowCheck) -> Iterator[list[TextRow] | str]:
    """Yield the rows of each task file, as `parse_task` returns them, or the sentence on its damage.

    Files that are exactly what this version writes are parsed together, in a tenth of the time.
    """
    with suppress(DamagedError):
        yield from _parsed_together(contents, folder, check)
        return
    for path, content in contents.items():
        try:
            yield parse_task(content, folder, path, check)
        except DamagedError as error:
            yield str(error)  # the error itself would keep what was read


def _parsed_together(contents: Mapping[Path, bytes], folder: Path, check: RowCheck) -> list[list[TextRow]]:
    """Return the rows of task files that this version wrote; raise `DamagedError` if any of them is another file."""
    plain = {path: _checked_task(content, path) for path, content in contents.items()}
    header = csv_content([], folder)
    joined = header + b"".join(content.removeprefix(header) for content in plain.values())
    rows = _text_rows(io.BytesIO(joined), folder / "tasks", check, strict=True)
    parsed = [list(islice(rows, content.count(b"\n") - 1)) for content in plain.values()]
    for (path, content), of_task in zip(plain.items(), parsed, strict=True):
        if csv_content(of_task, path) != content:  # it may have other rows if it is parsed by itself
            raise DamagedError(f"{path} was not written by this version of kmdr")
        _check_path(of_task, folder, path)
    return parsed


def _checked_task(content: bytes, path: Path) -> bytes:
    """Return the content of a task file without its checksum; raise `DamagedError` if it is damaged."""
    if not content.endswith(b"\n"):  # all versions wrote it
        raise DamagedError(f"{path} is damaged: its last line is truncated")
    if has_checksum(content):
        content = without_checksum(content, path)
    elif _CHECKSUM_SINCE.encode() in content.partition(b"\n")[0].split(b","):
        raise DamagedError(f"{path} is damaged: its checksum is missing")
    refuse_zeros(content, path)
    return content


def _check_path(rows: Iterable[TextRow], folder: Path, path: Path) -> None:
    """Raise `DamagedError` if the rows are of another task than their path names."""
    name = str(path.relative_to(folder))
    if not all(name.startswith(f"{place(row)}-") for row in rows):
        raise DamagedError(f"{path} is damaged: its rows do not belong to the task that its path names")


def size_of_rows(content: bytes) -> int:
    """Return the bytes of the rows in a task file, without its header and checksum, which a merged table has once."""
    checksum = len(with_checksum(b"")) if has_checksum(content) else 0
    return len(content) - len(content.partition(b"\n")[0]) - 1 - checksum


def stated_paths(table: Path) -> set[str]:
    """Return the paths of the user's files that a table states, as older versions wrote them."""
    texts: set[str] = set()
    paths: set[str] = set()
    for _ in table_rows(table, RowCheck(table.parent), texts):
        pass
    for text in texts:
        with suppress(ValueError, RecursionError, AttributeError):
            paths.update(paths_in(json.loads(text)))
    return paths


def public_content(folder: Path, path: Path) -> bytes:
    """Return the content of a table or task file without the private paths that an older version wrote into it.

    Refused rows of a table are reported on stderr and omitted.

    Raises
    ------
    UserError
        As `read_rows` and `read_task` do.
    """
    check, private = RowCheck(folder), set[str]()
    content = require_file(folder, path, most_bytes())
    if path.parent != folder:
        rows = parse_task(content, folder, path, check, private)
        return with_checksum(csv_content(rows, path)) if private else content
    rows = read_rows(path, check, private)
    for sentence in check.sentences(path):
        tell(f"kmdr: warning: {sentence}")
    if not check.refused and not private:
        return content
    content = csv_content(rows, path)
    return lzma.compress(content, check=lzma.CHECK_SHA256) if path.suffix == ".xz" else content


# -- typed frame -----------------------------------------------------------------------------------------------------


def _displayed(column: str, text: str) -> str:
    """Return the text of a column as it is shown.

    JSON is decoded before it is cleaned, because it may escape control characters. In ``options`` and ``metrics``,
    empty text means none or unknown; in ``kmeans``, the empty object.
    """
    if column not in JSON_COLUMNS:
        return public_text(column, display_text(text))
    if not text and column != "kmeans":
        return ""
    return public_text(column, canonical(for_display(parse_json(text or "{}"))))


def _whole_numbers(texts: "pd.Series[Any]") -> NDArray[Any]:
    """Return integers if each text is one and none is too large, else floats."""
    try:
        return np.asarray(texts.astype("int64"))
    except (ValueError, OverflowError):
        return np.array([float(text or "nan") for text in texts])


def read_frame(folder: Path, table: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return the valid rows of a table as a typed frame, and sentences on the refused ones.

    Text columns are categories (see `kmdr.results.typed_rows`); text is never converted (a reducer may be called
    ``nan``). Missing numbers are NaN. ``objective_ratio`` is computed from these rows.

    Raises
    ------
    UserError
        If there are none, or the file is not a table of rows.
    """
    texts = {name: TextColumn() for name in COLUMNS if name not in NUMBERS}
    numbers: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS if name in NUMBERS}
    check, count = RowCheck(folder), 0
    with open_table(folder, table.name) as file:
        if file is None:
            raise UserError(
                f"there is no {table}, so {folder} has no rows; run a study into it first, or name the folder that "
                "holds rows.csv"
            )
        for block in _text_blocks(file, table, exact=False):
            count += len(block)
            faults, floats = check.faults({name: block[name].tolist() for name in COLUMNS})
            valid = np.ones(len(block), dtype=bool)
            valid[list(faults)] = False
            rows = _with_settings(block[valid] if faults else block, check)
            for name, column in texts.items():
                column.add(rows[name], partial(_displayed, name))
            for name, parts in numbers.items():
                parts.append(floats[name][valid] if name in floats else _whole_numbers(rows[name]))
    if not count:
        raise UserError(f"{table} has no rows; expected at least one trial; run the study first")
    refused = check.sentences(table)
    if check.refused == count:
        raise UserError(f"{table} has no valid row: {refused[0]}; {_REMEDY}")
    rows = pd.DataFrame(
        {
            name: texts.pop(name).categorical()  # each column is freed once it is copied
            if name in texts
            else np.concatenate([part for part in numbers.pop(name) if len(part)])
            for name in COLUMNS
        },
        copy=False,
    )
    least = rows.groupby(["data_sha256", "k"])["objective"].transform("min")
    return rows.assign(objective_ratio=rows["objective"] / least.where(least > 0)), refused


def _with_settings(rows: pd.DataFrame, check: RowCheck) -> pd.DataFrame:
    """Fill the columns of settings in rows that were written before these columns were added."""
    configs = rows[["config_hash", "engine"]].drop_duplicates()
    pairs = configs.itertuples(index=False, name=None)
    settings = {key: columns for key, engine in pairs if (columns := check.settings(key, engine))}
    if settings:
        filled = pd.DataFrame.from_dict(settings, orient="index").astype(str).reindex(rows["config_hash"])
        older = (rows["engine"] == "").to_numpy() & filled["engine"].notna().to_numpy()
        rows = rows.assign(**{str(name): rows[name].where(~older, filled[name].to_numpy()) for name in filled})
    unknown = rows["options"] == ""
    if not unknown.any() or unknown.all():
        return rows
    # The options of a dataset follow from the content of its data, so other rows of the same data have the same.
    key = ["dataset", "data_sha256"]
    known = rows.loc[~unknown, [*key, "options"]].drop_duplicates()
    options = known[~known.duplicated(key, keep=False)].set_index(key)["options"]
    options = options.reindex(pd.MultiIndex.from_frame(rows[key])).fillna("")
    return rows.assign(options=rows["options"].where(~unknown, options.to_numpy()))


# -- facts -----------------------------------------------------------------------------------------------------------


def _read_fact(folder: Path, name: str, **options: Any) -> pd.DataFrame | None:
    """Return a fact by its path within a folder; ``options`` are for `pandas.read_csv`. None if it was not computed."""
    with open_table(folder, name) as file:
        blocks = list(_csv_blocks(file, folder / name, _MAX_FACT_ROWS, complete=True, **options)) if file else []
    return pd.concat(blocks, ignore_index=True) if blocks else None


def fact_of(facts: Path, name: str) -> pd.DataFrame | None:
    """Return a fact from the subfolder ``facts``, its texts as `display_text`; None if it was not computed.

    Raises
    ------
    DamagedError
        If it differs from its checksum or is not a table.
    """
    fact = _read_fact(facts.parent, f"{facts.name}/{name}.csv")
    if fact is None:
        return None
    texts = fact.select_dtypes(exclude=["number", "bool"]).columns
    return fact.assign(**{str(column): fact[column].astype(str).map(display_text) for column in texts})


def fact_texts(folder: Path, path: Path) -> pd.DataFrame:
    """Return the fact in a file, each value as its text.

    Raises
    ------
    DamagedError
        If it differs from its checksum or is not a table.
    """
    fact = _read_fact(folder, path.relative_to(folder).as_posix(), dtype=object)
    return pd.DataFrame() if fact is None else fact


def facts_of(folder: Path) -> dict[str, pd.DataFrame | UserError]:
    """Return all facts of a folder by name, with the error in the place of one that cannot be read.

    Together they may be as large as one table (`kmdr.results.table_stream.most_bytes`).
    """
    facts: dict[str, pd.DataFrame | UserError] = {}
    size, most = 0, most_bytes()
    for path in list_contents(folder, "facts"):
        if path.parent != folder / "facts" or path.suffix != ".csv" or not has_file(folder, path):
            continue
        try:
            size += file_size(folder, path, most)
            if size > most:
                raise too_large(path.parent, f"at least {size}", most)
            fact = fact_of(path.parent, path.stem)
        except UserError as error:
            facts[path.stem] = error
        else:
            if fact is not None:
                facts[path.stem] = fact
    return facts
