"""The project's only clock, and the threads that run while it ticks."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from threadpoolctl import threadpool_limits


class Stopwatch:
    """Seconds of wall time that passed inside a ``with`` block.

    Attributes
    ----------
    seconds : float
        Duration of the last block.
    """

    seconds: float = 0.0

    def __enter__(self) -> "Stopwatch":
        self._start = perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = perf_counter() - self._start


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Limit BLAS and OpenMP to ``threads`` while a block runs.

    Entering costs milliseconds, so it belongs around many trials, not around one.
    """
    with threadpool_limits(limits=threads):
        yield


def pin(threads: int) -> None:
    """Limit BLAS and OpenMP to ``threads`` for the rest of this process, as a worker does once."""
    threadpool_limits(limits=threads)
