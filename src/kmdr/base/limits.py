"""Limits on a trial: its time, its memory, and the moment at which the time budget of its run ends.

A process at work announces the beginning of each trial, and the process that waits for it watches the clock and the
memory, and kills it: compiled code that never returns, or never releases the interpreter, is stopped like any other.
`kmdr.harness.engines.local` does this for processes of this machine; `kmdr.harness.engines.contract` runs such a
process within a worker of Dask or Ray.

Other sizes are limited where they arise: matrices before they are allocated by `kmdr.base.errors.check_memory`, data
files by `kmdr.datasets.formats.common`, and files of a results folder by `kmdr.results.folder` and
`kmdr.results.table_stream`.
"""

import math
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kmdr.base.process import release_memory
from kmdr.base.signals import process_tree

# Memory of a process that is neither shared nor a copy of a file, in memory or swapped, in kB.
_ANONYMOUS = re.compile(r"^(?:RssAnon|VmSwap):\s+(\d+)", re.MULTILINE)
# Letters of sizes, as in 2G, and their powers of two.
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass(frozen=True)
class Begun:
    """The beginning of a trial, with the bytes of memory that its process had by then."""

    memory: int


@dataclass(frozen=True)
class Limit:
    """The time and the memory that a trial may take; by default as much as it needs.

    Attributes
    ----------
    seconds : float or None
        Wall time of a trial of one r: to prepare, reduce, cluster and score. Its warm-up has the same time again.
    memory : int or None
        Bytes that its process and the processes it starts take in addition to what they have when it begins. Mapped
        files and shared memory do not count.
    until : float
        Seconds since the epoch after which everything is stopped.
    names : tuple of str
        The names by which the user sets seconds and memory, for messages.
    """

    seconds: float | None = None
    memory: int | None = None
    until: float = math.inf
    names: tuple[str, str] = ("runner.limit.seconds", "runner.limit.memory")

    @property
    def is_limited(self) -> bool:
        """Return whether it limits anything: a trial, or the run."""
        return self.limits_trials or self.until != math.inf

    @property
    def limits_trials(self) -> bool:
        """Return whether it limits each trial, and not only the run."""
        return self.seconds is not None or self.memory is not None

    def is_over(self) -> bool:
        """Return whether everything is to be stopped."""
        return time.time() > self.until

    def excess(self, pid: int, since: float, memory: int) -> str:
        """Return the reason to stop a trial of a process; empty if it is within its limits.

        ``since`` is when it began, as `time.monotonic` states it, and ``memory`` what its process had by then.
        """
        if self.seconds is not None and time.monotonic() - since > self.seconds:
            return f"stopped: it took more than {self.seconds:g} s; raise {self.names[0]} to allow more"
        if self.memory is not None and memory_of(pid) - memory > self.memory:
            size = size_text(self.memory)
            return f"stopped: it took more than {size} of memory; raise {self.names[1]} to allow more"
        return ""


UNLIMITED = Limit()


def size_text(size: int) -> str:
    """Return bytes as text with the largest unit that needs no fraction.

    Examples
    --------
    >>> size_text(2 << 30), size_text(1536 << 20), size_text(1000)
    ('2G', '1536M', '1000')
    """
    unit = max((letter for letter, power in _POWERS.items() if size % (1 << power) == 0), key=_POWERS.__getitem__)
    return f"{size >> _POWERS[unit]}{unit}"


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as ``500M`` or ``2GB``; None if it is not one.

    Examples
    --------
    >>> parse_size("2G") == parse_size("2gb") == 2 << 30
    True
    """
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text.strip(), re.IGNORECASE | re.ASCII)
    return int(match[1]) << _POWERS[match[2].upper()] if match else None


def can_measure_memory() -> bool:
    """Return whether this system states the memory of processes as `memory_of` needs it."""
    return _anonymous(os.getpid()) > 0


def _anonymous(pid: int) -> int:
    with suppress(OSError):  # it ended
        return 1024 * sum(map(int, _ANONYMOUS.findall(Path(f"/proc/{pid}/status").read_text("ascii", "replace"))))
    return 0


def memory_of(pid: int) -> int:
    """Return the bytes of anonymous memory of a process and its descendants."""
    return sum(map(_anonymous, process_tree(pid)))


class _State:
    announce: Callable[[Begun], object] | None = None
    limit = UNLIMITED


def watch(limit: Limit, announce: Callable[[Begun], object]) -> None:
    """Let ``announce`` inform the process that watches this one of each `begin`."""
    _State.limit, _State.announce = limit, announce


def is_watched() -> bool:
    """Return whether trials of this process have limits."""
    return _State.announce is not None


def begin() -> None:
    """Begin a trial, whose time and memory count from here; without limits do nothing."""
    if _State.announce is None:
        return
    memory = 0
    if _State.limit.memory is not None:
        release_memory()
        memory = memory_of(os.getpid())
    _State.announce(Begun(memory))
