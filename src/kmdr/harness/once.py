"""Steps of trials that draw no random number, done once a process for all the repetitions that share them.

Exact singular vectors, Laplacian scores or locally linear embeddings are the same in each repetition, and so is what
follows from them as long as nothing is drawn. Whether something is drawn is seen, not said: a step that left its
generator as it was would give the same with any other.
"""

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kmdr.base.timing import Stopwatch

# Bytes that results may take in a process. Those of a run come round in turn, so the first that fit stay.
_ROOM = 2**28
# What a result must have cost to be kept, and in seconds a byte: copying it takes a thirtieth.
_LEAST_SECONDS, _WORTH = 1e-4, 1e-8

# What a result is a function of.
Key = tuple[Any, ...]


class Done(NamedTuple):
    """A step that is done.

    Attributes
    ----------
    value : object
    seconds : float or None
        What it took; None where the result of an earlier repetition served.
    key : tuple or None
        What ``value`` is a function of; None where that includes random numbers, or is not known.
    """

    value: Any
    seconds: float | None
    key: Key | None


_kept: dict[Key, tuple[bytes, list[bytes]]] = {}


def once(key: Key | None, rng: np.random.Generator | None, step: Callable[[], Any], spent: float = 0.0) -> Done:
    """Do a step, unless an earlier one with this key drew nothing and what it gave was kept.

    Parameters
    ----------
    key : tuple or None
        All that the step depends on but ``rng``; None to do it in any case.
    rng : numpy.random.Generator or None
        What it draws from, if anything.
    step : callable
        Without arguments.
    spent : float
        Seconds that went into it before.

    Returns
    -------
    Done
        A value that was kept is a copy, as writable as the first.
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
    """Tell whether `once` has the result of a step."""
    return key in _kept


def under(key: Key | None, *more: Any) -> Key | None:
    """Return the key of a step that depends on what has ``key`` and on some more; None where that has none."""
    return None if key is None else (*key, *more)


def untouched(rng: np.random.Generator, make: Callable[[np.random.Generator], Any]) -> tuple[Any, bool]:
    """Return what is made with a generator, and whether nothing was drawn from it."""
    before = _state(rng)
    return make(rng), _state(rng) == before


def _state(rng: np.random.Generator | None) -> Any:
    """Return all that drawing numbers or spawning generators changes."""
    if rng is None:
        return None
    source: Any = rng.bit_generator
    return source.state, source.seed_seq.n_children_spawned


def _keep(key: Key, value: Any, seconds: float) -> None:
    """Keep a value, if it is small for what it cost, there is room, and it can be copied."""
    if seconds < _LEAST_SECONDS:
        return
    views: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=views.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return
    size = len(head) + sum(view.raw().nbytes for view in views)
    taken = sum(len(head) + sum(map(len, buffers)) for head, buffers in _kept.values())
    if size * _WORTH <= seconds and size <= _ROOM - taken:
        _kept[key] = head, [bytes(view.raw()) for view in views]
