"""Prepare datasets: acquire their files, load and check the matrix, and write it where every process can map it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, unknown
from kmdr.base.files import temporary_folder
from kmdr.base.text import tell
from kmdr.datasets import prepared, validation
from kmdr.datasets.acquire.archives import UnverifiedError
from kmdr.datasets.acquire.find import Found, UnavailableError, UnwritableError, obtain
from kmdr.datasets.dataset import Dataset, content_sha256, kept_form
from kmdr.datasets.dataset_options import checked_options, display_name, file_title, paths_of, refuse_missing
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.fingerprint import fingerprint_of, prepared_folder
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.preprocessing import refuse_sparse, scale_columns
from kmdr.datasets.formats.profile import Profile, profile, summary, warnings_of
from kmdr.datasets.prepared import CSR_PARTS, open_prepared
from kmdr.datasets.references import split_labelings
from kmdr.datasets.registry import COMMON, Entry, entry
from kmdr.datasets.sources.loaders import Loaded, all_loaders
from kmdr.datasets.streamed import Streamed, stream_if_large
from kmdr.datasets.verification import DamagedDataError, file_state, is_current, read_meta
from kmdr.linalg.matrix import read_only

_MISSING_REMEDY = "put a number there, or set dataset.missing=mean or dataset.missing=drop"


def load(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Prepare a dataset unless that is done already, and map it.

    Takes the same parameters and raises the same errors as `prepare`.
    """
    return open_prepared(prepare(name, options))


def prepare(name: str, options: Mapping[str, Any] | None = None, verify: str = "once") -> Path:
    """Acquire, load, check and write a dataset, unless an intact and current prepared folder exists; return the folder.

    A damaged folder is prepared again, with a message on standard error.

    Parameters
    ----------
    name : str
        Name in the registry.
    options : mapping, optional
        Options that differ from the registry's defaults.
    verify : {"once", "always", "never"}
        When to verify that prepared files are intact: once per boot of the machine, now, or not at all.

    Raises
    ------
    UserError
        Unknown dataset or option; an option out of range; an invalid matrix or labels (`validation.check`).
    UnavailableError
        A file is not available. The message says what was tried, and which file to put where.
    UnverifiedError
        The loaded data do not match the registry. They are not kept.
    """
    e = entry(name)
    settings = checked_options(e, options or {})
    refuse_missing(e, settings)
    title = file_title(e, settings)
    folder, fingerprint = prepared_folder(e, settings), fingerprint_of(e, settings)
    try:
        if is_current(folder, fingerprint, verify):
            for line in read_meta(folder).get("warnings", ()):
                tell(f"kmdr: warning: {display_name(e, settings)}: {line}")
            return folder
    except DamagedDataError as damage:
        try:
            _prepare(e, settings, title, folder, fingerprint)
        except UnavailableError as error:
            message = f"{damage.path} is damaged and cannot be prepared again: {error}"
            raise UnavailableError(message, failed_check=True, tried=error.tried) from damage
        tell(f"kmdr: warning: dataset {title!r}: {damage.path} was damaged; prepared again")
    else:
        _prepare(e, settings, title, folder, fingerprint)
    return folder


def _prepare(e: Entry, settings: Mapping[str, Any], title: str, folder: Path, fingerprint: str) -> None:
    stored: list[Path] = []
    with ExitStack() as stack:

        def store(A: Streamed) -> NDArray[Any]:
            try:
                stored.append(stack.enter_context(temporary_folder(folder.parent)) / "A.npy")
                return prepared.store(stored[0], A)
            except OSError as error:
                raise UnwritableError(folder, error) from error

        files = obtain(e)
        (A, labels, feature_names), notes, warnings = _load(e, files, settings, store)
        labels, references = split_labelings(labels)
        k = _clusters(e, settings, A, labels)
        digest = content_sha256(A, labels, references)
        if e.needs_path or settings == dict(e.options):
            _verify(e, A, labels, digest)
        if fingerprint_of(e, settings) != fingerprint:
            raise UserError(f"a file of dataset {e.name!r} changed while it was read; try again when it is complete")
        n, d = A.shape
        meta = {
            "name": title,
            "k": k,
            "data_sha256": digest,
            "source": "; ".join([*(f.where for f in files), *paths_of(settings)]) or e.home or "generated",
            "stand_in": e.stand_in,
            "n": n,
            "d": d,
            "nnz": int(A.nnz) if scipy.sparse.issparse(A) else n * d,
            "options": settings,
        }
        in_place = _is_mapped(A) and not stored and not settings.get("copy")
        if in_place:
            meta["mapped"] = {"path": str(A.filename), "stamp": file_state(Path(A.filename))}
        if feature_names is not None:
            meta["feature_names"] = "features.json"
        if warnings:
            meta["warnings"] = warnings
        try:
            parts = dict(_arrays(stored[0] if stored else A, labels, in_place))
            parts |= {} if references is None else {"references.npy": references}
            prepared.write(folder, fingerprint, parts, meta, feature_names)
        except OSError as error:
            raise UnwritableError(folder, error) from error
        for kind, lines in (("note", notes), ("warning", warnings)):
            for line in lines:
                tell(f"kmdr: {kind}: {display_name(e, settings)}: {line}")


def _is_mapped(A: Any) -> bool:
    """Return whether A is mapped from a file that can be used without conversion."""
    usable = isinstance(A, np.memmap) and A.flags.c_contiguous and A.dtype == validation.kept_type(A)
    return usable and A.filename is not None


def _arrays(A: Any, labels: NDArray[Any] | None, in_place: bool) -> Iterator[tuple[str, NDArray[Any] | Path]]:
    if scipy.sparse.issparse(A):
        yield from ((f"{part}.npy", getattr(A, part)) for part in CSR_PARTS)
    elif not in_place:
        yield "A.npy", A
    if labels is not None:
        yield "labels.npy", labels


# --- loading and checking -------------------------------------------------------------------------------------------


def inspect_file(options: Mapping[str, Any]) -> tuple[Content, Profile, str]:
    """Read and profile a custom file without preparing it, with options of the dataset ``file``.

    The third result says why the file cannot be used with these options; it is empty if it can.
    """
    e = entry("file")
    settings = checked_options(e, options)
    refuse_missing(e, settings)
    file_options = FileOptions(**_arguments(e, settings))
    content = formats.read_content(file_options)
    seen = profile(content, file_options.noise)
    try:
        A, labels, _ = _checked(e, settings, formats.treat(content, file_options))
        _clusters(e, settings, A, split_labelings(labels)[0])
    except UserError as error:
        return content, seen, str(error)
    return content, seen, ""


def _load(
    e: Entry, files: tuple[Found, ...], settings: Mapping[str, Any], store: Callable[[Streamed], Any]
) -> tuple[formats.Loaded, list[str], list[str]]:
    """Return the checked data of a dataset, notes on how a custom file was read, and warnings."""
    loader = all_loaders()[_format(e, files)]
    arguments = _arguments(e, settings)
    if loader is not formats.read or "drop" not in e.offered:
        return _checked(e, settings, loader(*[file.path for file in files], **arguments), store), [], []
    file_options = FileOptions(**arguments)
    content = formats.read_content(file_options)
    seen = profile(content, file_options.noise)
    data = _checked(e, settings, formats.treat(content, file_options), store)
    return data, summary(content, seen, settings, data[0].shape), [*content.warnings, *warnings_of(seen)]


def _format(e: Entry, files: tuple[Found, ...]) -> str:
    distinct = {file.source.format for file in files} or {e.format}
    if len(distinct) > 1:
        raise UserError(
            f"the files found for dataset {e.name!r} are of different formats: {', '.join(sorted(distinct))}"
        )
    (only,) = distinct
    if only not in all_loaders():
        raise unknown("dataset format", only, all_loaders())
    return only


def _arguments(e: Entry, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a loader."""
    common = COMMON.keys() - ({"scale"} if _loader_scales(e) else set())
    return {**e.fixed, **{name: value for name, value in settings.items() if name not in common}}


def _loader_scales(e: Entry) -> bool:
    """Return whether the loader scales the columns, as that of a custom file does."""
    return "scale" in {*e.options, *e.further}


def _checked(
    e: Entry, settings: Mapping[str, Any], loaded: Loaded, store: Callable[[Streamed], Any] | None = None
) -> formats.Loaded:
    """Return a loader's data with the matrix in its stored form; `store` maps a matrix that is read in blocks."""
    A, labels, *rest = loaded
    features = tuple(map(str, rest[0])) if rest and rest[0] is not None else None
    name = Path(display_name(e, settings))
    scale = "none" if _loader_scales(e) else settings.get("scale", "none")
    rows = {"raw": None, "unit": validation.unit_rows, "tfidf": validation.tfidf_rows}[settings.get("rows", "raw")]

    def transformed(A: Any) -> Any:
        A = scale_columns(name, A, scale)
        return rows(A) if rows else A

    refuse_sparse(name, A, scale, "refuse")
    changed = bool(rows) or scale != "none"
    A = stream_if_large(A) if changed else A
    if in_blocks := isinstance(A, Streamed):
        A = transformed(A)
        A = store(A) if store else A  # before the checks, so that it is read, or generated, once
    try:
        A = kept_form(A)
        nonnegative = e.nonnegative and not (in_blocks and scale != "none")
        first, _ = split_labelings(labels)
        validation.check(A, first, nonnegative, _MISSING_REMEDY if "missing" in e.offered else "", features)
        A = read_only(transformed(A)) if changed and not in_blocks else A
    except UserError as error:
        raise UserError(f"{display_name(e, settings)}: {error}") from error
    if features is not None and len(features) != A.shape[1]:
        raise UserError(f"{display_name(e, settings)}: there are {len(features)} names for {A.shape[1]} features")
    return A, labels, features


def _clusters(e: Entry, settings: Mapping[str, Any], A: Any, labels: NDArray[Any] | None) -> int:
    k, name = int(settings.get("k") or e.k), display_name(e, settings)
    if not k and labels is None:
        where = ", or the labels: dataset.label=… or dataset.labels=FILE" if "label" in e.offered else ""
        raise UserError(f"{name} has no labels, so give the number of clusters: dataset.k=…{where}")
    k = k or (0 if labels is None else len(np.unique(labels[labels >= 0])))
    if k > A.shape[0]:
        raise UserError(
            f"k = {k} is larger than the number of points of {name} ({A.shape[0]}); choose k ≤ {A.shape[0]}"
        )
    if k < 1:
        raise UserError(f"k = {k} is not a number of clusters; choose k ≥ 1")
    return k


def _verify(e: Entry, A: Any, labels: NDArray[Any] | None, digest: str) -> None:
    """Refuse data whose shape, number of classes or content hash differs from the registry."""
    classes = 0 if labels is None else len(np.unique(labels))
    if e.n and A.shape != (e.n, e.d):
        raise UnverifiedError(f"dataset {e.name!r} has shape {A.shape}, but the registry says {e.shape}")
    if e.format == "file" and e.k and labels is not None and classes != e.k:
        raise UnverifiedError(f"dataset {e.name!r} has {classes} classes, but the registry says {e.k}")
    if e.content_sha256 and digest != e.content_sha256:
        raise UnverifiedError(f"dataset {e.name!r} has content hash {digest}, but the registry says {e.content_sha256}")
