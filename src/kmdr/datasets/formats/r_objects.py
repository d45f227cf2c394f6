"""Read R's rds and RData: data frames, matrices, and the sparse matrices of the package Matrix."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.datasets.acquire.archives import UnverifiedError, open_decompressed
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.arrays import pick, pick_classes
from kmdr.datasets.formats.common import Content, afford, afford_shape, reading
from kmdr.datasets.formats.tables import classes_of, table_content
from kmdr.datasets.validation import csr

# R's classes of sparse matrices by their letters: numbers, truth values or a pattern; general or symmetric; by columns
# or by rows.
_SPARSE = frozenset(f"{kind}{form}{layout}Matrix" for kind in "dln" for form in "gs" for layout in "CR")
_AS_CSV = "in R: write.csv(x, 'data.csv', row.names=FALSE)"
_ENCODING = "utf-8"  # of text without a mark, in files of version 2
_NO_INTEGER = np.iinfo(np.int64).min  # a missing value of class integer64
_SECOND = 10**6  # in microseconds
# Types with missing values, by numpy's kind.
_NULLABLE = {"b": "boolean", "i": "Int64"}
# Units of R's classes of dates and times in seconds.
_SECONDS = {"Date": 86400, "IDate": 86400, "POSIXct": 1}


def r_data(path: Path, limit: float, options: FileOptions) -> Content:
    """Read an object of R: a data frame, a matrix, a sparse matrix, or a list or workspace that holds one."""
    with reading(path, "R"):
        held, label = _converted(path, limit), options.label
        if isinstance(held, dict) and "Dim" not in held:
            objects = [name for name, value in held.items() if not isinstance(value, str)]
            only = objects[0] if len(objects) == 1 and not options.matrix else ""
            points = only or pick(path, objects, options.matrix)
            classes_at = "" if isinstance(held[points], pd.DataFrame) else pick_classes(path, objects, label, points)
            labels = held[classes_at] if classes_at else None
            A, form = held[points], f"R, object {points!r}"
        else:
            A, form, labels, classes_at = held, "R", None, ""
        if isinstance(A, pd.DataFrame):
            return table_content(
                path, A.reset_index(drop=True), list(map(str, A.columns)), f"{form}, data frame", label
            )
        if isinstance(labels, np.ma.MaskedArray):
            labels = pd.array(labels.tolist(), dtype=_NULLABLE[labels.dtype.kind])  # None where one is missing
        if isinstance(labels, pd.api.extensions.ExtensionArray):
            labels = classes_of(pd.Series(labels))
        if isinstance(A, dict) and "Dim" in A:
            A, form = _sparse(path, A, limit), f"{form}, sparse matrix"
        elif hasattr(A, "to_numpy"):  # with names of rows and columns
            A = A.to_numpy()
        numbers = scipy.sparse.issparse(A) or (isinstance(A, np.ndarray) and A.ndim == 2 and A.dtype.kind in "biuf")
        if not numbers:
            raise UserError(_unread(path, A))
        if np.ma.isMA(A):  # has missing values
            A = np.ma.filled(A.astype(np.float64), np.nan)
        return Content(A, labels, None, form, f"object {classes_at!r}")


def _unread(path: Path, held: Any) -> str:
    """Return an error message about an object that is neither a data frame nor a matrix of numbers."""
    name = str(np.ravel(getattr(held, "class", ""))[0])
    if name.endswith("Matrix"):
        return f"{path.name} holds a matrix of class {name}, which is not read; save as(x, 'dgCMatrix') in R"
    return f"{path.name} holds no data frame or matrix of numbers; {_AS_CSV}"


def _converted(path: Path, limit: float) -> Any:
    """Return the object in a file: a workspace or named list as a dict, a sparse matrix as a dict of its slots."""
    from rdata import conversion, parser  # imports xarray

    lengths = list[float]()

    def bounded(constructor: Any) -> Any:
        def construct(state: Any) -> Any:
            lengths.append(float(state.value[0]))
            afford(path, f"claims a sequence of {lengths[-1]:.0f} numbers", 8 * sum(lengths), limit)
            return constructor(state)

        return construct

    try:
        with open_decompressed(path, int(limit)) as stream:
            data = stream.read()
    except UnverifiedError as error:
        raise UserError(f"{error}; download it again, or allow more with dataset.max_gb=…") from error
    sequences = {
        name: bounded(make) if name.startswith(b"compact_") else make
        for name, make in parser.DEFAULT_ALTREP_MAP.items()
    }
    classes: dict[str | bytes, Callable[[Any, Mapping[str, Any]], Any]] = {
        **conversion.DEFAULT_CLASS_MAP,
        **dict.fromkeys(_SPARSE, _slots),
        **{name: _times(seconds) for name, seconds in _SECONDS.items()},
        "difftime": _durations,
        "integer64": _long_integers,
        "data.frame": _frame(conversion.DEFAULT_CLASS_MAP["data.frame"]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the type of the file, and classes that are read as plain objects
        parsed = parser.parse_data(data, altrep_constructor_dict=sequences)
        _number_columns(path, parsed.object)
        return conversion.convert(parsed, classes, default_encoding=parsed.extra.encoding or _ENCODING)


# -- Data frames -----------------------------------------------------------------------------------------------------


def _number_columns(path: Path, held: Any) -> None:
    """Put the number of each column before its name, in the data frames of a parsed object.

    The conversion makes a dict of a list, which has one of several columns of the same name. A list of objects in which
    a name recurs is refused, unless all of these are single texts.
    """
    for vector in _vectors(held):
        attributes = dict(_attributes(vector))
        if (names := attributes.get(b"names")) is None:
            continue
        if any(name.value == b"data.frame" for name in getattr(attributes.get(b"class"), "value", ())):
            names.value = [
                replace(name, value=b"%d %s" % (j, b"NA" if name.value is None else name.value))
                for j, name in enumerate(names.value)
            ]
        elif vector is held and len(names.value):
            name, count = Counter(name.value for name in names.value).most_common(1)[0]
            alike = [part for part, other in zip(vector.value, names.value, strict=True) if other.value == name]
            if name and count > 1 and not all(part.info.type.name == "STR" and len(part.value) == 1 for part in alike):
                raise UserError(
                    f"{path.name} holds {count} objects named {name.decode('utf-8', 'replace')!r}; keep one of them"
                )


def _vectors(held: Any) -> Iterator[Any]:
    """Yield a parsed object, or the objects in a workspace, and all objects in these if they are lists."""
    left = [held]
    while left:
        node = left.pop()
        kind = getattr(getattr(node, "info", None), "type", None)
        if kind is None:
            continue
        if kind.name == "LIST":
            left += node.value
        elif kind.name == "VEC":
            yield node
            left += node.value


def _attributes(node: Any) -> Iterator[tuple[bytes, Any]]:
    """Yield the name and the value of each attribute of a parsed object."""
    entry = node.attributes
    while entry is not None and entry.info.type.name == "LIST":
        tag = entry.tag if entry.tag is None or entry.tag.info.type.name == "SYM" else entry.tag.referenced_object
        if tag is not None:
            yield tag.value.value, entry.value[0]
        entry = entry.value[1]


def _frame(make: Callable[[Any, Mapping[str, Any]], pd.DataFrame]) -> Callable[[Any, Mapping[str, Any]], pd.DataFrame]:
    """Return a constructor of data frames whose columns may share a name."""

    def construct(columns: Any, attributes: Mapping[str, Any]) -> pd.DataFrame:
        if not isinstance(columns, Mapping):
            return make(columns, attributes)
        frame = make(dict(enumerate(columns.values())), attributes)
        frame.columns = pd.Index([name.partition(" ")[2] for name in columns], dtype=object)
        return frame

    return construct


# -- Classes of vectors ----------------------------------------------------------------------------------------------


def _long_integers(values: Any, attributes: Mapping[str, Any]) -> Any:
    """Return integers of 64 bits, which R has as the bits of doubles."""
    del attributes
    integers = _doubles(values).view(np.int64)
    missing = integers == _NO_INTEGER
    if integers.ndim == 1:
        return pd.arrays.IntegerArray(integers, missing)
    return np.where(missing, np.nan, integers.astype(np.float64)) if missing.any() else integers


def _times(seconds: int) -> Callable[[Any, Mapping[str, Any]], Any]:
    def construct(values: Any, attributes: Mapping[str, Any]) -> Any:
        del attributes
        return _as_times(values, seconds, "datetime64[us]")

    return construct


def _durations(values: Any, attributes: Mapping[str, Any]) -> Any:
    del attributes
    return _as_times(values, 1, "timedelta64[us]")


def _as_times(values: Any, seconds: int, kind: str) -> Any:
    """Return dates or durations in a type that is not numeric, as in other tables."""
    doubles = _doubles(values)
    known = np.abs(doubles) < np.iinfo(np.int64).max // (_SECOND * seconds)
    whole = np.round(np.where(known, doubles, 0) * seconds * _SECOND).astype(np.int64)
    times = np.where(known, whole, np.iinfo(np.int64).min).view(kind)
    return pd.Series(times).array if times.ndim == 1 else times


def _doubles(values: Any) -> NDArray[np.float64]:
    """Return the values of a vector of R, with NaN for missing integers."""
    plain = values.to_numpy() if hasattr(values, "to_numpy") else values  # a vector with names
    plain = np.ma.filled(plain.astype(np.float64), np.nan) if np.ma.isMA(plain) else plain
    return np.ascontiguousarray(plain, np.float64)


# -- Sparse matrices -------------------------------------------------------------------------------------------------


def _slots(slots: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    del slots
    return dict(attributes)


def _sparse(path: Path, slots: Mapping[str, Any], limit: float) -> Any:
    """Return a sparse matrix of its slots.

    A pattern has no entries, which are 1. A symmetric matrix has one triangle.
    """
    n, d = (int(size) for size in slots["Dim"])
    afford_shape(path, (n, d), limit)
    make, index = (scipy.sparse.csr_array, slots["j"]) if "j" in slots else (scipy.sparse.csc_array, slots["i"])
    entries = slots.get("x", np.ones(len(index)))
    if np.ma.isMA(entries):  # truth values, of which some are missing
        entries = np.ma.filled(entries.astype(np.float64), np.nan)
    A = make((entries, index, slots["p"]), shape=(n, d))
    if "uplo" not in slots:
        return A
    A = csr(A).astype(np.float64)  # checks the parts
    triangle = A if slots["uplo"][0] == "U" else A.T
    return scipy.sparse.csr_array(scipy.sparse.triu(triangle) + scipy.sparse.triu(triangle, 1).T)
