"""Options of a custom data file: each is declared once, with its type, default, valid values and help text."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError, not_one_of

AUTO = "auto"
"""The value of an option that is determined from the file."""
NO_LABELS = "none"
"""The value of option ``labels`` that ignores the labels in a file."""
SEPARATORS: Mapping[str, str] = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": r"\s+"}
DECIMALS: Mapping[str, str] = {"point": ".", "comma": ","}

FORMATS = (
    "csv", "tsv", "xlsx", "parquet", "npz", "npy", "mat", "mtx", "hdf5", "svmlight", "images", "parts", "zarr",
    "arff", "json", "stata", "r", "idx", "vectors", "docword", "feather",
)  # fmt: skip
_TEXT = ("csv", "tsv")
_LABEL_EXTENSIONS = {".npy", ".mat", ".idx", ".txt", ".csv", ".tsv", ".parquet", ".pq", ".xlsx", ".gz", ".bz2", ".xz"}
_TABLES = (*_TEXT, "xlsx", "parquet", "arff", "json", "stata", "r", "feather")
_ARRAYS = ("npz", "mat", "hdf5", "zarr")
_WITH_COLUMNS = tuple(name for name in FORMATS if name != "images")


def _option(
    default: Any, text: str, formats: Sequence[str] = FORMATS, choices: Sequence[str] | Mapping[str, str] = ()
) -> Any:
    """Declare an option of the type of its default, with the formats that it applies to.

    `text` is shown by ``kmdr --help`` and in ``datasets/README.md``; only the registry sets options without it.
    `choices` are the valid values, or the name that is kept for each; these names are valid too.
    """
    names = choices if isinstance(choices, Mapping) else dict(zip(choices, choices, strict=True))
    metadata = {"text": text, "formats": formats, "choices": names}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class FileOptions:
    """Options of a custom data file. Values are checked and normalised: a separator, say, is kept by its name."""

    path: Sequence[str | Path] = _option(
        [],
        "the file, or a folder: of images, of parts of a matrix (npy, parquet), a Zarr store; several svmlight files "
        "are read as one",
    )
    labels: str | Sequence[str] = _option(
        "",
        "a file with the labels only: npy, mat, idx, text with one label per line (may be gz), or a table; FILE:COLUMN "
        "for a column of it; or the name of a column of the data, as in label; a list of several gives P, NMI and ARI "
        "against each and the best; none ignores the labels in the data file",
    )
    noise: str = _option(
        "",
        "the label of noise: its points stay in the data, but do not count in P, NMI, ARI and the number of classes; "
        "nan: points without a label",
    )
    label: str = _option(
        "",
        "the column, variable or array of the labels; by default one with a usual name; labels are compared as written",
        (*_TABLES, *_ARRAYS, "parts"),
    )
    format: str = _option("", f"{', '.join(FORMATS)}; by default determined from the extension")
    k: int = _option(0, "number of clusters; by default the number of classes")
    title: str = _option("", "name of the data in rows and figures; by default the name of the file")
    copy: bool = _option(False, "true: copy an npy file into the cache instead of mapping it")
    max_gb: float = _option(
        0.5, "gigabytes of memory that a compressed file may take, if that is more than 20 times its size"
    )
    matrix: str = _option(
        "",
        "the variable, array or sheet that holds the points, in mat, npz, hdf5, zarr, xlsx and r",
        ("xlsx", "r", *_ARRAYS),
    )
    columns: Sequence[str] = _option(
        [], "keep only these columns, by name, or by number from 0 if they have no names", _WITH_COLUMNS
    )
    drop: Sequence[str] = _option([], "omit these columns", _WITH_COLUMNS)
    separator: str = _option(
        AUTO,
        "separator of the cells of a text: comma, semicolon, tab, bar, space; auto determines it",
        _TEXT,
        {AUTO: AUTO, **{sign: name for name, sign in SEPARATORS.items()}, "\\t": "tab", " ": "space"},
    )
    header: str = _option(
        AUTO,
        "whether the first line names the columns: true, false; auto determines it, or asks if it may be a point",
        (*_TEXT, "xlsx"),
        (AUTO, "true", "false"),
    )
    decimal: str = _option(
        AUTO,
        "decimal sign of a text: point, comma; auto determines it",
        _TEXT,
        {AUTO: AUTO, **{sign: name for name, sign in DECIMALS.items()}},
    )
    encode: str = _option(
        "none",
        "columns of text: none refuses them, onehot makes one column of 0 and 1 for each value",
        _TABLES,
        ("none", "onehot"),
    )
    missing: str = _option(
        "refuse",
        "missing values: refuse them, replace them by the mean of the column, or drop the row",
        _WITH_COLUMNS,
        ("refuse", "mean", "drop"),
    )
    scale: str = _option(
        "none",
        "columns: standard (mean 0, standard deviation 1), minmax (0 to 1); unit means rows=unit",
        _WITH_COLUMNS,
        ("none", "unit", "standard", "minmax"),
    )
    size: Sequence[int] = _option(
        [0, 0], "height and width to which images are scaled; [0, 0] keeps them, so they must be alike", ("images",)
    )
    d: int = _option(0, "", ("svmlight",))

    def __post_init__(self) -> None:
        """Check and normalise all values."""
        for option in fields(self):
            value = checked_option(option.name, getattr(self, option.name), f"option {option.name}")
            object.__setattr__(self, option.name, value)

    @property
    def paths(self) -> list[Path]:
        """The files or the folder to read."""
        return list(map(Path, self.path))

    @property
    def labelings(self) -> list[str]:
        """The files and columns of the reference labelings; empty unless option ``labels`` names some."""
        return labelings_of(self.labels)

    def refuse_inapplicable(self, kind: str, file: str) -> None:
        """Refuse an option that is set but does not apply to a format."""
        for option in fields(self):
            formats = option.metadata["formats"]
            if kind not in formats and getattr(self, option.name) != _default(option):
                raise UserError(
                    f"option {option.name} does not apply to {file}, which is read as {kind}, only to "
                    f"{', '.join(formats)}; remove it"
                )


def _default(option: Field[Any]) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


_FIELDS = {option.name: option for option in fields(FileOptions)}
TEXTS: Mapping[str, str] = {
    name: option.metadata["text"] for name, option in _FIELDS.items() if option.metadata["text"]
}
"""The help text of each option that a user can set."""
DEFAULTS: Mapping[str, Any] = {name: _default(_FIELDS[name]) for name in TEXTS}
# These are always part of the identity of a prepared folder, later options only if they are set, so that folders
# prepared before there were more options remain valid.
IDENTIFYING = ("path", "labels", "label", "format", "k", "title", "copy", "max_gb")


def checked_option(name: str, value: Any, what: str) -> Any:
    """Return the value of an option as it is kept, a sign or a column's number by its name; errors call it `what`."""
    option = _FIELDS[name]
    value = str(value) if isinstance(value, Path) else value
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = [_as_text(entry) if name in ("path", "columns", "drop", "labels") else entry for entry in value]
    elif name in ("columns", "drop", "matrix", "label", "labels"):
        value = _as_text(value)
    elif name == "noise":
        value = label_of_noise(value)
    if choices := option.metadata["choices"]:
        text = str(value).lower() if isinstance(value, bool) else value
        if not isinstance(text, str) or text not in {*choices, *choices.values()}:
            raise not_one_of(f"dataset.{name}", value, dict.fromkeys(choices.values()))
        value = choices.get(text, text)
    if name == "labels" and isinstance(value, list):
        value = convert([], value, what)
        if NO_LABELS in value and len(value) > 1:
            raise UserError(f"{what} is {value!r}; {NO_LABELS} ignores all labels, so remove it or the others")
        return value if len(value) > 1 else "".join(value)
    return convert(_default(option), value, what)


def labelings_of(labels: str | Sequence[str]) -> list[str]:
    """Return the value of option ``labels`` as a list; empty if it names nothing."""
    return [] if labels in ("", NO_LABELS) else [labels] if isinstance(labels, str) else list(labels)


def label_of_noise(value: Any) -> Any:
    """Return a number or a truth value that marks noise as the text of such a label, and everything else unchanged."""
    value = value.item() if hasattr(value, "item") else value
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


def is_column(labels: str) -> bool:
    """Return whether an entry of option ``labels`` names a column of the data, and no file."""
    return not _is_file(file_and_column(labels)[0])


def file_and_column(labels: str) -> tuple[str, str]:
    """Return the file and its column that an entry of option ``labels`` names as FILE:COLUMN, else the entry and "".

    Examples
    --------
    >>> file_and_column("y.csv:age:sex"), file_and_column("obs:age")
    (('y.csv', 'age:sex'), ('obs:age', ''))
    """
    for at in (at for at, sign in enumerate(labels) if sign == ":" and not _exists(labels)):
        if _is_file(labels[:at]) and labels[at + 1 :]:
            return labels[:at], labels[at + 1 :]
    return labels, ""


def _is_file(name: str) -> bool:
    """Return whether a name has a folder, has the extension of a file of labels, or is the name of a file."""
    path = Path(name)
    return path.name != name or bool({suffix.lower() for suffix in path.suffixes} & _LABEL_EXTENSIONS) or _exists(name)


def _exists(name: str) -> bool:
    # os.path takes a name that is too long for one that does not exist; pathlib raises an error
    return os.path.isfile(name)  # noqa: PTH113


def _as_text(value: Any) -> Any:
    """Return a path or a column's number as text; anything else unchanged."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole or isinstance(value, Path) else value


def convert(default: Any, value: Any, what: str) -> Any:
    """Return a value converted to the type of its default, so that equal values give equal prepared folders."""
    match default:
        case bool():
            good = isinstance(value, bool)
        case int():
            good = isinstance(value, Integral) and not isinstance(value, bool)
        case float():
            good = isinstance(value, Real) and not isinstance(value, bool)
        case [int(), *_]:
            good = isinstance(value, list) and len(value) == len(default)
            good = good and all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in value)
        case list():
            value = [value] if isinstance(value, str) and value else value
            good = isinstance(value, list) and all(isinstance(text, str) and text for text in value)
        case _:
            good = isinstance(value, type(default))
    if not good:
        needed = "a list of texts that are not empty" if default == [] else f"of type {type(default).__name__}"
        raise UserError(f"{what} is {value!r}; it must be {needed}")
    return type(default)(value)
