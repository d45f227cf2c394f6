"""Read LIBSVM's text format, one ``label index:value …`` per line, with scikit-learn's parser.

scikit-learn accepts any object with ``read`` that yields lines. `_Lines` counts them, so that errors can name the line,
and limits the memory. It also refuses two things before scikit-learn sees them: a ``qid``, which scikit-learn skips or
collects in time quadratic in the rows, and digits grouped by underscores, which Python reads as numbers.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from kmdr.base.errors import UserError
from kmdr.datasets.acquire.archives import DAMAGED
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.common import Content, afford, afford_shape, open_unpacked, reading
from kmdr.datasets.validation import codes

_LINE_BYTES = 2**26
_HEAD_BYTES = 2**16
_LARGEST_INDEX = 2**31 - 2


def read(path: Path, limit: float, options: FileOptions) -> Content:
    """Read all files of option ``path`` as one matrix."""
    del path
    A, classes = svmlight(*options.paths, d=options.d, limit=limit)
    return Content(A, classes, form="svmlight", labelled="the first number of each line")


def svmlight(*paths: Path, d: int = 0, limit: float = math.inf) -> tuple[Any, NDArray[np.int64]]:
    """Read text with one ``label index:value …`` per line, which may be compressed by bz2, gz or xz.

    The rows of all files are stacked. Indices count from 0 if any of the files has an index 0, else from 1. The values
    are as Python reads them, and classes are counted from 0 in the order of their numbers. There are d features, by
    default as many as occur. `limit` is the most bytes that the matrix may take in memory.

    Raises
    ------
    UserError
        A file is damaged; or a line, whose number is given, is malformed, has several labels, a ``qid``, or indices out
        of order or beyond d.
    """
    from sklearn.datasets import load_svmlight_file

    parts, classes, held = [], [], 0
    for path in paths:
        lines = _Lines(path, held, limit)
        with reading(path, "svmlight"):
            try:
                # Indices are shifted below: scikit-learn's guess is wrong if one of several files has no entry.
                A, y = load_svmlight_file(lines, zero_based=True)
            except (ValueError, OverflowError) as e:
                raise UserError(f"line {lines.number} of {path.name} {_fault(lines.line, e)}") from e
        index = np.int32 if A.nnz <= np.iinfo(np.int32).max else np.int64
        parts.append(csr_array((A.data, A.indices.astype(index), A.indptr.astype(index)), shape=A.shape))
        classes.append(y)
        held = lines.held
    first = min(int(A.indices.min(initial=1)) for A in parts)
    widest = max(int(A.indices.max(initial=first - 1)) for A in parts) + 1 - first
    if d and widest > d:
        raise UserError(f"{paths[0].name} has feature {widest - 1 + first}, but the dataset has only {d} features")
    afford_shape(paths[0], (sum(map(len, classes)), d or widest), limit)
    for A in parts:
        A.resize(A.shape[0], widest + first)
    A = vstack(parts, "csr") if len(parts) > 1 else parts[0]
    A.indices -= first
    A = csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], d or widest))
    labels = np.concatenate(classes)
    if (np.abs(labels) >= 2**53).any():
        raise UserError(
            f"{paths[0].name} has labels of 2^53 or more, which are read as float64 and may become equal; number the "
            "classes from 0 or 1"
        )
    return A, codes(labels, paths[0].name) if len(labels) else labels.astype(np.int64)


def is_likely(path: Path) -> bool:
    """Return whether the first lines of a text contain ``index:value``, or it is empty or cannot be read."""
    try:
        with open_unpacked(path) as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, *DAMAGED):
        return True
    return bool(re.search(rb"(?<!\S)\d+:\S", head)) or not head.strip()


class _Lines:
    """The lines of a text file, which may be compressed, with a limit on the memory of their matrix.

    `line` and `number` are the last line and its number from 1, `held` the bytes of the matrix and labels so far.
    """

    def __init__(self, path: Path, held: int, limit: float) -> None:
        self.path, self.held, self.limit = path, held, limit
        self.line, self.number = b"", 0

    def read(self) -> None:
        """Do nothing: scikit-learn recognises a file by this method, but iterates over it."""

    def __iter__(self) -> Iterator[bytes]:
        with open_unpacked(self.path) as file:
            try:
                while line := file.readline(_LINE_BYTES + 1):
                    self.line, self.number = line, self.number + 1
                    self._check()
                    yield line
            except (OSError, *DAMAGED) as e:
                raise UserError(f"{self.path.name} is damaged or truncated ({e}); download it again") from e

    def _check(self) -> None:
        if len(self.line) > _LINE_BYTES:
            raise UserError(
                f"{self.path.name} is not a readable svmlight file: a line has more than {_LINE_BYTES} bytes"
            )
        if (b"_" in self.line or b"q" in self.line) and re.match(rb"[^#]*[_q]", self.line):
            raise ValueError
        self.held += 16 + 12 * self.line.count(b":")
        afford(self.path, f"unpacks to at least {self.number} lines", self.held, self.limit)


def _fault(line: bytes, error: Exception) -> str:
    """Return the error in a line that scikit-learn refused, in words."""
    label, *pairs = line.partition(b"#")[0].split()
    if b"," in label:
        return "has several labels; each point must be of one class"
    if b":" in label:
        return "has no label"
    if any(pair.startswith(b"q") for pair in pairs):
        return "has a qid, which belongs to ranking; remove it"
    if isinstance(error, OverflowError):
        return f"has an index beyond {_LARGEST_INDEX}"
    if "sorted" in str(error):
        return "has indices that do not ascend"
    return "is not of the form 'label index:value index:value …'"
