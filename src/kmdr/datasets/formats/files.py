"""Files of the user's: which reader takes one, what options mean for it, and what is made of it.

`look` says what is in a file; `read` makes a matrix and its classes of it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, unknown
from kmdr.datasets.formats import arrays, hdf5, images, parts, svmlight, tables, treatment, zarr
from kmdr.datasets.formats.reading import COMPRESSED, Content, limit_of, refuse_irregular
from kmdr.datasets.formats.tables import FOUND
from kmdr.datasets.valid import WITHOUT, codes, csr

Loaded = tuple[Any, NDArray[np.int64] | None, tuple[str, ...] | None]
"""A (ndarray or CSR array, n x d), labels (n) counted from 0 or None, names of the features or None."""

_EXTENSIONS = {
    ".npz": "npz", ".npy": "npy", ".mat": "mat", ".csv": "csv", ".data": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".parquet": "parquet", ".pq": "parquet", ".xlsx": "xlsx", ".xlsm": "xlsx", ".mtx": "mtx", ".h5": "hdf5",
    ".hdf5": "hdf5", ".h5ad": "hdf5", ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
}  # fmt: skip
_MAX_GB = 0.5
_TEXT = ("label", "separator", "header", "decimal")
_ARRAY = ("matrix", "label")


def _svmlight(*paths: Path, limit: float, d: int = 0) -> Content:
    A, classes = svmlight.svmlight(*paths, d=d, limit=limit)
    return Content(A, classes, form="svmlight", labelled="the first number of each line")


# The reader of each format, and the options that it takes.
_READERS: Mapping[str, tuple[Callable[..., Content], Sequence[str]]] = {
    "csv": (tables.csv, _TEXT), "tsv": (tables.tsv, _TEXT), "xlsx": (tables.xlsx, ("matrix", "label", "header")),
    "parquet": (tables.parquet, ("label",)), "npz": (arrays.npz, _ARRAY), "npy": (arrays.npy, ()),
    "mat": (arrays.mat, _ARRAY), "mtx": (arrays.matrix_market, ()), "hdf5": (hdf5.hdf5, _ARRAY),
    "svmlight": (_svmlight, ("d",)), "images": (images.images, ("size",)),
    "parts": (parts.parts, ("label", "columns", "drop")), "zarr": (zarr.zarr, _ARRAY),
}  # fmt: skip
# Those that are folders.
_FOLDERS = ("images", "parts", "zarr")
# The formats for which other options mean something: those that are dealt with once the file is read.
_TABLES = ("csv", "tsv", "xlsx", "parquet")
_COLUMNS = tuple(name for name in _READERS if name != "images")
_TREATED = {"encode": _TABLES, "columns": _COLUMNS, "drop": _COLUMNS, "missing": _COLUMNS, "scale": _COLUMNS}
# What options are where nothing is asked of them, beside what is empty.
_UNSET = {
    "separator": FOUND, "header": FOUND, "decimal": FOUND, "encode": "none", "missing": "refuse", "scale": "none"
}  # fmt: skip
_CHOICES: Mapping[str, Mapping[str, str]] = {
    "separator": {FOUND: FOUND, **{sign: name for name, sign in tables.SEPARATORS.items()}, "\\t": "tab", " ": "space"},
    "decimal": {FOUND: FOUND, **{sign: name for name, sign in tables.DECIMALS.items()}},
    **{
        option: dict(zip(names, names, strict=True))
        for option, names in {
            "header": (FOUND, "true", "false"), "encode": ("none", "onehot"),
            "scale": ("none", "unit", "standard", "minmax"), "missing": ("refuse", "mean", "drop"),
        }.items()
    },
}  # fmt: skip


def plain(option: str, value: Any) -> Any:
    """Return the value of an option as it is kept: a sign by its name, a column's number as its name.

    Raises
    ------
    UserError
        It is none of those that there are.
    """
    if option in ("drop", "columns") and isinstance(value, Sequence) and not isinstance(value, str):
        return [str(name) if isinstance(name, int) and not isinstance(name, bool) else name for name in value]
    if option in ("drop", "columns", "matrix", "label") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if option not in _CHOICES:
        return value
    choices = _CHOICES[option]
    text = str(value).lower() if isinstance(value, bool) else value
    if not isinstance(text, str) or text not in {*choices, *choices.values()}:
        raise unknown(f"value of option {option}", value, dict.fromkeys(choices.values()))
    return choices.get(text, text)


def look(
    path: str | Path | Sequence[str | Path],
    *,
    labels: str = "",
    label: str = "",
    format: str = "",  # noqa: A002  the user's name for it
    d: int = 0,
    max_gb: float = _MAX_GB,
    matrix: str = "",
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    separator: str = FOUND,
    header: str = FOUND,
    decimal: str = FOUND,
    encode: str = "none",
    missing: str = "refuse",
    scale: str = "none",
    size: Sequence[int] = (),
) -> Content:
    """Read what is in a file of the user's: the columns that are wanted, as they are, and the labels.

    Parameters and errors are those of `read`; `encode`, `missing` and `scale` are but checked.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(file) for file in path]
    kinds = {format or _format(file) for file in paths}
    kind = next(iter(kinds))
    if kind not in _READERS:
        raise unknown("format of a dataset's file", kind, _READERS)
    if len(paths) > 1 and kinds != {"svmlight"}:
        raise UserError(f"{len(paths)} files were given; only svmlight files may be several, so join them into one")
    first, (reader, takes) = paths[0], _READERS[kind]
    apart = labels not in ("", WITHOUT)  # then label is a column of that file
    given = {
        "label": "" if apart else label, "matrix": matrix, "separator": separator, "header": header, "decimal": decimal,
        "size": size if any(size) else (), "d": d, "encode": encode, "columns": columns, "drop": drop,
        "missing": missing, "scale": scale,
    }  # fmt: skip
    given = {option: value for option, value in given.items() if value and value != _UNSET.get(option)}
    for option in given:
        meant = [name for name, (_, options) in _READERS.items() if option in options] + [*_TREATED.get(option, ())]
        if kind not in meant:
            raise UserError(
                f"option {option} means nothing for {first.name}, which is read as {kind}, only for "
                f"{', '.join(meant)}; leave it out"
            )
    for file in paths:
        refuse_irregular(file, folder=kind in _FOLDERS)
    limit = limit_of(in_folder(first, kind) if kind in _FOLDERS else paths, max_gb)
    content = reader(*paths, limit=limit, **{option: value for option, value in given.items() if option in takes})
    if scipy.sparse.issparse(content.A):
        try:
            content.A = csr(content.A)  # before compiled code takes its parts for granted
        except UserError as error:
            raise UserError(f"{first.name}: {error}") from error
    if not label and "label" in drop and content.labelled == "column 'label'":
        content.labels, drop = None, [name for name in drop if name != "label"]
    if labels == WITHOUT:
        content.labels = None
    elif apart:
        content.labels, content.labelled = tables.label_file(Path(labels), content.A.shape[0], label)
    if "drop" not in takes:
        content = treatment.selected(first, content, columns, drop)
    content.warnings += tuple(tables.doubts(content, first.name))
    if content.labels is not None and (without := int(pd.isna(np.ravel(np.asarray(content.labels))).sum())):
        content.labelled += f", {without} without a label,"
    return content


def read(path: str | Path | Sequence[str | Path], **options: Any) -> Loaded:
    """Read a file of the user's.

    Parameters
    ----------
    path : path or sequence of paths
        The file, a Zarr store, or a folder of images or of parts of a matrix; of svmlight files there may be several,
        whose rows follow each other.
    labels : str
        A second file with the labels: ``.npy``, text of one label a line, with or without a header, or a table;
        ``"none"`` leaves out those of the file.
    label : str
        The column, variable or array that holds the labels, of the file itself or of the one of labels; by default one
        of a known name, where there is one.
    format : str
        One of ``npz npy mat mtx hdf5 svmlight csv tsv parquet xlsx images parts zarr``; by default what the extension
        says, or what a folder holds.
    d : int
        Features of svmlight files; by default as many as occur.
    max_gb : float
        Most gigabytes (10^9 bytes) that the matrix of a compressed file, or one of a claimed shape, may take in memory
        where that is over 20 times the size of the file. A mapped ``.npy`` file may have any size.
    matrix : str
        The variable, array or sheet that holds the points.
    columns, drop : sequence of str
        Columns to keep and to leave out: names, or numbers from 0 where they have none.
    separator, header, decimal : str
        How text is read, names in `tables.SEPARATORS` and `tables.DECIMALS`; found by themselves where they are
        ``"auto"``, or asked for where the first line may name the columns or be a point.
    encode : {"none", "onehot"}
        What becomes of columns of text, by default refused.
    missing : {"refuse", "mean", "drop"}
        What becomes of missing values: the mean of their column, or the row left out.
    scale : {"none", "standard", "minmax"}
        Each column to mean 0 and standard deviation 1, or to the range 0 to 1.
    size : (int, int)
        Height and width to which images are scaled.

    Returns
    -------
    A : ndarray or csr_array of shape (n, d)
        As stored; a ``.npy`` file is mapped, and a folder of parts or of Zarr is a `Streamed`.
    labels : ndarray of shape (n,) or None
        Classes, counted from 0 in their sorted order. Labels of a table are equal where their cells are written alike.
    features : tuple of str or None

    Raises
    ------
    UserError
        The file cannot be read, or not as such a matrix; an option means nothing for it.
    """
    return made(path, look(path, **options), **options)


def made(
    path: str | Path | Sequence[str | Path],
    content: Content,
    *,
    encode: str = "none",
    missing: str = "refuse",
    scale: str = "none",
    **others: Any,
) -> Loaded:
    """Make a matrix and its classes of what `look` found; parameters, result and errors are those of `read`."""
    del others  # which `look` has heeded
    first = Path(path if isinstance(path, str | Path) else path[0])
    A, labels, features = content.A, content.labels, content.features
    if isinstance(A, pd.DataFrame):
        A, features = treatment.numbers(first.name, A, encode)
    treatment.refuse_sparse(first, A, scale, missing)
    names = features or tuple(treatment.names_of(content))
    A, labels = treatment.complete(first, A, labels, missing, names)
    A = treatment.scaled(first, A, scale)
    return A, None if labels is None else codes(labels, first.name), features


def in_folder(folder: Path, kind: str = "") -> list[Path]:
    """Return the files of the user's that a folder is read from.

    Parameters
    ----------
    folder : Path
    kind : str, optional
        What it is read as; by default what it holds.

    Raises
    ------
    UserError
        There are none, or not of one kind.
    """
    kind = folder_kind(folder, kind)
    if kind == "zarr":
        return zarr.files_of(folder)
    return [*parts.in_folder(folder), *parts.labels_in(folder)] if kind == "parts" else images.in_folder(folder)


def folder_kind(folder: Path, kind: str = "") -> str:
    """Return what a folder is read as: as what is given, else as images where it holds one."""
    if kind or zarr.is_store(folder):
        return kind or "zarr"
    return "parts" if not images.listed(folder) and parts.in_folder(folder) else "images"


def _format(path: Path) -> str:
    if path.is_dir():
        return folder_kind(path)
    *rest, last = [suffix.lower() for suffix in path.suffixes] or [""]
    if last in COMPRESSED:
        # LIBSVM's compressed files have no extension of their own: sector.t.bz2, rcv1_train.multiclass.bz2.
        inner = _EXTENSIONS.get(rest[-1] if rest else "", "")
        return inner if inner in ("csv", "tsv", "mtx") else "svmlight"
    if last == ".txt":
        return "svmlight" if svmlight.looks_like_it(path) else "csv"
    if last not in _EXTENSIONS:
        raise UserError(
            f"the extension of {path.name!r} says no format; name it with option format, one of {', '.join(_READERS)}"
        )
    return _EXTENSIONS[last]
