"""Profile a matrix: its columns, classes and scale, and columns that should not be features."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from pandas.util import hash_array, hash_pandas_object

from kmdr.base.text import counted, first_few
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.preprocessing import column_names, is_numeric, setting
from kmdr.datasets.references import is_noise
from kmdr.datasets.streamed import Streamed
from kmdr.datasets.validation import blocks, canonical, label_text
from kmdr.linalg.matrix import BLOCK, CACHED, is_out_of_core, read_only

# Names of columns that identify points instead of describing them.
_IDENTIFIER = re.compile(
    r"|unnamed: ?0|id|idx|index|row|row[ _.-]?(id|no|nr|num|number|index|names?)|uuid|guid|.*[ _.-]id",
    re.IGNORECASE,
)
_CAMEL_IDENTIFIER = re.compile(r".*[a-z]I[Dd]")
# Names of columns that are likely the classes.
_CLASSES = re.compile(
    r"labels?|class(es|id|_?label)?|targets?|y|species|categor(y|ies)|ground[ _]?truth|gnd", re.IGNORECASE
)
# Fewest values of an index. Of columns of this many random whole numbers, one in 20,000 rises by chance.
_FEWEST_RISING, _FEWEST_COUNTING = 8, 4
# Above this ratio of standard deviations, the widest columns dominate, because F is a sum of squares.
_WIDE = 100
_MOST_CLASSES = 5
# Rows of the first block in the search for a column of labels, after which few columns are left in most data.
_FIRST_ROWS = 32


@dataclass
class Profile:
    """Properties of a matrix. Columns are given by their names."""

    n: int
    d: int
    held: str  # types of the entries in words
    names: list[str]  # all columns
    text: dict[str, int] = field(default_factory=dict)  # columns with text: how many different values each has
    missing: dict[str, int] = field(default_factory=dict)  # number of missing values in the columns that have some
    constant: list[str] = field(default_factory=list)
    repeated: list[tuple[str, str]] = field(default_factory=list)  # columns with an equal earlier one, named second
    repeated_rows: int = 0
    empty_rows: int = 0  # rows of zeros
    deviations: tuple[float, float] | None = None  # least and largest standard deviation of columns, unless constant
    identifiers: list[str] = field(default_factory=list)  # columns that look like an index or identifier
    like_classes: list[str] = field(default_factory=list)  # whole numbers that by their name may be unnamed classes
    labels: list[str] = field(default_factory=list)  # columns that hold a labeling, in whatever values
    # The classes of each labeling, with their number of points, the largest first.
    labelings: list[list[tuple[str, int]]] = field(default_factory=list)
    noise: list[int] = field(default_factory=list)  # number of points of noise in each labeling


def profile(content: Content, noise: str = "") -> Profile:
    """Return the profile of a file's content, with the label of noise. Mapped files are read block by block."""
    A, names = content.A, column_names(content)
    n, d = A.shape if A.ndim == 2 else (*A.shape, 0, 0)[:2]
    seen = Profile(n, d, _held(A), names)
    labelings = list[NDArray[np.intp]]()
    for labels, _ in content.labelings:
        marked = is_noise(labels, noise)
        known = np.ravel(np.asarray(labels))[~marked]
        seen.labelings.append(_counted(known))
        seen.noise.append(int(marked.sum()))
        # Numbered from 0, in the order in which they first occur, with −1 for noise and missing labels.
        labelings.append(np.full(marked.size, -1, np.intp))
        labelings[-1][~marked] = pd.factorize(known)[0]
    numeric = np.ones(d, bool)
    texts: NDArray[Any] = np.zeros(1, np.uint64)
    if isinstance(A, pd.DataFrame):
        numeric = np.array([is_numeric(A.iloc[:, j]) for j in range(d)], bool)
        for j in np.flatnonzero(~numeric).tolist():
            seen.text[names[j]] = A.iloc[:, j].nunique()
            column = pd.factorize(A.iloc[:, j])[0][:, None]
            seen.labels += [names[j]] * any(_label_columns(column, codes).size for codes in labelings)
            if absent := int(A.iloc[:, j].isna().sum()):
                seen.missing[names[j]] = absent
        if not numeric.all():
            texts = hash_pandas_object(A.loc[:, ~numeric].astype(str), index=False).to_numpy()
        A = read_only(A.loc[:, numeric].to_numpy(np.float64, na_value=np.nan))
    if A.ndim == 2 and getattr(A, "dtype", np.dtype("O")).kind in "biuf" and n and A.shape[1]:
        numeric_names = _select(numeric, names)
        if scipy.sparse.issparse(A):
            A = canonical(A)
        columns = {j for codes in labelings for j in _label_columns(A, codes).tolist()}
        seen.labels += [numeric_names[j] for j in sorted(columns)]
        if scipy.sparse.issparse(A):
            _profile_sparse(seen, A, numeric_names)
        else:
            _profile_dense(seen, A, numeric_names, texts)
    named = [name for name in names if _IDENTIFIER.fullmatch(name) or _CAMEL_IDENTIFIER.fullmatch(name)]
    seen.identifiers = [name for name in names if name in {*named, *seen.identifiers}]
    unlikely = names if content.labels is not None else seen.identifiers
    if {"x", "X"} & set(names):
        unlikely = [*unlikely, "y", "Y"]  # coordinates
    seen.like_classes = [name for name in seen.like_classes if name not in unlikely]
    return seen


def lines(seen: Profile) -> Iterator[tuple[str, str]]:
    """Yield the description of a matrix as pairs of a topic and a text."""
    yield "points", f"{seen.n} x {seen.d}, {seen.held}"
    for classes, noise in zip(seen.labelings, seen.noise, strict=True):
        yield "labels", _classes_in_words(classes, noise)
    if any(name != str(j) for j, name in enumerate(seen.names)):
        yield "columns", first_few(seen.names)
    yield from remarks(seen)
    if seen.deviations:
        yield "scale", "standard deviations of the columns from {:.3g} to {:.3g}".format(*seen.deviations)


def _classes_in_words(classes: Sequence[tuple[str, int]], noise: int) -> str:
    """Return the number of classes, the sizes of the largest, and the number of points of noise."""
    largest = first_few([f"{name} {count}" for name, count in classes], _MOST_CLASSES)
    text = f"{counted(len(classes), 'class', 'classes')}: {largest}"
    return f"{text}, and {noise} of noise" if noise else text


def remarks(seen: Profile) -> Iterator[tuple[str, str]]:
    """Yield unexpected properties of a matrix as pairs of a topic and a text."""
    if seen.text:
        yield "text", first_few([f"{name} ({counted(count, 'value')})" for name, count in seen.text.items()])
    if seen.missing:
        where = first_few([f"{name} ({count})" for name, count in seen.missing.items()])
        yield "missing", f"{counted(sum(seen.missing.values()), 'value')}, in {where}"
    if seen.constant:
        yield "constant", f"{counted(len(seen.constant), 'column')}: {first_few(seen.constant)}"
    if seen.repeated:
        which = first_few([f"{name} is {earlier}" for name, earlier in seen.repeated])
        yield "repeated", f"{counted(len(seen.repeated), 'column')}: {which}"
    if seen.empty_rows:
        yield "zeros", f"{seen.empty_rows} row{'s have' if seen.empty_rows > 1 else ' has'} only zeros"
    if seen.repeated_rows:
        rows = "1 row is" if seen.repeated_rows == 1 else f"{seen.repeated_rows} rows are"
        yield "repeated", f"{rows} equal to an earlier one"


def column_warnings(seen: Profile, remedy: str = "") -> list[str]:
    """Return warnings about columns that should not be features; the default remedy is to drop them."""
    warnings = []
    for names, looks, look in (
        (seen.identifiers, "looks like an index or identifier", "look like an index or identifier"),
        (seen.labels, "tells the class of every point", "tell the class of every point"),
    ):
        which = first_few([repr(name) for name in names])
        if len(names) > 1:
            warnings.append(f"columns {which} {look}, but are features; omit them: {remedy or setting('drop', names)}")
        elif names:
            warnings.append(f"column {which} {looks}, but is a feature; omit it: {remedy or setting('drop', names)}")
    return warnings


def warnings_of(seen: Profile) -> list[str]:
    """Return warnings about columns that should probably not be features."""
    return [
        *column_warnings(seen),
        *(
            f"column {name!r} may hold the classes but is a feature; set dataset.label={name} if it does, or omit it: "
            f"{setting('drop', [name])}"
            for name in seen.like_classes[:1]
        ),
    ]


def scale_hint(seen: Profile) -> str:
    """Return a hint about columns of very different scales, or nothing."""
    if not seen.deviations or seen.deviations[1] < _WIDE * seen.deviations[0]:
        return ""
    return (
        "standard deviations of the columns range from {:.3g} to {:.3g}, so the widest dominate; if their units "
        "differ, set dataset.scale=standard".format(*seen.deviations)
    )


def _held(A: Any) -> str:
    if isinstance(A, pd.DataFrame):
        kinds = Counter(str(kind) if is_numeric(A.iloc[:, j]) else "text" for j, kind in enumerate(A.dtypes))
        return ", ".join(kind if len(kinds) == 1 else f"{count} {kind}" for kind, count in kinds.most_common())
    if scipy.sparse.issparse(A):
        return f"{A.dtype}, sparse, {A.nnz} entries"
    return str(A.dtype)


def _counted(values: NDArray[Any]) -> list[tuple[str, int]]:
    values = values[~pd.isna(values)]
    if values.dtype == object:
        counted = sorted(Counter(map(label_text, values)).items())
    else:
        classes, counts = np.unique(values, return_counts=True)
        shown = [str(value).removesuffix(".0") for value in classes]
        counted = list(zip(shown, counts.tolist(), strict=True))
    return sorted(counted, key=lambda pair: -pair[1])


def _label_columns(A: Any, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the columns whose values are in one-to-one correspondence with the classes.

    Rows of A, an (n, d) array, CSR or Streamed, are read in blocks until no column is left. `codes` are n numbers of
    classes, −1 for points without a class.
    """
    first = np.unique(codes[codes >= 0], return_index=True)[1]
    first = np.flatnonzero(codes >= 0)[first]
    none = np.empty(0, np.intp)
    if len(codes) != A.shape[0] or len(first) < 2 or len(first) == np.count_nonzero(codes >= 0):
        return none
    # Most columns of sparse data are equal, as zeros, in two points of different classes.
    one, other = (_entries(A, row, row + 1, np.arange(A.shape[1])) for row in first[:2])
    columns = np.flatnonzero((one != other)[0])
    if len(first) * len(columns) > BLOCK:
        return none  # thousands of classes and columns
    values = np.zeros((len(first), len(columns)))
    start, rows = 0, _FIRST_ROWS
    while start < len(codes) and columns.size:
        stop = min(start + rows, len(codes))
        block, classes = _entries(A, start, stop, columns), codes[start:stop]
        new = first[(start <= first) & (first < stop)]
        values[codes[new]] = block[new - start]
        same = (block == values[classes])[classes >= 0].all(axis=0)
        columns, values = columns[same], values[:, same]
        start, rows = stop, max(_FIRST_ROWS, BLOCK // A.shape[1])
    differ = [len(np.unique(column)) == len(first) for column in values.T]
    return np.asarray(columns[np.array(differ, bool)])


def _entries(A: Any, start: int, stop: int, columns: NDArray[np.intp]) -> NDArray[np.float64]:
    block = A[start:stop][:, columns]
    return np.asarray(block.toarray() if scipy.sparse.issparse(block) else block, np.float64)


def _weights(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(0, 2**64, count, np.uint64) | np.uint64(1)


def _select(mask: NDArray[np.bool_], names: Sequence[str]) -> list[str]:
    return [name for name, true in zip(names, mask, strict=True) if true]


def _repeated(hashes: NDArray[np.uint64], lines: Any = None) -> list[tuple[int, int]]:
    """Return each line (row or column) that is equal to an earlier one, with the first such line.

    Lines with equal hashes are compared with each other in the matrix `lines`; without it, they count as equal.
    """
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    earlier = first[inverse]
    again = np.flatnonzero(earlier != np.arange(len(hashes)))
    if lines is not None:
        width = 1 + lines.nnz // lines.shape[0] if scipy.sparse.issparse(lines) else lines.shape[1]
        step = max(1, BLOCK // width)
        parts = [again[start : start + step] for start in range(0, len(again), step)]
        again = np.concatenate([part[_are_equal(lines[part], lines[earlier[part]])] for part in parts] or [again])
    return list(zip(again.tolist(), earlier[again].tolist(), strict=True))


def _are_equal(A: Any, B: Any) -> NDArray[np.bool_]:
    """Return a mask of the rows of two matrices that are equal as float64, where NaN is equal to NaN."""
    if scipy.sparse.issparse(A):
        return np.asarray(np.diff((A != B).tocsr().indptr) == 0)
    A, B = A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
    return np.asarray(((A == B) | (np.isnan(A) & np.isnan(B))).all(axis=1))


def _profile_dense(seen: Profile, A: Any, names: Sequence[str], texts: NDArray[np.uint64]) -> None:
    """Profile columns of numbers in one pass, block by block.

    Rows and columns are hashed by sums of the hashes of their entries, each times a random number, modulo 2^64; 0 is
    added, so that -0.0 is 0.0. Rows or columns with equal hashes are then compared, unless the matrix is large or read
    in blocks.
    """
    n, d = A.shape
    like_classes = np.array([_CLASSES.fullmatch(name) is not None for name in names])
    by_column, by_row = _weights(d), _weights(n)
    rows, columns = np.zeros(n, np.uint64), np.zeros(d, np.uint64)
    absent, total, squares = np.zeros(d, np.int64), np.zeros(d), np.zeros(d)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    whole, rising, falling, counting = np.ones((4, d), bool)
    shift, before = np.zeros(d), np.empty((0, d))
    buffer, product = np.empty((2, max(1, CACHED // d), d))
    with np.errstate(all="ignore"):  # infinite values are refused elsewhere, and huge ones do not matter here
        for start, block in blocks(A, A.dtype):
            for first in range(0, len(block), len(buffer)):
                part = block[first : first + len(buffer)]
                size, at = len(part), slice(start + first, start + first + len(part))
                values = np.add(part, 0.0, out=buffer[:size], dtype=np.float64, casting="unsafe")
                least, work = values.min(axis=0), product[:size]
                nan = np.isnan(values) if np.isnan(least).any() else None
                seen.empty_rows += int((~values.any(axis=1)).sum()) if not seen.text else 0
                if nan is not None:
                    values[nan] = np.nan  # one bit pattern for all NaN
                terms, bits = work.view(np.uint64), hash_array(values.ravel()).reshape(size, d)
                rows[at] = np.multiply(bits, by_column, out=terms).sum(axis=1)
                columns += np.multiply(bits, by_row[at, None], out=terms).sum(axis=0)
                if at.start == 0:
                    shift = np.where(np.isnan(values[0]), 0.0, values[0])
                low, high = np.fmin(low, least), np.fmax(high, values.max(axis=0))
                centred = np.subtract(values, shift, out=work)
                if nan is not None:
                    absent += nan.sum(axis=0)
                    centred[nan] = 0
                total += centred.sum(axis=0)
                squares += np.square(centred, out=work).sum(axis=0)
                undecided = np.flatnonzero(whole & (rising | falling | like_classes))
                if undecided.size:  # soon empty for most data
                    chosen = values[:, undecided]
                    steps = np.diff(np.vstack([before[:, undecided], chosen]), axis=0)
                    whole[undecided] &= (chosen == np.floor(chosen)).all(axis=0)
                    rising[undecided] &= (steps > 0).all(axis=0)
                    falling[undecided] &= (steps < 0).all(axis=0)
                    counting[undecided] &= (np.abs(steps) == 1).all(axis=0)
                    before = values[-1:].copy()
        known = np.maximum(n - absent, 1)
        deviations = np.sqrt(np.maximum(squares / known - (total / known) ** 2, 0))
    index = whole & (rising | falling) & ((n >= _FEWEST_RISING) | (counting & (n >= _FEWEST_COUNTING)))
    seen.identifiers += _select(index, names)
    seen.like_classes += _select(whole & like_classes, names)
    seen.missing |= {name: int(count) for name, count in zip(names, absent, strict=True) if count}
    constant = (low == high) & (absent == 0)
    compared = None if isinstance(A, Streamed) or is_out_of_core(A) else A
    _fill(seen, names, constant, deviations, columns, rows + texts, compared)


def _profile_sparse(seen: Profile, A: Any, names: Sequence[str]) -> None:
    """Profile a sparse matrix in canonical form. None of its columns is an index, whose entries are hardly ever 0."""
    A = A.astype(np.float64, copy=False)
    n, d = A.shape
    bits = scipy.sparse.csr_array((hash_array(A.data), A.indices, A.indptr), shape=A.shape)  # the hash of 0 is 0
    rows, columns = bits @ _weights(d), bits.T @ _weights(n)
    with np.errstate(all="ignore"):
        mean = np.asarray(A.sum(axis=0)).ravel() / n
        squares = scipy.sparse.csr_array((A.data**2, A.indices, A.indptr), shape=A.shape).sum(axis=0)
        deviations = np.sqrt(np.maximum(np.asarray(squares).ravel() / n - mean**2, 0))
    seen.empty_rows = int((np.diff(A.indptr) == 0).sum())
    constant = np.asarray(A.max(axis=0).toarray() == A.min(axis=0).toarray()).ravel()
    _fill(seen, names, constant, deviations, columns, rows, bits)


def _fill(
    seen: Profile, names: Sequence[str], constant: NDArray[np.bool_], deviations: NDArray[Any],
    columns: NDArray[np.uint64], rows: NDArray[np.uint64], whole: Any,
) -> None:  # fmt: skip
    """Fill in what dense and sparse matrices share. Rows and columns with equal hashes are compared in `whole`."""
    across = None if whole is None else whole.T.tocsr() if scipy.sparse.issparse(whole) else whole.T
    seen.constant = _select(constant, names)
    seen.repeated = [(names[j], names[first]) for j, first in _repeated(columns, across) if not constant[j]]
    seen.repeated_rows = len(_repeated(rows, whole))
    spread = deviations[~constant & np.isfinite(deviations) & (deviations > 0)]
    seen.deviations = (float(spread.min()), float(spread.max())) if len(spread) else None


def summary(content: Content, seen: Profile, settings: Mapping[str, Any], made: Sequence[int]) -> list[str]:
    """Return one line on how a file was read, and a second line on unexpected properties, if any.

    Problems that the settings solve are not reported; `made` is the shape of the treated matrix.
    """
    labels = [
        f"{where} has {_classes_in_words(classes, noise)}"
        for (_, where), classes, noise in zip(content.labelings, seen.labelings, seen.noise, strict=True)
    ]
    odd = [f"{about}: {what}" for about, what in remarks(seen)]
    if settings.get("scale", "none") == "none" and settings.get("rows", "raw") == "raw" and (hint := scale_hint(seen)):
        odd.append(hint)
    if tuple(made) != (seen.n, seen.d):
        odd.append(f"used as {' x '.join(map(str, made))}")
    return [
        f"{seen.n} x {seen.d}, {seen.held}; read as {content.form}; {'; '.join(labels) or 'no labels'}",
        *(["; ".join(odd)] if odd else []),
    ]
