"""LIBSVM's text of one ``label index:value …`` a line, in blocks: memory is bounded by the matrix, not by the text.

scikit-learn's ``load_svmlight_file`` would do with less code and less memory: of 3.8 million entries it took 16 B an
entry and a process of 10 s, ours 27 B and one of 6 s, so for the 60.9 million of the full RCV1 1.0 GB against 1.7 GB.
But it passes over a ``qid``, names no line of what it refuses, and knows no limit of memory, so that a small archive
which unpacks to terabytes ends the process.
"""

import lzma
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.datasets.reading import COMPRESSED, READ_BYTES, afford, afford_shape, reading
from kmdr.datasets.valid import codes
from kmdr.errors import UserError

_LINE_BYTES = 2**26
_HEAD_BYTES = 2**16
_LARGEST_INDEX = 2**31 - 2


def svmlight(*paths: Path, d: int = 0, limit: float = math.inf) -> tuple[Any, NDArray[np.int64]]:
    """Text of one ``label index:value …`` a line, as LIBSVM distributes it; also compressed by bz2, gz or xz.

    Read in blocks of a few MiB: beyond the matrix itself, memory grows by no more than its largest part.

    Parameters
    ----------
    *paths : Path
        The rows of the files follow each other. Indices count from 0 where any of the files has an index 0, else
        from 1.
    d : int
        Features; by default as many as occur.
    limit : float
        Most bytes that the matrix may take in memory.

    Returns
    -------
    A : csr_array of shape (n, d)
        float64, each value as Python reads it.
    labels : ndarray of shape (n,)
        Classes counted from 0, in the order of their numbers.

    Raises
    ------
    UserError
        A file is damaged, or a line is not of that form, with its number; several labels a line; ``qid``; indices out
        of order or beyond d.
    """
    parts: list[tuple[NDArray[Any], ...]] = []
    held = 0
    for path in paths:
        line = 1
        for text in whole_lines(path):
            part, lines = _parsed(path, np.frombuffer(text, np.uint8), line)
            parts.append(part)
            line += lines
            held += sum(array.nbytes for array in part)
            afford(path, f"unpacks to at least {line - 1} lines", held, limit)
    # One part after the other is joined and its blocks let go, which bounds the memory.
    classes, counts, indices, values = ([part[i] for part in parts] for i in range(4))
    del parts
    joined = _joined(indices, np.int32)
    first = 0 if (joined == 0).any() else 1
    joined -= first
    widest = int(joined.max(initial=-1)) + 1
    if d and widest > d:
        raise UserError(f"{paths[0].name} has feature {widest - 1 + first}, but there are only {d}")
    afford_shape(paths[0], (sum(map(len, classes)), d or widest), limit)
    data = _joined(values, np.float64)
    indptr = np.concatenate([[0], np.cumsum(_joined(counts, np.int64))])
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    A = scipy.sparse.csr_array((data, joined, indptr), shape=(len(indptr) - 1, d or widest))
    labels = _joined(classes, np.float64)
    if (np.abs(labels) >= 2**53).any():
        raise UserError(
            f"{paths[0].name} has labels of 2^53 or more, which are read as float64 and may become equal; number the "
            "classes from 0 or 1"
        )
    return A, codes(labels, paths[0].name) if len(labels) else labels.astype(np.int64)


def _joined(pieces: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    whole = np.concatenate(pieces) if pieces else np.empty(0, dtype)
    pieces.clear()
    return whole


def looks_like_it(path: Path) -> bool:
    """Whether one of the first lines of a text has ``index:value`` in it, or nothing is there to tell."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return True
    return bool(re.search(rb"(?<!\S)\d+:\S", head)) or not head.strip()


def whole_lines(path: Path) -> Iterator[bytes]:
    """Text of a file in blocks that end with a line."""
    with reading(path, "svmlight"), COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as file:
        rest = b""
        try:
            while block := file.read(READ_BYTES):
                head, newline, tail = block.rpartition(b"\n")
                if newline:
                    yield rest + head + newline
                    rest = tail
                else:
                    rest += block
                if len(rest) > _LINE_BYTES:
                    raise UserError(f"{path.name} is not a readable svmlight file: a line is over {_LINE_BYTES} bytes")
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as e:
            raise UserError(f"{path.name} is damaged or cut off ({e}); get it again") from e
        if rest:
            yield rest + b"\n"


_MALFORMED, _QUERY, _SEVERAL, _UNLABELLED, _BEYOND, _UNSORTED = range(1, 7)
_SAID = {
    _MALFORMED: "is not of the form 'label index:value index:value …'",
    _QUERY: "has a qid, which belongs to ranking; remove it",
    _SEVERAL: "has several labels; each point must be of one class",
    _UNLABELLED: "has no label",
    _BEYOND: f"has an index beyond {_LARGEST_INDEX}",
    _UNSORTED: "has indices that do not ascend",
}


def _parsed(path: Path, text: NDArray[np.uint8], line: int) -> tuple[tuple[NDArray[Any], ...], int]:
    """Labels, entries a row, indices and values of some lines, and how many they are; `line` numbers the first."""
    lines, colons = int(np.count_nonzero(text == ord("\n"))), int(np.count_nonzero(text == ord(":")))
    labels, counts = np.empty(lines), np.empty(lines, np.int64)
    indices, values = np.empty(colons, np.int32), np.empty(colons)
    left = np.empty((lines + colons, 3), np.int64)
    rows, entries, n_left, wrong, at = _parse(text, labels, counts, indices, values, left)
    for target, start, stop in left[:n_left]:
        token = text[start:stop].tobytes()
        try:
            number = float(token.replace(b"_", b"?"))  # 1_0 is a number to Python only
        except ValueError:
            wrong, at = wrong or _MALFORMED, min(at, int(start)) if wrong else int(start)
            break
        if target < 0:
            labels[-1 - target] = number
        else:
            values[target] = number
    if wrong:
        number_of_line = line + int(np.count_nonzero(text[:at] == ord("\n")))
        raise UserError(f"line {number_of_line} of {path.name} {_SAID[wrong]}")
    return (labels[:rows], counts[:rows], indices[:entries], values[:entries]), lines


_TENS = 10.0 ** np.arange(23)


@numba.njit(cache=True)
def _number(text: Any, i: int) -> Any:  # noqa: PLR0912  a scanner
    """Read a decimal number at i: its value, where it ends, and whether the value is exact.

    With a mantissa below 2^53 and a power of ten up to 10^22 both are doubles without error, and one multiplication or
    division rounds as it should. All other numbers are left to the caller.
    """
    start = i
    negative = text[i] == 45
    if text[i] in (43, 45):
        i += 1
    mantissa, digits, power = 0, 0, 0
    first = i
    while 48 <= text[i] <= 57:
        if digits < 18:
            mantissa = 10 * mantissa + (text[i] - 48)
        digits += digits > 0 or text[i] != 48
        i += 1
    n = i - first
    if text[i] == 46:
        i += 1
        first = i
        while 48 <= text[i] <= 57:
            if digits < 18:
                mantissa = 10 * mantissa + (text[i] - 48)
            digits += digits > 0 or text[i] != 48
            i += 1
        n += i - first
        power = first - i
    if n > 0 and text[i] in (69, 101):
        i += 1
        sign = -1 if text[i] == 45 else 1
        if text[i] in (43, 45):
            i += 1
        first = i
        written = 0
        while 48 <= text[i] <= 57:
            written = min(10 * written + (text[i] - 48), 100_000)
            i += 1
        if i == first:
            n = 0
        power += sign * written
    exact = n > 0 and digits <= 18 and mantissa <= 2**53 and -22 <= power <= 22
    while text[i] not in (9, 10, 13, 32, 35, 44, 58):  # something else follows: the caller will see
        exact = False
        i += 1
    value = 0.0
    if exact:
        value = mantissa * _TENS[power] if power >= 0 else mantissa / _TENS[-power]
        if negative:
            value = -value
    return value, i, exact and i > start


@numba.njit(cache=True)
def _parse(  # noqa: PLR0911, PLR0912  a scanner
    text: Any, labels: Any, counts: Any, indices: Any, values: Any, left: Any
) -> Any:
    """Fill the arrays from whole lines; `left` gets target, start and stop of each number left to the caller."""
    i = row = entry = n_left = 0
    while i < len(text):
        while text[i] in (9, 13, 32):
            i += 1
        if text[i] not in (10, 35):
            start = i
            value, i, exact = _number(text, i)
            if text[i] == 44:
                return row, entry, n_left, _SEVERAL, i
            if text[i] == 58 or i == start:
                return row, entry, n_left, _UNLABELLED, i
            labels[row] = value
            if not exact:
                left[n_left] = -1 - row, start, i
                n_left += 1
            before, index_before = entry, -1
            while True:
                while text[i] in (9, 13, 32):
                    i += 1
                if text[i] in (10, 35):
                    break
                if text[i] == 113:  # q
                    return row, entry, n_left, _QUERY, i
                start, index = i, 0
                while 48 <= text[i] <= 57:
                    index = min(10 * index + (text[i] - 48), 2**40)
                    i += 1
                if i == start or text[i] != 58:
                    return row, entry, n_left, _MALFORMED, i if text[i] != 10 else start
                if index > _LARGEST_INDEX:
                    return row, entry, n_left, _BEYOND, i
                if index <= index_before:
                    return row, entry, n_left, _UNSORTED, i
                index_before = index
                indices[entry] = index
                start = i + 1
                value, i, exact = _number(text, start)
                if i == start or text[i] in (44, 58):
                    return row, entry, n_left, _MALFORMED, start - 1
                values[entry] = value
                if not exact:
                    left[n_left] = entry, start, i
                    n_left += 1
                entry += 1
            counts[row] = entry - before
            row += 1
        while text[i] != 10:  # a comment
            i += 1
        i += 1
    return row, entry, n_left, 0, 0
