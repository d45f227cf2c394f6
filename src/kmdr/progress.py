"""What a person sees of a run: tasks done, rate, time left, failures."""

import sys
from collections.abc import Iterable
from time import monotonic

from tqdm import tqdm

from kmdr.task import Row

_BAR = "{desc}{percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} tasks, {rate_fmt}, {elapsed}, {remaining} left{postfix}"
# A log file gets a line now and then instead of a bar that redraws itself.
_LINE_SECONDS = 15.0


class Progress:
    """A progress bar over tasks, on a terminal; elsewhere a line every few seconds.

    Parameters
    ----------
    total : int
        Tasks to do.
    """

    def __init__(self, total: int) -> None:
        self._terminal = sys.stderr.isatty()
        self._seen: set[tuple[str, str, str]] = set()
        self._failures = 0
        self._stage = ""
        self._printed = monotonic()
        self._bar = tqdm(total=total, unit="task", bar_format=_BAR, dynamic_ncols=True, disable=not self._terminal)
        self._total, self._done, self._start = total, 0, monotonic()

    def stage(self, name: str) -> None:
        """Name what is being done."""
        self._stage = f"{name}: "
        self._bar.set_description_str(self._stage, refresh=False)

    def advance(self, rows: Iterable[Row]) -> None:
        """Count a task as done and tell of the failures among its rows, once for each kind."""
        for row in rows:
            if row["status"] == "ok":
                continue
            self._failures += 1
            kind = (row["dataset"], row["reducer"], row["error"])
            if kind not in self._seen:
                self._seen.add(kind)
                where = f"{row['dataset']} {row['reducer']} r={row['r']} repeat={row['repeat']}"
                self._bar.write(f"failed: {where}: {row['error']}", file=sys.stderr)
        self._done += 1
        if self._terminal:
            self._bar.set_postfix_str(self._postfix(), refresh=False)
            self._bar.update()
        elif monotonic() - self._printed > _LINE_SECONDS or self._done == self._total:
            self._printed = monotonic()
            line = tqdm.format_meter(
                self._done, self._total, monotonic() - self._start, prefix=self._stage, ascii=True, unit="task",
                bar_format=_BAR, postfix=self._postfix(),
            )  # fmt: skip
            print(line, file=sys.stderr, flush=True)

    def _postfix(self) -> str:
        return f"{self._failures} failed" if self._failures else ""

    def close(self) -> None:
        """Leave the bar as it is and end the line."""
        self._bar.close()
