"""Steps of trials that draw no random number, computed once per process for all repetitions that share them.

Exact singular vectors, Laplacian scores or locally linear embeddings are the same in each repetition, and so is what
follows from them until something is drawn. Whether a step draws is observed: one that left its generator unchanged
would give the same result with any other.
"""

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kmdr.base.timing import Stopwatch

# Bytes that kept results may take in a process. The results of a run are needed in turn, so the first that fit stay.
_MOST_BYTES = 2**28
# Seconds that a result must have cost to be kept, in all and per byte; copying takes a thirtieth of that.
_LEAST_SECONDS, _WORTH = 1e-4, 1e-8

Key = tuple[Any, ...]


class Done(NamedTuple):
    """The result of a step.

    Attributes
    ----------
    seconds : float or None
        Time it took; None if the result of an earlier repetition was used.
    key : tuple or None
        What ``value`` is a function of; None if that includes random numbers or is unknown.
    """

    value: Any
    seconds: float | None
    key: Key | None


_kept: dict[Key, tuple[bytes, list[bytes]]] = {}


def do_once(key: Key | None, rng: np.random.Generator | None, step: Callable[[], Any], spent: float = 0.0) -> Done:
    """Do a step, unless an earlier one with this key drew nothing and its result was kept.

    Parameters
    ----------
    key : tuple or None
        Everything the step depends on except ``rng``; None to do it in any case.
    rng : numpy.random.Generator or None
        What the step draws from, if anything.
    step : callable
        Takes no arguments.
    spent : float
        Seconds spent on it before.

    Returns
    -------
    Done
        A kept value is copied, and as writable as the first.
    """
    if key in _kept:
        head, buffers = _kept[key]
        return Done(pickle.loads(head, buffers=[bytearray(buffer) for buffer in buffers]), None, key)
    before = _state(rng)
    with Stopwatch() as watch:
        value = step()
    seconds = spent + watch.seconds
    if key is not None and _state(rng) != before:
        key = None
    if key is not None:
        _keep(key, value, seconds)
    return Done(value, seconds, key)


def is_kept(key: Key | None) -> bool:
    """Return whether `do_once` has the result of a step."""
    return key in _kept


def extend(key: Key | None, *more: Any) -> Key | None:
    """Return the key of a step that depends on ``key`` and on more; None without a key."""
    return None if key is None else (*key, *more)


def make_and_check(rng: np.random.Generator, make: Callable[[np.random.Generator], Any]) -> tuple[Any, bool]:
    """Return the value that a function makes with a generator, and whether it drew nothing."""
    before = _state(rng)
    return make(rng), _state(rng) == before


def _state(rng: np.random.Generator | None) -> Any:
    """Return everything that drawing numbers or spawning generators changes."""
    if rng is None:
        return None
    source: Any = rng.bit_generator
    return source.state, source.seed_seq.n_children_spawned


def _keep(key: Key, value: Any, seconds: float) -> None:
    """Keep a value if it is small for what it cost, fits the memory limit and can be pickled."""
    if seconds < _LEAST_SECONDS:
        return
    views: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=views.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return
    size = len(head) + sum(view.raw().nbytes for view in views)
    taken = sum(len(head) + sum(map(len, buffers)) for head, buffers in _kept.values())
    if size * _WORTH <= seconds and size <= _MOST_BYTES - taken:
        _kept[key] = head, [bytes(view.raw()) for view in views]
