"""What all readers of files share: what they hand back, how much they may take, and one sentence of every failure."""

import bz2
import gzip
import lzma
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError
from kmdr.linalg.matrix import read_only

COMPRESSED: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
READ_BYTES = 2**22
# What a file claims to hold or unpacks to may be so many times its size, where that is more than option ``max_gb``.
_PLAUSIBLE = 20
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


@dataclass
class Content:
    """What a file holds, before anything is made of it.

    Attributes
    ----------
    A : ndarray, sparse array or DataFrame of n rows
        Read-only: whatever inspects a file cannot change what is made of it. A table stays one, for its columns of
        text.
    labels : array of n entries or None
        Classes as they are in the file.
    features : tuple of str or None
        Names of the columns of what is no table.
    form : str
        What the file was taken for, in words.
    labelled : str
        Where the labels are, in words.
    warnings : tuple of str
        What a user should look at.
    """

    A: Any
    labels: Any = None
    features: tuple[str, ...] | None = None
    form: str = ""
    labelled: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold the matrix read-only."""
        self.A = read_only(self.A)


def refuse_irregular(path: Path, folder: bool = False) -> None:
    """Refuse a pipe, a device, a socket, which may never end or never begin, and a folder; a file may be absent.

    Parameters
    ----------
    path : Path
    folder : bool
        Whether it may be a folder.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as e:
        raise UserError(f"{path} cannot be read ({e.strerror}); name a file that can") from e
    if kind != stat.S_IFREG and not (folder and kind == stat.S_IFDIR):
        raise UserError(f"{path} is {_KINDS.get(kind, 'a device')}; name a regular file")


def hidden(folder: Path, path: Path) -> bool:
    """Whether a file in a folder, or a subfolder on the way to it, is none that a user put there."""
    return any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)


def natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts ``2.png`` before ``10.png``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name) if part]


def limit_of(paths: Sequence[Path], max_gb: float) -> float:
    """Bytes that the matrix of some files may take in memory."""
    if not max_gb > 0:
        raise UserError(f"option max_gb is {max_gb}; give a number over 0")
    return max(max_gb * 1e9, _PLAUSIBLE * sum(path.stat().st_size for path in paths if path.exists()))


def afford(path: Path, what: str, needed: float, limit: float) -> None:
    """Refuse what takes more memory than is allowed."""
    if needed > limit:
        raise UserError(
            f"{path.name} {what}: {needed / 1e9:.3g} GB, where {limit / 1e9:.3g} GB are allowed for a file of its "
            "size; where that is right, allow more with dataset.max_gb=…"
        )


def afford_shape(path: Path, shape: Sequence[int], limit: float) -> None:
    """Refuse a sparse matrix by its shape alone: every method needs at least a number a row and a number a column."""
    afford(path, f"claims the shape {' x '.join(map(str, shape))}", 8.0 * sum(map(int, shape)), limit)


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Make one sentence of whatever a library raises on a file that is damaged or something else."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as e:
        raise UserError(f"there is no file {path}") from e
    except Exception as e:  # the libraries let every kind of error through when a file is damaged
        if any(words in str(e) for words in ("allow_pickle", "pickled data", "Python objects in dtype")):
            raise UserError(
                f"{path.name} holds Python objects, which could run any code when read; save plain numbers"
            ) from e
        raise UserError(f"{path.name} is not a readable {kind} file: {' '.join(str(e).split())}") from e


def unpacked(path: Path, limit: float) -> Iterator[bytes]:
    """Content of a file, unpacked where it is compressed, in blocks; refused where there is more than the limit."""
    total = 0
    with COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as file:
        try:
            while block := file.read(READ_BYTES):
                total += len(block)
                afford(path, "unpacks to too much, at least", total, limit)
                yield block
        except (EOFError, zlib.error, lzma.LZMAError) as e:
            raise UserError(f"{path.name} is damaged or cut off ({e}); get it again") from e


def brought(module: str, extra: str, path: Path) -> Any:
    """Import a library that an extra of kmdr brings.

    Raises
    ------
    UserError
        It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as e:
        needed = module.partition(".")[0]
        said = f"{path.name} needs {needed} to be read; install it with: pip install 'kmdr[{extra}]'"
        raise UserError(said) from e
