"""The project's only clock."""

from time import perf_counter


class Stopwatch:
    """Seconds of wall time that passed inside a ``with`` block.

    Attributes
    ----------
    seconds : float
        Duration of the last block.
    """

    seconds: float = 0.0

    def __enter__(self) -> "Stopwatch":
        self._start = perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = perf_counter() - self._start
