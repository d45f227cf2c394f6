"""Getting all datasets: downloads side by side, then one matrix after the other."""

from collections.abc import Iterable, Iterator
from multiprocessing.pool import ThreadPool
from typing import NamedTuple

from kmdr.base.errors import UserError
from kmdr.datasets.acquire.find import UnavailableError, obtain
from kmdr.datasets.availability import availability_of
from kmdr.datasets.preparation import load
from kmdr.datasets.registry import entry, names

_PARALLEL_DOWNLOADS = 4


class Fetched(NamedTuple):
    """The result of fetching a dataset.

    `line` says that it is ready and its source, or why it is missing. `ok` is False if a file or a matrix failed its
    check; True if the dataset is ready or merely not reachable. `tried` is that of an `UnavailableError`.
    """

    name: str
    line: str
    ok: bool
    tried: tuple[str, ...] = ()


def fetch_all(which: Iterable[str] | None = None) -> Iterator[Fetched]:
    """Prepare datasets, by default all except ``file``; one that is not available does not stop the others.

    Files are downloaded in parallel. Matrices are loaded one after the other, so that only one is in memory at a time.
    """
    wanted = list(dict.fromkeys([name for name in names() if name != "file"] if which is None else which))
    # Unlike the threads of an executor, these do not keep the process alive.
    with ThreadPool(_PARALLEL_DOWNLOADS) as pool:
        fetched = {name: pool.apply_async(_fetch, (name,)) for name in wanted}
        for name in wanted:
            try:
                fetched[name].get()
                dataset = load(name)
            except UnavailableError as e:
                yield Fetched(name, f"{name}: missing: {e}", not e.failed_check, e.tried)
            except (UserError, OSError) as e:
                yield Fetched(name, f"{name}: failed: {e}", False)
            else:
                n, d = dataset.A.shape
                yield Fetched(name, f"{name}: ready, {n} x {d}, from {dataset.source}", True)


def _fetch(name: str) -> None:
    if availability_of(name).state == "remote":
        obtain(entry(name))
