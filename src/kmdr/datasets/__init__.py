"""Datasets: acquired, checked, and kept as files that every worker process maps.

`prepare` does the work once and writes a folder; `open_prepared` maps that folder; `load` does both. `availability`
says without any network access where a dataset would come from.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, plain_name, unknown, whole_number
from kmdr.base.identity import code_hash, name_of
from kmdr.base.paths import cache_folder
from kmdr.base.plugins import origin_of
from kmdr.base.text import tell
from kmdr.datasets import prepared, valid
from kmdr.datasets.acquire.archives import UnverifiedError
from kmdr.datasets.acquire.find import (
    UnavailableError,
    UnwritableError,
    file_names,
    find,
    in_background,
    local_files,
    obtain,
    raw_folder,
    sha256_of,
    temporary,
)
from kmdr.datasets.formats import files as formats
from kmdr.datasets.formats import reading, treatment
from kmdr.datasets.formats.profile import Profile, identifier_warning, in_short, profile, warnings_of
from kmdr.datasets.formats.reading import Content
from kmdr.datasets.prepared import DamagedError, checked_verify, stamp
from kmdr.datasets.registry import COMMON, Entry, entry, names
from kmdr.datasets.sources.loaders import all_loaders
from kmdr.datasets.streamed import Streamed, streamed
from kmdr.linalg import Matrix
from kmdr.linalg.matrix import read_only

__all__ = [
    "Availability",
    "DamagedError",
    "Dataset",
    "UnavailableError",
    "UnverifiedError",
    "availability",
    "changed",
    "checked_verify",
    "content_sha256",
    "fetch_all",
    "from_arrays",
    "generated_by",
    "is_outdated",
    "load",
    "locate_files",
    "look_at",
    "names",
    "open_prepared",
    "prepare",
]

# Part of what a prepared folder must match; to be raised when a loader's output or the files of the folder change.
_LAYOUT = 3
_CSR = ("data", "indices", "indptr")
_FETCHED_AT_ONCE = 4
# A file of the user's, or the parts of a matrix, up to this size are known by their hash, larger ones by their stamp:
# size, inode and times of change.
_HASHED_BYTES = 2**26
# Options of a user's file that its reader does not take.
_OURS = ("k", "title", "copy")
_REMEDY = "put a number there, or say dataset.missing=mean or dataset.missing=drop"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset in memory, or mapped from a prepared folder.

    Attributes
    ----------
    name : str
        Name in the registry; of a user's file, what the user calls it.
    A : ndarray or scipy.sparse.csr_array of shape (n, d)
        A point a row, float64 or, where a user's file has it so, float32; read-only when it is mapped.
    labels : ndarray of shape (n,) or None
        True classes.
    k : int
        Clusters to find.
    data_sha256 : str
        `content_sha256` of A and labels.
    stand_in : str
        What the data really are, where they only stand in for what a paper used; else empty.
    source : str
        Where the files came from.
    feature_names : tuple of str or None
        What the columns are, where that is known.
    stamps : tuple of (str, tuple)
        Path and `stamp` of each file that is mapped.
    """

    name: str
    A: Matrix
    labels: NDArray[np.int64] | None
    k: int
    data_sha256: str
    stand_in: str
    source: str
    feature_names: tuple[str, ...] | None = None
    stamps: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class Availability:
    """Where a dataset would come from.

    Attributes
    ----------
    name, title, shape : str
        As in the registry; the shape in words.
    state : str
        ``"prepared"`` (ready to be mapped), ``"cached"`` (its files are in the cache), ``"local"`` (in a folder of
        ``KMDR_DATA``), ``"generated"``, ``"remote"`` (to be downloaded), or ``"by hand"`` (the user must supply it).
    where : str
        The folder, the files, the sources, or the files to supply.
    """

    name: str
    title: str
    shape: str
    state: str
    where: str


def generated_by(name: str) -> list[str]:
    """Return where the code that generates a dataset begins, for `kmdr.base.identity.reach`; nothing for files."""
    e = entry(name)
    return [] if e.sources or e.by_path else [name_of(all_loaders()[e.format])]


def prepare(name: str, options: Mapping[str, Any] | None = None, verify: str = "once") -> Path:
    """Acquire, load, check and write a dataset, once; and again, with a line on standard error, when it is damaged.

    Parameters
    ----------
    name : str
        Name in the registry.
    options : mapping, optional
        Options that differ from the registry's defaults.
    verify : {"once", "always", "never"}
        When to make sure that prepared files are what was written: once a boot of the machine, now, or not at all.

    Returns
    -------
    Path
        Folder for `open_prepared`. A folder that is there, fits the registry and is intact is returned at once.

    Raises
    ------
    UserError
        Unknown dataset or option; an option out of range; a matrix or labels that are no dataset (`valid.check`).
    UnavailableError
        A file cannot be had: what was tried, and which file to put where.
    UnverifiedError
        What was loaded is not what the registry says. Nothing is kept of it.
    """
    e = entry(name)
    settings = _options(e, options or {})
    _refuse_absent(e, settings)
    title = _title(e, settings)
    folder, fingerprint = _prepared(e, settings)
    try:
        if prepared.is_current(folder, fingerprint, verify):
            for line in prepared.read_meta(folder).get("warnings", ()):
                tell(f"warning: {_of(e, settings)}: {line}")
            return folder
    except DamagedError as error:
        try:
            _prepare(e, settings, title, folder, fingerprint)
        except UnavailableError as why:
            said = f"{error.path} is damaged and cannot be prepared again: {why}"
            raise UnavailableError(said, failed_check=True, tried=why.tried) from error
        tell(f"kmdr: dataset {title!r}: {error.path} was damaged; prepared again")
    else:
        _prepare(e, settings, title, folder, fingerprint)
    return folder


def _prepare(e: Entry, settings: Mapping[str, Any], title: str, folder: Path, fingerprint: str) -> None:
    laid: list[Path] = []
    with ExitStack() as aside:

        def keep(A: Streamed) -> NDArray[Any]:
            try:
                laid.append(aside.enter_context(temporary(folder.parent)) / "A.npy")
                return prepared.lay(laid[0], A)
            except OSError as error:
                raise UnwritableError(folder, error) from error

        files = obtain(e)
        (A, labels, feature_names), said, cautions = _loaded(
            e, [f.source.format for f in files], [f.path for f in files], settings, keep
        )
        k = _clusters(e, settings, A, labels)
        digest = content_sha256(A, labels, valid.kept_type(A))
        if e.by_path or settings == dict(e.options):
            _check(e, A, labels, digest)
        if _prepared(e, settings)[1] != fingerprint:
            raise UserError(f"a file of dataset {e.name!r} changed while it was read; try again when it is complete")
        n, d = A.shape
        meta = {
            "name": title,
            "k": k,
            "data_sha256": digest,
            "source": "; ".join([*(f.where for f in files), *_paths(settings)]) or e.home or "generated",
            "stand_in": e.stand_in,
            "n": n,
            "d": d,
            "nnz": int(A.nnz) if _is_sparse(A) else n * d,
            "options": settings,
        }
        in_place = _is_mapped(A) and not laid and not settings.get("copy")
        if in_place:
            meta["mapped"] = {"path": str(A.filename), "stamp": stamp(Path(A.filename))}
        if feature_names is not None:
            meta["feature_names"] = "features.json"
        if cautions:
            meta["warnings"] = cautions
        try:
            parts = dict(_arrays(laid[0] if laid else A, labels, in_place))
            prepared.write(folder, fingerprint, parts, meta, feature_names)
        except OSError as error:
            raise UnwritableError(folder, error) from error
        for kind, lines in (("note", said), ("warning", cautions)):
            for line in lines:
                tell(f"{kind}: {_of(e, settings)}: {line}")


def open_prepared(folder: Path, verify: str = "once") -> Dataset:
    """Map the dataset of a folder that `prepare` returned.

    Parameters
    ----------
    folder : Path
        The folder.
    verify : {"once", "always", "never"}
        As for `prepare`. With ``"never"`` the structure of a sparse matrix is checked instead, because compiled code
        takes it for granted.

    Returns
    -------
    Dataset
        Its A is mapped read-only, so that processes share one copy in memory.

    Raises
    ------
    UserError
        The folder does not hold a prepared dataset, a file of it is damaged (`DamagedError`), or a file of the user's
        that it refers to has changed.
    """
    try:
        meta = prepared.read_meta(folder)
        mapped = meta.get("mapped")
        if mapped and list(stamp(Path(mapped["path"]))) != mapped["stamp"]:
            raise UserError(f"{mapped['path']} has changed since it was prepared; run again, which prepares it anew")
        stamps = prepared.stamps(folder, meta)
        prepared.check(folder, meta, verify)
        arrays = prepared.arrays(folder, meta)
        listed = meta.get("feature_names")
        feature_names = tuple(json.loads((folder / listed).read_text("utf-8"))) if listed else None
    except (OSError, ValueError, KeyError) as e:
        raise UserError(f"{folder} does not hold a prepared dataset ({e}); prepare it again") from e
    if "A.npy" in arrays:
        A: Any = arrays["A.npy"]
    else:
        parts = tuple(arrays[f"{part}.npy"] for part in _CSR)
        A = scipy.sparse.csr_array(parts, shape=(meta["n"], meta["d"]), copy=False)
        if verify == "never" and not valid.is_canonical(A):
            raise DamagedError(folder)
        # It was brought to this form when it was written; left to find out, scipy would read it all.
        A.has_canonical_format = True
    return Dataset(
        name=meta["name"],
        A=A,
        labels=arrays.get("labels.npy"),
        k=meta["k"],
        data_sha256=meta["data_sha256"],
        stand_in=meta["stand_in"],
        source=meta["source"],
        feature_names=feature_names,
        stamps=stamps,
    )


def prepared_by_content() -> dict[str, Path]:
    """Return the prepared folders of the cache by the `content_sha256` of what they hold."""
    folders = {}
    for folder in sorted((cache_folder() / "prepared").glob("[!.]*")):
        with suppress(OSError, UserError):
            folders[str(prepared.read_meta(folder).get("data_sha256", ""))] = folder
    return folders


def changed(data: Dataset) -> str:
    """Return a sentence that names a file of a mapped dataset which has changed since it was opened, or nothing."""
    for path, before in data.stamps:
        if stamp(Path(path)) != before:
            return f"{path} changed while it was used; leave it alone during a run, then run again"
    return ""


def load(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Prepare a dataset where that is not done yet, and map it.

    Parameters and errors are those of `prepare`.
    """
    return open_prepared(prepare(name, options))


def availability(name: str) -> Availability:
    """Where a dataset, with its default options, would come from; without network access and without writing.

    Raises
    ------
    UserError
        There is no such dataset.
    """
    e = entry(name)
    settings = _options(e, {})
    absent = _absent(e, settings)
    if absent or (e.by_path and not _paths(settings)):
        return Availability(name, e.title, e.shape, "by hand", " and ".join(absent) or "a file named by dataset.path=…")
    folder, fingerprint = _prepared(e, settings)
    if _seems_current(folder, fingerprint):
        state, where = "prepared", str(folder)
    elif e.by_path:
        state, where = "local", "; ".join(_paths(settings))
    elif not e.sources:
        state, where = "generated", e.home or "generated"
    elif files := find(e):
        in_cache = all(f.path.is_relative_to(raw_folder(name)) for f in files)
        state, where = "cached" if in_cache else "local", "; ".join(f.where for f in files)
    elif all(any(s.kind != "local" for s in e.sources if s.part == part) for part in e.parts):
        state, where = "remote", "; ".join(str(s) for s in e.sources if s.kind != "local")
    else:
        state, where = "by hand", " or ".join(file_names(e.sources))
    return Availability(name, e.title, e.shape, state, where)


def _seems_current(folder: Path, fingerprint: str) -> bool:
    try:
        return prepared.is_current(folder, fingerprint, "never")
    except DamagedError:
        return False


def fetch_all(which: Iterable[str] | None = None) -> Iterator[tuple[str, bool]]:
    """Prepare datasets; one that cannot be had does not stop the others.

    Files are fetched side by side, the matrices are read one after the other so as to have one in memory at a time.

    Parameters
    ----------
    which : iterable of str, optional
        Names; by default all of the registry but ``file``, which is nothing without a path.

    Yields
    ------
    line : str
        Ready and from where, or missing and why, in the order of the names.
    ok : bool
        False where a file or a matrix was there but failed its check; True for ready and for merely unreachable.
    """
    wanted = list(dict.fromkeys([name for name in names() if name != "file"] if which is None else which))
    turns = Semaphore(_FETCHED_AT_ONCE)
    over = Event()

    def fetch(name: str) -> None:
        with turns:
            if not over.is_set() and availability(name).state == "remote":
                obtain(entry(name))

    fetched = {name: in_background(fetch, name) for name in wanted}
    try:
        for name in wanted:
            try:
                fetched[name].result()
                dataset = load(name)
            except UnavailableError as e:
                yield f"{name}: missing: {e}", not e.failed_check
            except (UserError, OSError) as e:
                yield f"{name}: failed: {e}", False
            else:
                n, d = dataset.A.shape
                yield f"{name}: ready, {n} x {d}, from {dataset.source}", True
    finally:
        over.set()


def from_arrays(A: Any, labels: Any = None, k: int | None = None, name: str = "A") -> Dataset:
    """Return a dataset of a matrix in memory.

    Parameters
    ----------
    A : (n, d) array or sparse matrix
        Kept as float64, or as float32 where it is that. It is never changed; the dataset may be a read-only view of it.
    labels : (n,) array, optional
        Classes, whatever they are.
    k : int, optional
        Clusters; by default the number of classes.
    name : str

    Raises
    ------
    UserError
        When it is no dataset, or neither k nor labels are given.
    """
    features = None
    if isinstance(A, pd.DataFrame):
        A, features = treatment.numbers(
            name, A.set_axis(A.columns.map(str), axis=1), remedy="leave it out, or encode it"
        )
    A = valid.canonical(A) if _is_sparse(A) else _dense(np.asarray(A))
    classes = None if labels is None else valid.codes(labels, name)
    valid.check(A, classes)
    seen = profile(Content(A, classes, features))
    if warning := identifier_warning(seen, "give A without it"):
        warnings.warn(f"{name}: {warning}", stacklevel=3)
    if k is None and classes is None:
        raise UserError("neither k nor labels were given; give the number of clusters, or the classes")
    k = len(np.unique(classes)) if k is None else whole_number("k", k, 1)  # type: ignore[arg-type]
    if k > A.shape[0]:
        raise UserError(f"k = {k} clusters cannot be made of {A.shape[0]} points; lower k")
    return Dataset(plain_name("name", name), A, classes, k, content_sha256(A, classes), "", "memory", features)


def content_sha256(A: Any, labels: NDArray[Any] | None, dtype: np.dtype[Any] | None = None) -> str:
    """Hash of a matrix and its labels, the same whatever file they came from.

    Parameters
    ----------
    A : ndarray or csr_array of shape (n, d)
        A CSR array counts by its parts as they are.
    labels : ndarray of shape (n,) or None
    dtype : dtype, optional
        Type in which a dense A counts; by default its own.

    Returns
    -------
    str
        SHA-256 over, for each array, its name, dtype and shape in a line of text, and its little-endian bytes in C
        order; for CSR the arrays are indptr, indices, data and the shape goes first.
    """
    digest = hashlib.sha256()

    def add(name: str, array: NDArray[Any], dtype: np.dtype[Any] | None = None) -> None:
        little = (dtype or array.dtype).newbyteorder("<")
        digest.update(f"{name} {little.str} {array.shape}\n".encode())
        for _, block in valid.blocks(array, little):
            digest.update(block.data.cast("B"))

    if _is_sparse(A):
        digest.update(f"csr {tuple(A.shape)}\n".encode())
        for part in ("indptr", "indices", "data"):
            add(part, getattr(A, part))
    else:
        add("A", A, dtype)
    if labels is not None:
        add("labels", labels)
    return digest.hexdigest()


def _is_sparse(A: Any) -> bool:
    return bool(scipy.sparse.issparse(A))


def _is_mapped(A: Any) -> bool:
    """Whether A is a file that can be used where it lies."""
    usable = isinstance(A, np.memmap) and A.flags.c_contiguous and A.dtype == valid.kept_type(A)
    return usable and A.filename is not None


_Loaded = tuple[Any, NDArray[np.int64] | None, tuple[str, ...] | None]
# What brings a matrix to where it can be mapped.
_Keep = Callable[[Streamed], Any]


def _loaded(
    e: Entry, kinds: list[str], paths: list[Path], settings: Mapping[str, Any], keep: _Keep
) -> tuple[_Loaded, list[str], list[str]]:
    """Load a dataset and refuse what is none; the matrix in its kept form, what was understood, and warnings."""
    load_files = all_loaders()[_format(e, kinds)]
    if load_files is not formats.read or "drop" not in e.offered:
        own = _OURS if load_files is formats.read else ()
        return _valid(e, settings, load_files(*paths, **_arguments(e, settings, own)), keep), [], []
    arguments = _arguments(e, settings, _OURS)
    content = formats.look(**arguments)
    seen = profile(content)
    loaded = _valid(e, settings, formats.made(content=content, **arguments), keep)
    return loaded, in_short(content, seen, settings, loaded[0].shape), [*content.warnings, *warnings_of(seen)]


def _arguments(e: Entry, settings: Mapping[str, Any], ours: Iterable[str]) -> dict[str, Any]:
    """Return what a loader is called with."""
    return {**e.fixed, **{name: value for name, value in settings.items() if name not in (*COMMON, *ours)}}


def _valid(e: Entry, settings: Mapping[str, Any], loaded: Any, keep: _Keep | None = None) -> _Loaded:
    """Refuse what is no dataset; the matrix in its kept form."""
    A, labels, *named = loaded
    features = tuple(map(str, named[0])) if named and named[0] is not None else None
    unit = settings.get("rows") == "unit"
    A = streamed(A) if unit else A
    if in_rows := isinstance(A, Streamed):
        A = valid.of_unit_length(A) if unit else A
        A = keep(A) if keep else A  # so that it is read, or made, once; the checks then read what is kept
    try:
        A = valid.canonical(A) if _is_sparse(A) else _dense(A)
        valid.check(A, labels, e.nonnegative, _REMEDY if "missing" in e.offered else "", features)
        A = read_only(valid.of_unit_length(A)) if unit and not in_rows else A
    except UserError as error:
        raise UserError(f"{_of(e, settings)}: {error}") from error
    if features is not None and len(features) != A.shape[1]:
        raise UserError(f"{_of(e, settings)}: there are {len(features)} names for {A.shape[1]} features")
    return A, labels, features


def look_at(options: Mapping[str, Any]) -> tuple[Content, Profile, str]:
    """Look at a file of the user's without preparing it.

    Parameters
    ----------
    options : mapping
        Of the dataset ``file``.

    Returns
    -------
    content : Content
    seen : Profile
    refusal : str
        Why it cannot be used with these options, or nothing.

    Raises
    ------
    UserError
        It cannot be read, or an option is not valid.
    """
    e = entry("file")
    settings = _options(e, options)
    _refuse_absent(e, settings)
    arguments = _arguments(e, settings, _OURS)
    content = formats.look(**arguments)
    seen = profile(content)
    try:
        A, labels, _ = _valid(e, settings, formats.made(content=content, **arguments))
        _clusters(e, settings, A, labels)
    except UserError as error:
        return content, seen, str(error)
    return content, seen, ""


def _dense(A: Any) -> Any:
    """Return A as float64 or float32 in C order, read-only; what is read in blocks is left as it is."""
    return A if isinstance(A, np.memmap | Streamed) else read_only(np.ascontiguousarray(A, valid.kept_type(A)))


def _of(e: Entry, settings: Mapping[str, Any]) -> str:
    return ", ".join(Path(path).name for path in _paths(settings)) or f"dataset {e.name!r}"


def _clusters(e: Entry, settings: Mapping[str, Any], A: Any, labels: NDArray[Any] | None) -> int:
    k = int(settings.get("k") or e.k)
    if not k and labels is None:
        where = ", or say where they are: dataset.label=… or dataset.labels=FILE" if "label" in e.offered else ""
        raise UserError(f"{_of(e, settings)} has no labels, so give the number of clusters: dataset.k=…{where}")
    k = k or len(np.unique(labels))  # type: ignore[arg-type]
    if not 1 <= k <= A.shape[0]:
        raise UserError(f"k = {k} clusters were asked for {_of(e, settings)}, which has {A.shape[0]} points")
    return k


def _options(e: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an entry with the values given, each of its default's type and paths as they are found.

    Raises
    ------
    UserError
        When the entry has no such option, or a value is of another type.
    """
    settings = dict(e.options)
    for name, value in given.items():
        if name not in e.offered:
            raise unknown(f"option of dataset {e.name!r}", name, e.offered)
        value = formats.plain(name, value) if e.format == "file" else value  # noqa: PLW2901  equal values, equal folders
        settings[name] = _like(e.offered[name], value, f"option {name} of dataset {e.name!r}")
        if name not in e.options and settings[name] == e.offered[name]:
            del settings[name]
    if settings.get("scale") == "unit":  # short for what every dataset has
        del settings["scale"]
        settings["rows"] = "unit"
    if (rows := settings.get("rows", "raw")) not in ("raw", "unit"):
        raise UserError(f"option rows is {rows!r}, not one of raw, unit; choose one of them")
    if "path" in settings:
        paths = [_located(e, path, e.format == "file", settings.get("format", "")) for path in _paths(settings)]
        settings["path"] = paths if isinstance(e.options["path"], list) else "".join(paths)
        if settings.get("labels", "") not in ("", valid.WITHOUT):
            settings["labels"] = _located(e, settings["labels"])
    return settings


def locate_files(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a dataset that name the user's files, with whole paths; none where it has no such files."""
    e = entry(name)
    settings = _options(e, options) if e.by_path else {}
    return {option: settings[option] for option in ("path", "labels") if settings.get(option, "") not in ("", [])}


def _paths(settings: Mapping[str, Any]) -> list[str]:
    path = settings.get("path", [])
    return [path] if isinstance(path, str) and path else list(path)


def _located(e: Entry, path: str, folder: bool = False, kind: str = "") -> str:
    """Path of a file, or of a folder of a kind: as named, or of that name in the cache or a folder of ``KMDR_DATA``."""
    try:
        here = Path(path).expanduser()
        if not here.exists() and here.name == path:
            here = next(local_files(e.name, {path}), here)
        here = here.resolve()
        reading.refuse_irregular(here, folder)
        if here.is_dir():
            formats.in_folder(here, kind)
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a byte 0, a name that is too long
        raise UserError(f"{path!r} cannot be the path of a file ({error}); name another with dataset.path=…") from error
    return str(here)


def _files(settings: Mapping[str, Any]) -> list[str]:
    """All files of the user's that a dataset is read from."""
    labels = settings.get("labels", "")
    return [*_paths(settings), *([labels] if labels not in ("", valid.WITHOUT) else [])] if "path" in settings else []


def _absent(e: Entry, settings: Mapping[str, Any]) -> list[str]:
    """Files that are not there; those that the registry names, by their name alone."""
    absent = [Path(path) for path in _files(settings) if not Path(path).exists()]
    return [path.name if path.name in e.options["path"] else str(path) for path in absent]


def _refuse_absent(e: Entry, settings: Mapping[str, Any]) -> None:
    if e.format == "file" and not _paths(settings):
        raise UnavailableError(f"dataset {e.name!r} is a file of yours; name it with dataset.path=…")
    if absent := _absent(e, settings):
        where = f" (to be had from {e.home})" if e.home else ""
        raise UnavailableError(
            f"dataset {e.name!r} cannot be had: there is no file {' and no '.join(absent)}{where}; "
            "name it with dataset.path=… or put it into a folder that KMDR_DATA names"
        )


def _title(e: Entry, settings: Mapping[str, Any]) -> str:
    """Return what rows and figures call a dataset; a file never gets the name of a registered dataset."""
    if "title" not in settings:
        return e.name
    # It becomes the name of a folder, so it neither begins with a dot nor has a slash.
    stem = re.sub(r"[^\w+.-]+", "_", Path(_paths(settings)[0]).name.partition(".")[0]).lstrip("+-")
    title = settings["title"] or stem[:60] or "data"
    if not re.fullmatch(r"\w[\w+.-]{0,59}", title):
        raise UserError(f"option title is {title!r}; use up to 60 letters, digits, _ and, but for the first, + . -")
    if title not in names():
        return title
    if settings["title"]:
        raise UserError(f"option title is {title!r}, which names a registered dataset; choose another name")
    return f"file_{title}"


def _like(default: Any, value: Any, what: str) -> Any:
    """Bring a value to the type of the default; equal values must give equal folders."""
    match default:
        case bool():
            good = isinstance(value, bool)
        case int():
            good = isinstance(value, Integral) and not isinstance(value, bool)
        case float():
            good = isinstance(value, Real) and not isinstance(value, bool)
        case [int(), *_]:
            good = isinstance(value, list) and len(value) == len(default)
            good = good and all(
                isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0 for entry in value
            )
        case list():
            value = [value] if isinstance(value, str) and value else value
            good = isinstance(value, list) and all(isinstance(text, str) and text for text in value)
        case _:
            good = isinstance(value, type(default))
    if not good:
        raise UserError(f"{what} is {value!r}; it must be of type {type(default).__name__}")
    return type(default)(value)


def _format(e: Entry, formats: list[str]) -> str:
    distinct = set(formats or [e.format])
    if len(distinct) > 1:
        raise UserError(
            f"the files found for dataset {e.name!r} are of different formats: {', '.join(sorted(distinct))}"
        )
    (only,) = distinct
    if only not in all_loaders():
        raise unknown("dataset format", only, all_loaders())
    return only


def _check(e: Entry, A: Any, labels: NDArray[Any] | None, digest: str) -> None:
    if e.n and A.shape != (e.n, e.d):
        raise UnverifiedError(f"dataset {e.name!r} came out with shape {A.shape}, the registry says {e.shape}")
    if e.format == "file" and e.k and labels is not None and len(np.unique(labels)) != e.k:
        raise UnverifiedError(
            f"dataset {e.name!r} came out with {len(np.unique(labels))} classes, the registry says {e.k}"
        )
    if e.content_sha256 and digest != e.content_sha256:
        raise UnverifiedError(
            f"dataset {e.name!r} came out with content hash {digest}, the registry says {e.content_sha256}"
        )


# --- prepared folders -----------------------------------------------------------------------------------------------


def _prepared(e: Entry, settings: Mapping[str, Any]) -> tuple[Path, str]:
    """Return the folder of a dataset with these options, and the hash of all that its content depends on.

    Datasets of several plugins that have the same name have different folders.
    """
    given = {} if dict(settings) == dict(e.options) else dict(settings)
    key: Any = {"package": e.package, "options": given} if e.package else given
    suffix = f"-{_json_hash(key)[:12]}" if key else ""
    determines = [_LAYOUT, e.name, e.n, e.d, e.k, e.format, e.content_sha256, e.stand_in, dict(e.fixed), dict(settings)]
    determines += [e.nonnegative, [[source.part, source.format, source.sha256] for source in e.sources]]
    determines += [] if _is_pinned(e, settings) else [e.guest, _loader_code(e)]
    determines += [_identity(Path(path), settings.get("format", "")) for path in _files(settings)]
    return cache_folder() / "prepared" / f"{e.name}{suffix}", _json_hash(determines)


def _is_pinned(e: Entry, settings: Mapping[str, Any]) -> bool:
    """Return whether a matrix is only accepted with the content hash in the registry, whatever code loads it."""
    return bool(e.content_sha256) and (e.by_path or settings == dict(e.options))


def _loader_code(e: Entry) -> list[list[str]]:
    """Return hash and origin of the code that turns the files of a dataset, whichever are found, into its matrix."""
    known = all_loaders()
    functions = {known[name] for name in (e.format, *(s.format for s in e.sources)) if name in known}
    return sorted([code_hash(name_of(each), valid.__name__), origin_of(each.__module__)] for each in functions)


def fingerprint(name: str, options: Mapping[str, Any]) -> str:
    """Hash of all that the content of a prepared dataset depends on; `options` are those of its ``meta.json``."""
    return _prepared(entry(name), options)[1]


def is_outdated(folder: Path) -> bool:
    """Return whether a prepared folder is of a known dataset whose files, options or loader are others now."""
    try:
        meta = prepared.read_meta(folder)
        name = re.sub(r"-[0-9a-f]{12}$", "", folder.name)
        return name in names() and fingerprint(name, meta["options"]) != meta["registry"]
    except (UserError, OSError, LookupError, TypeError):
        return True


def _identity(path: Path, kind: str = "", large: bool = False) -> Any:
    if path.is_dir():
        files = formats.in_folder(path, kind)
        large = formats.folder_kind(path, kind) != "images" and sum(map(_size, files)) > _HASHED_BYTES
        return [[str(file.relative_to(path)), _identity(file, large=large)] for file in files]
    looks = stamp(path)
    try:
        return sha256_of(path) if looks and not large and looks[0] <= _HASHED_BYTES else looks
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); name a file that can") from error


def _json_hash(value: Any) -> str:
    plain = dict(value) if isinstance(value, Mapping) else value
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _size(path: Path) -> int:
    return sum(stamp(path)[:1])


def _arrays(A: Any, labels: NDArray[Any] | None, in_place: bool) -> Iterator[tuple[str, NDArray[Any] | Path]]:
    if _is_sparse(A):
        yield from ((f"{part}.npy", getattr(A, part)) for part in _CSR)
    elif not in_place:
        yield "A.npy", A
    if labels is not None:
        yield "labels.npy", labels
