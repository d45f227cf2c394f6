"""Compiling the kernels of a first run on all cores before anything is timed.

Numba keeps what it compiled, so that this is done once an installation. A worker that meets kernels that nobody has
compiled does it by itself, too, but one after the other, for most of a minute, while the other cores have nothing to do
beside what is timed.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from kmdr import reducers
from kmdr.base.outside import allow
from kmdr.base.seeding import generator
from kmdr.clustering.kmeans import Protocol
from kmdr.clustering.lloyd import run_starts
from kmdr.config.task import Task
from kmdr.harness.engines.local import Workers
from kmdr.harness.task import tiny_matrices, warm_up

# A reducer, its parameters, and whether the data are sparse.
Part = tuple[str, str, bool]


def is_compiled() -> bool:
    """Tell whether kernels were compiled here before, perhaps of another version, or never are, as under a debugger."""
    folder = getattr(getattr(run_starts, "_cache", None), "cache_path", None)
    return folder is None or next(Path(folder).glob("*.nbi"), None) is not None


def parts(tasks: Sequence[Task]) -> list[Part]:
    """Return what tasks take: k-means and scores, as of no reducer, then each reducer; of dense and of sparse data.

    Nothing of those whose k-means is another's: to compile ours for them would only keep them waiting.
    """
    ours = (task for task in tasks if task.protocol.engine == "kmdr")
    kinds = {(task.reducer, task.params, task.nnz < task.n * task.d) for task in ours}
    rest = {("none", "{}", sparse) for _, _, sparse in kinds}
    return [*sorted(rest), *sorted(kinds - rest)]


def compile_part(reducer: str, params: str, sparse: bool) -> None:
    """Compile what one of `parts` takes; what fails is left to the trial that will tell of it."""
    with suppress(Exception):
        if reducer == "none":
            for name in ("none", "leverage"):  # what is mapped is read-only and what is reduced is not
                warm_up(name, "{}", Protocol(1, 2), sparse, False, "float64", True)
            return
        allow(reducer)
        made = reducers.make_allowed(reducer, json.loads(params))
        for A in tiny_matrices(sparse, "float64"):
            rng = generator(0, "warm-up")
            made.reduce(A, 2, rng, made.prepare(A, 2, rng))


def compile_kernels(some: Iterable[Part], processes: int, tell: Callable[[str], None]) -> None:
    """Compile some of `parts`, as many at a time as there are to be processes."""
    with Workers(compile_part, 1, tell) as workers:
        deque(workers.run(some, processes, lambda part: f"compiling {part[0]}"), maxlen=0)
