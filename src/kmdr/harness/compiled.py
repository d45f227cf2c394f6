"""Compile kernels on all cores before the first run times anything.

Numba keeps compiled code, so this happens once per installation. A worker that meets an uncompiled kernel compiles it
too, but one after the other, for most of a minute, while the other cores wait for what is timed.
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

# About how long one process takes to compile what a run needs; most of it is one part, so more than two gain little.
COMPILE_SECONDS = 40.0
# Reducer, its parameters, and whether the data are sparse.
Part = tuple[str, str, bool]


def is_compiled() -> bool:
    """Return whether kernels were compiled here, perhaps of an older version, or never are, as in a debugger."""
    folder = getattr(getattr(run_starts, "_cache", None), "cache_path", None)
    return folder is None or next(Path(folder).glob("*.nbi"), None) is not None


def parts(tasks: Sequence[Task]) -> list[Part]:
    """Return the kernels that tasks need: k-means and scores, as reducer none, then each reducer, for dense and sparse.

    Tasks with another k-means engine are skipped: compiling kmdr's own for them would only delay them. Third-party
    reducers are skipped too: they run in trials only, which may have limits.
    """
    own_engine = (task for task in tasks if task.protocol.engine == "kmdr")
    kinds = {(task.reducer, task.params, task.nnz < task.n * task.d) for task in own_engine}
    rest = {("none", "{}", sparse) for _, _, sparse in kinds}
    return [*sorted(rest), *sorted(part for part in kinds - rest if not reducers.origin_of_reducer(part[0]))]


def compile_part(reducer: str, params: str, sparse: bool) -> None:
    """Compile what one of `parts` needs; errors are left to the trial that will report them."""
    with suppress(Exception):
        if reducer == "none":
            for name in ("none", "leverage"):  # mapped data are read-only, reduced data are not
                warm_up(name, "{}", Protocol(1, 2), sparse, False, "float64", True)
            return
        allow(reducer)
        instance = reducers.make_allowed(reducer, json.loads(params))
        for A in tiny_matrices(sparse, "float64"):
            rng = generator(0, "warm-up")
            instance.reduce(A, 2, rng, instance.prepare(A, 2, rng))


def compile_kernels(some: Iterable[Part], processes: int, tell: Callable[[str], None]) -> None:
    """Compile some of `parts` in parallel processes, or in this one if ``processes`` is 0."""
    if not processes:
        for part in some:
            compile_part(*part)
        return
    with Workers(compile_part, 1, tell) as workers:
        deque(workers.run(some, processes, lambda part: f"compiling {part[0]}"), maxlen=0)
