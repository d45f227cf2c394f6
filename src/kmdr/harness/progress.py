"""Progress of a run on the terminal: tasks done, time left, failures."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Self, TextIO

from tqdm import tqdm

from kmdr.base.text import Volume, counted, single_line, tell, unescaped
from kmdr.harness.task import seconds_inside
from kmdr.results.schema import Row

_BAR = "{percentage:3.0f}%|{bar:20}| {desc}"
# Interval of lines in a log file, which has no bar that redraws itself.
_LINE_SECONDS = 15.0
# After this time, measured seconds weigh more than expected ones.
_PRIOR_SECONDS = 10.0
# The largest share of a compilation that the bar shows before its end.
_MOST_COMPILED = 0.95


def _redraws(stream: TextIO | None) -> bool:
    """Return whether a stream shows a line that is written again: on a terminal or in a notebook."""
    if type(stream).__module__.startswith("ipykernel"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """One progress bar over a whole run on a terminal or in a notebook, elsewhere a line every few seconds.

    The bar and the time left follow ``seconds``, the expected seconds of all tasks together, not the number of tasks. A
    quiet run shows nothing. As a context it ends at 100 %, unless the block raises.

    Parameters
    ----------
    tasks : int
        Number of tasks; 0 if their number is not known.
    seconds : float
        Expected seconds of all tasks.
    lines : bool
        If True, print a line every few seconds when the output cannot show a bar.
    """

    def __init__(self, tasks: int, seconds: float, *, lines: bool = True) -> None:
        stream = unescaped(sys.stderr)
        self._has_bar = Volume.level >= 0 and seconds > 0 and _redraws(stream)
        self._has_lines = Volume.level >= 0 and lines and not self._has_bar
        self._seen: set[tuple[str, str, str]] = set()
        self._failures = 0
        self._stage = ""
        self._tasks, self._tasks_done = tasks, 0
        self._seconds, self._seconds_done = max(seconds, 1e-9), 0.0
        self._start = self._printed = monotonic()
        self._bar = tqdm(
            total=self._seconds, bar_format=_BAR, dynamic_ncols=True, disable=not self._has_bar, file=stream
        )
        self._compiling = 0.0, 0.0  # since when, and how long it takes
        self._ended = Event()
        if self._has_bar:
            Thread(target=self._redraw_every_second, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        with suppress(OSError, ValueError):  # a closed terminal does not stop the run
            if kind is None:
                self._finish()
            self._bar.close()

    def _finish(self) -> None:
        self._stage, self._seconds_done = "", self._seconds
        tasks = f"{self._tasks_done}/{self._tasks} tasks, " if self._tasks else ""
        words = f"{tasks}{tqdm.format_interval(monotonic() - self._start)}{self._failed()}"
        if self._has_bar:
            self._bar.set_description_str(words, refresh=False)
            self._bar.update(self._seconds - self._bar.n)
            self._bar.refresh()
        elif self._has_lines and self._tasks:
            tell(f"100% {words}")

    def _redraw_every_second(self) -> None:
        while not self._ended.wait(1.0):
            start, seconds = self._compiling
            with suppress(OSError, ValueError):
                self._bar.n = self._seconds_done + min(monotonic() - start, _MOST_COMPILED * seconds)
                self._bar.set_description_str(self._words())

    def stage(self, name: str) -> None:
        """Name what is being done."""
        stage = f"{single_line(name)}: "
        if stage == self._stage:
            return
        self._stage = stage
        with suppress(OSError):
            self._bar.set_description_str(self._words())

    @contextmanager
    def compiling(self, seconds: float) -> Iterator[None]:
        """Show that kernels are compiled in this block, which takes about this long; the bar follows the clock."""
        self._seconds += seconds
        self._bar.total = self._seconds
        reason = f"compiling kernels, first run only, about {seconds:.0f} s"
        if self._has_lines:
            tell(reason)
        self.stage(reason)
        self._compiling = monotonic(), seconds
        try:
            yield
        finally:
            self._compiling = 0.0, 0.0
            self._count(seconds)

    def making(self, name: str) -> None:
        """Name a fact, table, figure or other part of the report that is being made, and count a second for it."""
        self._stage = f"making {single_line(name)}: "
        self._count(1.0)

    def advance(self, rows: Iterable[Row], seconds: float) -> None:
        """Count a task as done, with the seconds it was expected to take.

        Failures among its rows are reported once per kind; with ``--verbose`` each task is.
        """
        rows = list(rows)
        for row in rows:
            if row["status"] == "ok":
                continue
            self._failures += 1
            kind = (row["dataset"], row["reducer"], row["error"])
            if kind not in self._seen:
                self._seen.add(kind)
                where = f"{row['dataset']} {row['reducer']} r={row['r']} repeat={row['repeat']}"
                self.tell(f"failed: {where}: {row['error']}")
        if rows and Volume.level > 0:
            row = rows[0]
            trials = f"{row['dataset']} {row['reducer']} repeat={row['repeat']}: {counted(len(rows), 'trial')}"
            self.tell(f"{trials}, {seconds_inside(rows):.3g} s")
        self._tasks_done += 1
        self._count(seconds)

    def _count(self, seconds: float) -> None:
        self._seconds_done = min(self._seconds, self._seconds_done + seconds)
        if self._has_bar:
            with suppress(OSError):  # a closed terminal does not stop the run
                self._bar.set_description_str(self._words(), refresh=False)
                self._bar.update(self._seconds_done - self._bar.n)
        elif self._has_lines and monotonic() - self._printed > _LINE_SECONDS:
            self._printed = monotonic()
            share = self._seconds_done / self._seconds
            tell(f"{share:4.0%} {self._words()}")

    def _words(self) -> str:
        elapsed = monotonic() - self._start
        if self._compiling[1]:
            return f"{self._stage}{tqdm.format_interval(elapsed)}"
        slowness = (elapsed + _PRIOR_SECONDS) / (self._seconds_done + _PRIOR_SECONDS)
        remaining = (self._seconds - self._seconds_done) * slowness
        tasks = f"{self._tasks_done}/{self._tasks} tasks, " if self._tasks else ""
        times = f"{tqdm.format_interval(elapsed)}, {tqdm.format_interval(remaining)} left"
        return f"{self._stage}{tasks}{times}{self._failed()}"

    def _failed(self) -> str:
        return f", {self._failures} failed" if self._failures else ""

    def tell(self, line: str) -> None:
        """Print a line above the bar."""
        with tqdm.external_write_mode(unescaped(sys.stderr)):
            tell(line)
