"""Progress of a run on the terminal: tasks done, time left, failures."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic

from tqdm import tqdm

from kmdr.base.text import Volume, single_line, tell, unescaped
from kmdr.harness.task import seconds_inside
from kmdr.results.schema import Row

_BAR = "{percentage:3.0f}%|{bar:20}| {desc}"
# Interval of lines in a log file, which has no bar that redraws itself.
_LINE_SECONDS = 15.0
# After this time, measured seconds weigh more than expected ones.
_PRIOR_SECONDS = 10.0


class Progress:
    """One progress bar over a whole run on a terminal, elsewhere a line every few seconds; nothing in a quiet run.

    The bar and the time left follow ``seconds``, the expected seconds of all tasks together, not the number of tasks.
    """

    def __init__(self, tasks: int, seconds: float) -> None:
        self._terminal = sys.stderr.isatty() and Volume.level >= 0
        self._seen: set[tuple[str, str, str]] = set()
        self._failures = 0
        self._stage = ""
        self._tasks, self._tasks_done, self._tasks_printed = tasks, 0, 0
        self._seconds, self._seconds_done = max(seconds, 1e-9), 0.0
        self._start = self._printed = monotonic()
        self._bar = tqdm(
            total=self._seconds,
            bar_format=_BAR,
            dynamic_ncols=True,
            disable=not self._terminal,
            file=unescaped(sys.stderr),
        )

    def stage(self, name: str) -> None:
        """Name what is being done."""
        stage = f"{single_line(name)}: "
        if stage == self._stage:
            return
        self._stage = stage
        with suppress(OSError):
            self._bar.set_description_str(self._words())

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
            trials = f"{row['dataset']} {row['reducer']} repeat={row['repeat']}: {len(rows)} trials"
            self.tell(f"{trials}, {seconds_inside(rows):.3g} s")
        self._tasks_done += 1
        self._count(seconds)

    def _count(self, seconds: float) -> None:
        self._seconds_done = min(self._seconds, self._seconds_done + seconds)
        if self._terminal:
            with suppress(OSError):  # a closed terminal does not stop the run
                self._bar.set_description_str(self._words(), refresh=False)
                self._bar.update(self._seconds_done - self._bar.n)
        elif Volume.level >= 0 and (
            monotonic() - self._printed > _LINE_SECONDS or self._tasks_done == self._tasks > self._tasks_printed
        ):
            self._printed, self._tasks_printed = monotonic(), self._tasks_done
            share = self._seconds_done / self._seconds
            tell(f"{share:4.0%} {self._words()}")

    def _words(self) -> str:
        elapsed = monotonic() - self._start
        slowness = (elapsed + _PRIOR_SECONDS) / (self._seconds_done + _PRIOR_SECONDS)
        remaining = (self._seconds - self._seconds_done) * slowness
        tasks = f"{self._tasks_done}/{self._tasks} tasks, " if self._tasks else ""
        words = f"{self._stage}{tasks}{tqdm.format_interval(elapsed)}, {tqdm.format_interval(remaining)} left"
        return words + (f", {self._failures} failed" if self._failures else "")

    def tell(self, line: str) -> None:
        """Print a line above the bar."""
        with tqdm.external_write_mode(unescaped(sys.stderr)):
            tell(line)

    def close(self) -> None:
        """End the line of the bar."""
        with suppress(OSError):
            self._bar.close()
