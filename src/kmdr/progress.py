"""What a person sees of a run: tasks done, rate, time left, failures."""

import sys
from collections.abc import Iterable

from tqdm import tqdm

from kmdr.task import Row

# A log file gets a line now and then instead of a bar that redraws itself.
_QUIET_SECONDS = 20.0


class Progress:
    """A progress bar over tasks that prints a line for each kind of failure as it happens.

    Parameters
    ----------
    total : int
        Tasks to do.
    """

    def __init__(self, total: int) -> None:
        terminal = sys.stderr.isatty()
        self.failures = 0
        self._seen: set[tuple[str, str, str]] = set()
        self._bar = tqdm(
            total=total,
            unit="task",
            file=sys.stderr,
            dynamic_ncols=terminal,
            ascii=not terminal,
            mininterval=0.1 if terminal else _QUIET_SECONDS,
            maxinterval=10.0 if terminal else _QUIET_SECONDS,
            bar_format="{desc}{percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} tasks, {rate_fmt}, "
            "{elapsed} gone, {remaining} left{postfix}",
        )

    def stage(self, name: str) -> None:
        """Name what is being done."""
        self._bar.set_description_str(f"{name}: ", refresh=False)

    def advance(self, rows: Iterable[Row]) -> None:
        """Count a task as done and tell of the failures among its rows."""
        for row in rows:
            if row["status"] == "ok":
                continue
            self.failures += 1
            kind = (row["dataset"], row["reducer"], row["error"])
            if kind not in self._seen:
                self._seen.add(kind)
                where = f"{row['dataset']} {row['reducer']} r={row['r']} repeat={row['repeat']}"
                self._bar.write(f"failed: {where}: {row['error']}", file=sys.stderr)
        if self.failures:
            self._bar.set_postfix_str(f"{self.failures} failed", refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Leave the bar as it is and end the line."""
        self._bar.close()
