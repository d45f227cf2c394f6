"""A folder of results as a report reads it: it may come from anybody.

Nothing outside the folder is read or written, files are of bounded size and of one kind, and what they hold is checked
here, once, so that what draws and writes the report can take it as it is.
"""

import csv
import hashlib
import re
import stat
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.files import noted, seal_of
from kmdr.base.private_paths import without_folders
from kmdr.base.text import canonical, tell
from kmdr.config.task import SETTINGS
from kmdr.results.folder import file_status, has_file, read_file
from kmdr.results.schema import COLUMNS, JSON_COLUMNS, NUMBERS, WHOLE_NUMBERS, parse_json
from kmdr.results.store import ASKED, MULTIVERSE, UNIVERSES, older_settings, public_text, row_check, rows_file
from kmdr.results.table import check_rows, open_table

T = TypeVar("T")
_ROWS = 20_000  # rows that are parsed at a time
_MOST_COLUMNS = 1000
_MOST_JSON = 1 << 24
_MOST_FACT = 10_000_000  # rows of a fact
_WRITTEN = ("facts", "figures", "tables", "report")

# Ends of lines, a terminal's commands and changes of direction have no place in a name; half a character has no bytes.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_REMEDY = "get the folder again, or run the study again"


def check_places(folder: Path) -> None:
    """Check that what a report writes goes into the folder, and that all it reads is there.

    Raises
    ------
    UserError
        When the folder is none, or one of those in it that a report writes into, or reads the rows of multiverses from,
        is a link or another kind of file.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is not a folder; name the folder of results that holds rows.csv")
        for name in (*_WRITTEN, MULTIVERSE):
            status = file_status(folder, name)
            if status and not stat.S_ISDIR(status.st_mode):
                raise UserError(f"{folder / name} is not a folder of {folder} itself but a link or a file; remove it")
    except OSError as error:  # permissions
        raise UserError(f"{folder} cannot be read ({error.strerror}); name another folder of results") from error


def one_line(text: str) -> str:
    r"""Return a text with a space for each character that is not shown as itself, such as a line's end.

    Examples
    --------
    >>> one_line("a\nb")
    'a b'
    """
    return _UNPRINTABLE.sub(" ", text)


# -- JSON ------------------------------------------------------------------------------------------------------------


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line(key): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    return value


def json_of(folder: Path, name: str) -> dict[str, Any]:
    """Return what a JSON file of the folder says, its texts as `one_line`; nothing where there is no such file.

    Raises
    ------
    UserError
        When it is not JSON, not an object, or nested too deeply.
    """
    content = read_file(folder, name, _MOST_JSON)
    if content is None:
        return {}
    try:
        value = parse_json(content)
        seal = value.pop("sha256", None) if isinstance(value, dict) else None
        if seal is not None and seal != seal_of(value):
            raise ValueError("not as it was written")
        value = _cleaned(value)
    except ValueError as error:
        reason = one_line(str(error))[:200]
        raise UserError(f"{folder / name} cannot be read as JSON ({reason}); remove it and run again") from error
    if not isinstance(value, dict):
        raise _other_shape(folder, name, "an object")
    return value


def _other_shape(folder: Path, name: str, expected: str) -> UserError:
    return UserError(f"{folder / name} does not hold what kmdr writes there: {expected}; remove it and run again")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def read_or_note(read: Callable[[Path], dict[str, T]], folder: Path, notes: list[str]) -> dict[str, T]:
    """Return what a function reads of a folder; nothing where that is damaged, of which a note is taken."""
    try:
        return read(folder)
    except UserError as error:
        notes.append(without_folders(str(error)))
        return {}


def missing_of(folder: Path) -> dict[str, str]:
    """Return why which datasets could not be had: ``missing.json``."""
    reasons = json_of(folder, "missing.json")
    if not all(isinstance(reason, str) for reason in reasons.values()):
        raise _other_shape(folder, "missing.json", "a sentence for each dataset")
    return {name: without_folders(reason) for name, reason in reasons.items()}


def asked_of(folder: Path) -> dict[str, list[str]]:
    """Return the configurations that each study was last run with."""
    asked = json_of(folder, ASKED)
    if not all(map(_is_texts, asked.values())):
        raise _other_shape(folder, ASKED, "a list of configuration hashes for each study")
    return asked


class Settled(NamedTuple):
    """A universe that was run: its options, and what each of its configurations stands for.

    Attributes
    ----------
    options : tuple of str
    configs : mapping of str to list of str
        By hash: study, dataset and reducer, as the paper's studies name them.
    """

    options: tuple[str, ...]
    configs: dict[str, list[str]]


def universes_of(folder: Path) -> dict[str, list[Settled]]:
    """Return the universes that were run of each paper, in the order of their design."""
    tree = json_of(folder, UNIVERSES)
    sound = all(
        isinstance(universes, list)
        and all(
            isinstance(each, dict)
            and _is_texts(each.get("options"))
            and isinstance(each.get("configs"), dict)
            and all(_is_texts(names) and len(names) == 3 for names in each["configs"].values())
            for each in universes
        )
        for universes in tree.values()
    )
    if not sound:
        raise _other_shape(folder, UNIVERSES, "the options and configurations of each universe of each paper")
    return {
        paper: [Settled(tuple(each["options"]), each["configs"]) for each in universes]
        for paper, universes in tree.items()
    }


def plan_of(folder: Path) -> dict[str, Any]:
    """Return what was asked for: ``plan.json``."""
    plan = json_of(folder, "plan.json")
    studies, budget = plan.get("studies", {}), plan.get("budget_seconds") or 0
    sound = (
        isinstance(budget, int | float)
        and 0 <= budget < 1e12
        and _is_whole(plan.get("tasks_not_begun", 0))
        and isinstance(studies, dict)
        and all(
            isinstance(study, dict)
            and _is_whole(study.get("repeats_planned"))
            and _is_whole(study.get("repeats_full"))
            and study["repeats_full"] > 0
            and _is_texts(study.get("left_out"))
            for study in studies.values()
        )
    )
    if not sound:
        raise _other_shape(folder, "plan.json", "budget_seconds, tasks_not_begun and the repetitions of each study")
    return plan


def environments_of(folder: Path, rows: pd.DataFrame, notes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the manifests of the environments that some rows name, by hash, and note which are damaged."""
    files = {str(key): f"environments/{key}.json" for key in rows["env_hash"].unique()}
    return {key: read_or_note(partial(json_of, name=file), folder, notes) for key, file in files.items()}


# -- tables ----------------------------------------------------------------------------------------------------------


def _read_columns(file: BinaryIO, path: Path) -> list[str]:
    """Read the first line of a CSV file and return the names in it."""
    names = next(csv.reader([file.readline().decode("utf-8-sig").removesuffix("\n")]), [])
    if not names:
        raise UserError(f"{path} cannot be read as a CSV file (it is empty); {_REMEDY}")
    if len(names) > _MOST_COLUMNS:
        raise UserError(f"{path} has {len(names)} columns, unlike any table that kmdr writes; {_REMEDY}")
    for i, text in enumerate(names):
        if text in names[:i]:
            raise UserError(f"{path} has the column {one_line(text)[:50]!r} twice; {_REMEDY}")
    return names


def _blocks(folder: Path, name: str, rows: int, **how: Any) -> Iterator[pd.DataFrame]:
    """Yield a CSV file of the folder, so many rows at a time, as pandas reads it; nothing where there is none.

    Parameters
    ----------
    folder : Path
    name : str
    rows : int
    **how
        Given to `pandas.read_csv`.

    Raises
    ------
    UserError
        When it is not CSV in UTF-8, is too large, a line is too long or a column's name is there twice.
    """
    path = folder / name
    with open_table(folder, name) as file:
        if file is None:
            return
        try:
            names = _read_columns(file, path)
            with warnings.catch_warnings(
                action="error", category=pd.errors.ParserWarning
            ):  # of fields that are dropped
                reader: Any = pd.read_csv(
                    file, header=None, names=names, index_col=False, keep_default_na=False, chunksize=rows, **how
                )
                for block in reader:
                    if block.iloc[:, -1].isna().any() and "dtype" in how:
                        raise UserError(f"{path} has a line with fewer fields than columns; {_REMEDY}")
                    yield block
        except UserError:
            raise
        except pd.errors.EmptyDataError:  # nothing behind the first line
            yield pd.DataFrame(columns=names)
        except (ValueError, OverflowError, csv.Error, pd.errors.ParserWarning) as error:
            reason = one_line(str(error)).strip()[:200]
            raise UserError(f"{path} cannot be read as a CSV file in UTF-8 ({reason}); {_REMEDY}") from error


def _shown(column: str, texts: "pd.Series[Any]") -> "pd.Series[str]":
    """Return texts of a column as they are shown, each distinct one cleaned once."""
    places, values = pd.factorize(texts)
    clean = partial(_shown_json, column) if column in JSON_COLUMNS else one_line
    shown = np.array([public_text(column, clean(text)) for text in values], dtype=object)
    return pd.Series(shown[places], texts.index, dtype="str")


def _shown_json(column: str, text: str) -> str:
    """Return a JSON object whose texts are as `one_line`, in the form in which kmdr writes it.

    It is decoded first and cleaned afterwards, because JSON may escape control characters. Of ``options`` and
    ``metrics``, an empty text says that there are none or that they are unknown; of ``kmeans``, it is the empty object.
    """
    return canonical(_cleaned(parse_json(text or "{}"))) if text or column == "kmeans" else ""


def _whole_numbers(texts: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return whole numbers as integers where each is there and none is too large, else as floats."""
    try:
        return texts.astype("int64")
    except (ValueError, OverflowError):
        return pd.Series([float(text or "nan") for text in texts], texts.index)


def rows_of(folder: Path) -> pd.DataFrame:
    """Return the rows of `sound_rows`, and report on stderr which are refused."""
    rows, refused = sound_rows(folder)
    for sentence in refused:
        tell(f"kmdr: {sentence}")
    return rows


def sound_rows(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return the sound rows of a folder, and sentences on those that are refused.

    Text stays text (a reducer named ``nan`` too), empty numbers are NaN.

    Raises
    ------
    UserError
        When there are none, or the file is not such a table as kmdr writes.
    """
    check_places(folder)
    path = rows_file(folder)
    if not has_file(folder, path):
        raise UserError(
            f"there is no {path}, so {folder} has no rows; run a study into it first, or name the folder that holds "
            "rows.csv"
        )
    later = (*SETTINGS, "code_hash", "metrics", "guests", "machine")  # older versions had fewer columns
    check, blocks, count = row_check(folder), [], 0
    for block in _blocks(folder, path.name, _ROWS, dtype=defaultdict(lambda: str, dict.fromkeys(COLUMNS, object))):
        count += len(block)
        check_rows(count, path)
        rows = block.assign(**{name: "" for name in later if name not in block})
        if absent := [name for name in COLUMNS if name not in rows]:
            raise UserError(f"{path} lacks {', '.join(absent)} of a table of rows; {_REMEDY}")
        rows = _with_settings(rows, folder)
        faults, numbers = check.faults({name: rows[name].tolist() for name in COLUMNS})
        rows = rows.assign(**numbers)
        if faults:
            rows = rows.drop(index=rows.index[list(faults)])
        texts = {name: _shown(name, rows[name]) for name in COLUMNS if name not in NUMBERS}
        blocks.append(rows.assign(**texts, **{name: _whole_numbers(rows[name]) for name in WHOLE_NUMBERS}))
    if not count:
        raise UserError(f"{path} has no rows; expected at least one trial; run the study first")
    refused = check.sentences(path)
    if check.refused == count:
        raise UserError(f"{path} has no row that is sound: {refused[0]}; {_REMEDY}")
    rows = pd.concat([block for block in blocks if len(block)], ignore_index=True)
    least = rows.groupby(["data_sha256", "k"])["objective"].transform("min")
    return rows.assign(objective_ratio=rows["objective"] / least.where(least > 0)), refused


def _with_settings(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Fill the columns of settings of rows that were written before there were such columns."""
    known = rows[["config_hash", "engine"]].drop_duplicates()
    settings = older_settings(folder, known.itertuples(index=False, name=None))
    if settings:
        filled = pd.DataFrame.from_dict(settings, orient="index").astype(str).reindex(rows["config_hash"])
        older = (rows["engine"] == "").to_numpy() & filled["engine"].notna().to_numpy()
        rows = rows.assign(**{str(name): rows[name].where(~older, filled[name].to_numpy()) for name in filled})
    without = rows["options"] == ""
    if not without.any() or without.all():
        return rows
    # The options of a dataset follow from the content of its data: those of other rows of the same data hold for them.
    told = rows.loc[~without, ["dataset", "data_sha256", "options"]].drop_duplicates()
    told = told[~told.duplicated(["dataset", "data_sha256"], keep=False)].set_index(["dataset", "data_sha256"])
    of_rows = told["options"].reindex(pd.MultiIndex.from_frame(rows[["dataset", "data_sha256"]])).fillna("")
    return rows.assign(options=rows["options"].where(~without, of_rows.to_numpy()))


def fact_of(facts: Path, name: str) -> pd.DataFrame | None:
    """Return a fact of a folder's ``facts``, its texts as `one_line`; None where it was not made.

    Raises
    ------
    UserError
        When it is not what the note beside it says, or no table.
    """
    folder, table = facts.parent, f"{facts.name}/{name}.csv"
    blocks = list(_blocks(folder, table, _MOST_FACT))
    if not blocks:
        return None
    fact = pd.concat(blocks, ignore_index=True)
    digest = noted(read_file(folder, f"{facts.name}/{name}.from"))[1]
    if digest and digest != hashlib.sha256(read_file(folder, table) or b"").hexdigest():
        raise UserError(
            f"{folder / table} is damaged: it is not what its note says; 'kmdr reproduce OUT={folder}' computes it "
            "again if its data are available"
        )
    texts = fact.select_dtypes(exclude=["number", "bool"]).columns
    return fact.assign(**{str(column): fact[column].astype(str).map(one_line) for column in texts})
