"""The number of threads of a computation, and threads for kmdr's own kernels."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

from threadpoolctl import ThreadpoolController, threadpool_limits

_threads = 1


def pin(threads: int) -> None:
    """Limit BLAS, OpenMP and kmdr's kernels to ``threads`` for the rest of this process."""
    global _threads  # noqa: PLW0603  a property of the process, like the limit of BLAS
    _threads = threads
    threadpool_limits(limits=threads)


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and kmdr's kernels to ``threads`` while a block runs.

    Entering takes milliseconds, so use it around many trials, not around each.
    """
    global _threads  # noqa: PLW0603
    before, _threads = _threads, threads
    try:
        with threadpool_limits(limits=threads):
            yield
    finally:
        _threads = before


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "kmdr")


def process_row_blocks(n: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` on slices that together cover n rows, on as many threads as this process is pinned to.

    Threads help only in code that releases the GIL, such as compiled kernels with ``nogil``. What ``work`` writes must
    depend on its rows alone, so that the result does not depend on the number of threads.
    """
    if _threads == 1:
        work(slice(0, n))
        return
    parts = max(min(_threads, n), 1)
    blocks = [slice(lo, hi) for lo, hi in pairwise(n * i // parts for i in range(parts + 1))]
    # Otherwise each thread would start as many threads of BLAS; for the small products of kernels, they mostly wait.
    with _libraries().limit(limits=1):
        others = [_pool(_threads - 1).submit(work, block) for block in blocks[1:]]
        work(blocks[0])
        for other in others:
            other.result()
