"""Matrices whose rows are read or generated in blocks, so that they are never in memory as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmdr.linalg.matrix import is_out_of_core


@dataclass(frozen=True, eq=False)
class Streamed:
    """A matrix that can only be sliced by rows, ideally in order.

    `read` returns the rows from a first one up to, but not including, a second one.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    read: Callable[[int, int], NDArray[Any]]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return 2

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        return self.read(start, max(start, stop))

    def map_rows(self, function: Callable[[NDArray[Any]], NDArray[Any]], d: int, dtype: np.dtype[Any]) -> "Streamed":
        """Apply a function to blocks of rows; it returns as many rows, with d entries of a type."""
        return Streamed((len(self), d), dtype, lambda start, stop: function(self.read(start, stop)))

    def select_rows(self, kept: NDArray[np.bool_]) -> "Streamed":
        """Return the rows where a mask is True."""
        places = np.flatnonzero(kept)

        def read(start: int, stop: int) -> NDArray[Any]:
            chosen = places[start:stop]
            first, last = (chosen[0], chosen[-1] + 1) if len(chosen) else (0, 0)
            return self.read(int(first), int(last))[chosen - first]

        return Streamed((len(places), self.shape[1]), self.dtype, read)


def stream_if_large(A: Any) -> Any:
    """Return a large mapped matrix as a `Streamed`, so that results of it are not in memory whole; others unchanged."""
    if not isinstance(A, np.memmap) or A.ndim != 2 or not is_out_of_core(A):
        return A
    return Streamed(A.shape, A.dtype, lambda start, stop: A[start:stop])


def stack_rows(parts: Sequence[Any]) -> Streamed:
    """Stack at least one matrix, all of the same width and type, vertically."""
    ends = np.cumsum([len(part) for part in parts])
    d, dtype = parts[0].shape[1], parts[0].dtype

    def read(start: int, stop: int) -> NDArray[Any]:
        pieces = []
        for part in range(int(np.searchsorted(ends, start, "right")), len(parts)):
            first = int(ends[part]) - len(parts[part])
            if first >= stop:
                break
            pieces.append(parts[part][max(start - first, 0) : stop - first])
        if len(pieces) == 1:
            return np.asarray(pieces[0])  # a mapped part is not copied
        return np.concatenate(pieces) if pieces else np.empty((0, d), dtype)

    return Streamed((int(ends[-1]), d), dtype, read)


def from_blocks(
    lengths: Sequence[int], d: int, dtype: np.dtype[Any], read_block: Callable[[int], NDArray[Any]]
) -> Streamed:
    """Return a matrix of blocks of rows, at least one, that can only be read whole; the last one read is kept."""
    cached = lru_cache(maxsize=1)(read_block)

    def block(number: int) -> Streamed:
        return Streamed((lengths[number], d), dtype, lambda start, stop: cached(number)[start:stop])

    return stack_rows([block(number) for number in range(len(lengths))])
