"""The project's only clock."""

from time import perf_counter


class Stopwatch:
    """Measures the wall time of a ``with`` block: ``seconds`` is the duration of the last one."""

    seconds: float = 0.0

    def __enter__(self) -> "Stopwatch":
        self._start = perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = perf_counter() - self._start
