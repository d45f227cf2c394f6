"""Share the returned content, memory limits and one-sentence errors among all readers of files."""

import bz2
import codecs
import gzip
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError
from kmdr.datasets.acquire.archives import DAMAGED
from kmdr.linalg.matrix import read_only

COMPRESSED: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
READ_BYTES = 2**22
# A matrix may take this multiple of the size of its file in memory, or option ``max_gb`` if that is more.
_PLAUSIBLE = 20


@dataclass
class Content:
    """The content of a file before any treatment.

    A is an ndarray, a sparse array, a `Streamed`, or a DataFrame for tables, which may have text. It is read-only, so
    that inspecting a file cannot change its data.
    """

    A: Any
    labels: Any = None  # as they are in the file
    features: tuple[str, ...] | None = None  # names of the columns, if A is not a table
    form: str = ""  # the detected format in words
    labelled: str = ""  # where the labels are, in words
    further: tuple[tuple[Any, str], ...] = ()  # further reference labelings, as they are in the file, and where
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make the matrix read-only."""
        self.A = read_only(self.A)

    @property
    def labelings(self) -> list[tuple[Any, str]]:
        """All reference labelings, each with where it is."""
        return [] if self.labels is None else [(self.labels, self.labelled), *self.further]

    @labelings.setter
    def labelings(self, labelings: Sequence[tuple[Any, str]]) -> None:
        (self.labels, self.labelled), *further = labelings
        self.further = tuple(further)


def visible_files(folder: Path, deep: bool = True) -> list[Path]:
    """Return the files in a folder, and if `deep` in its subfolders, but not what is hidden or made by an archiver.

    A subfolder may be a link to one; links to folders below it are not followed, so that no loop is.
    """
    try:
        paths = list(folder.iterdir())
        if deep:
            paths += [path for part in paths if part.is_dir() for path in part.rglob("*")]
        inner = [(path, path.relative_to(folder).parts) for path in paths]
        shown = [path for path, parts in inner if not any(part.startswith((".", "__MACOSX")) for part in parts)]
        return [path for path in shown if path.is_file()]
    except OSError as e:
        raise UserError(f"{folder} cannot be read ({e.strerror}); choose a readable folder") from e


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``2.png`` before ``10.png``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name) if part]


def memory_limit(paths: Sequence[Path], max_gb: float) -> float:
    """Return the bytes that the matrix of some files may take in memory."""
    if not max_gb > 0:
        raise UserError(f"option max_gb is {max_gb}; give a number greater than 0")
    return max(max_gb * 1e9, _PLAUSIBLE * sum(path.stat().st_size for path in paths if path.exists()))


def afford(path: Path, what: str, needed: float, limit: float) -> None:
    """Refuse a file whose matrix takes more memory than the limit; `what` says what the file claims or unpacks to."""
    if needed > limit:
        raise UserError(
            f"{path.name} {what}: {needed / 1e9:.3g} GB, but {limit / 1e9:.3g} GB are allowed for a file of its "
            "size; if the file is right, allow more with dataset.max_gb=…"
        )


def afford_shape(path: Path, shape: Sequence[int], limit: float) -> None:
    """Refuse a sparse matrix by its shape: every method needs at least one number per row and per column."""
    afford(path, f"claims the shape {' x '.join(map(str, shape))}", 8.0 * sum(map(int, shape)), limit)


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn any error that a library raises on a damaged or unsuitable file into one sentence."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as e:
        raise UserError(f"there is no file {path}") from e
    except Exception as e:  # libraries raise all kinds of errors on damaged files
        if any(words in str(e) for words in ("allow_pickle", "pickled data", "Python objects in dtype")):
            raise UserError(
                f"{path.name} holds Python objects, which could run any code when read; save plain numbers"
            ) from e
        raise UserError(f"{path.name} is not a readable {kind} file: {' '.join(str(e).split())}") from e


def open_unpacked(path: Path, mode: str = "rb", **options: Any) -> Any:
    """Open a file, which is unpacked if its extension is that of a compressed one, as `open` does."""
    return COMPRESSED.get(path.suffix.lower(), open)(path, mode, **options)


def unpacked(path: Path, limit: float) -> Iterator[bytes]:
    """Yield the content of a file in blocks, unpacked if it is compressed; refuse more than the limit."""
    total = 0
    with open_unpacked(path) as file:
        try:
            while block := file.read(READ_BYTES):
                total += len(block)
                afford(path, "unpacks to too much: at least", total, limit)
                yield block
        except DAMAGED as e:
            raise UserError(f"{path.name} is damaged or truncated ({e}); download it again") from e


def text_encoding(path: Path, kind: str, blocks: Iterable[bytes]) -> str:
    """Return the encoding of a text, UTF-8 or else Windows-1252, after all of its blocks; refuse null bytes."""
    utf8, encoding = codecs.getincrementaldecoder("utf-8-sig")(), "utf-8-sig"
    for block in blocks:
        if b"\0" in block:
            raise UserError(f"{path.name} is not a readable {kind} file: it contains null bytes; save it as UTF-8 text")
        if encoding != "cp1252":
            try:
                utf8.decode(block)
            except UnicodeDecodeError:
                encoding = "cp1252"
    return encoding


def decoded(path: Path, kind: str, data: bytes) -> tuple[str, str]:
    """Return a text and its encoding, UTF-8 or else Windows-1252."""
    encoding = text_encoding(path, kind, [data])
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as e:
        raise UserError(
            f"{path.name} is not a readable {kind} file: it is neither UTF-8 nor Windows-1252; save it as UTF-8 text"
        ) from e


def import_extra(module: str, extra: str, path: Path) -> Any:
    """Import a library that an extra of kmdr installs."""
    try:
        return import_module(module)
    except ImportError as e:
        needed = module.partition(".")[0]
        message = f"reading {path.name} requires {needed}; install it with: pip install 'kmdr[{extra}]'"
        raise UserError(message) from e
