"""Read custom data files: choose the reader, read what a file contains, and make a matrix and classes of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, unknown
from kmdr.base.files import refuse_irregular
from kmdr.datasets.acquire.archives import read_members
from kmdr.datasets.file_options import FORMATS, NO_LABELS, FileOptions, file_and_column, is_column
from kmdr.datasets.formats import (
    arrays,
    feather,
    hdf5,
    images,
    parts,
    preprocessing,
    programs,
    r_objects,
    svmlight,
    tables,
    vectors,
    zarr,
)
from kmdr.datasets.formats.common import COMPRESSED, Content, memory_limit, unpacked
from kmdr.datasets.formats.label_files import read_labels
from kmdr.datasets.references import classes_of_labelings, is_noise
from kmdr.datasets.validation import csr, without_empty
from kmdr.linalg.matrix import read_only

Loaded = tuple[Any, NDArray[np.int64] | None, tuple[str, ...] | None]
"""A (ndarray, CSR array or `Streamed`, n x d), labels counted from 0 or None, names of the features or None.

The labels are n numbers; for several labelings or with noise, which is -1, one row of n numbers per labeling.
"""

_EXTENSIONS = {
    ".npz": "npz", ".npy": "npy", ".mat": "mat", ".csv": "csv", ".data": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".parquet": "parquet", ".pq": "parquet", ".xlsx": "xlsx", ".xlsm": "xlsx", ".mtx": "mtx", ".h5": "hdf5",
    ".hdf5": "hdf5", ".h5ad": "hdf5", ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
    ".arff": "arff", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".dta": "stata", ".rds": "r", ".rda": "r",
    ".rdata": "r", ".feather": "feather", ".arrow": "feather", ".arrows": "feather",
    ".idx": "idx",
    **dict.fromkeys(vectors.SUFFIXES, "vectors"),
}  # fmt: skip
# The reader of each format. A reader gets the first path, the most bytes that the matrix may take, and the options.
_READERS: Mapping[str, Callable[[Path, float, FileOptions], Content]] = {
    "csv": tables.csv, "tsv": partial(tables.csv, usual="tab"), "xlsx": tables.xlsx, "parquet": tables.parquet,
    "npz": arrays.npz, "npy": arrays.npy, "mat": hdf5.mat, "mtx": arrays.matrix_market, "hdf5": hdf5.hdf5,
    "svmlight": svmlight.read, "images": images.images, "parts": parts.parts, "zarr": zarr.zarr,
    "arff": programs.arff, "json": programs.json_table, "stata": programs.stata, "r": r_objects.r_data,
    "feather": feather.feather, "idx": vectors.idx, "vectors": vectors.vectors, "docword": vectors.docword,
}  # fmt: skip
_TO_CSV = "by pandas: {}.to_csv('data.csv', index=False)"
_TO_NPY = "in Python, if you trust the file: import numpy, {}; numpy.save('data.npy', {})"
# Known formats that are not read, and how to convert them.
_UNSUPPORTED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        (".pkl", ".pickle"),
        ("a pickle, which can run any code when read,", _TO_NPY.format("pickle", "pickle.load(open(FILE, 'rb'))")),
    ),
    ".joblib": ("a pickle of joblib, which can run any code when read,", _TO_NPY.format("joblib", "joblib.load(FILE)")),
    **dict.fromkeys(
        (".pt", ".pth"),
        ("PyTorch's format, a pickle,", _TO_NPY.format("torch", "torch.load(FILE, weights_only=True).numpy()")),
    ),
    **dict.fromkeys((".xls", ".ods"), ("this spreadsheet", "by saving it as .xlsx or .csv")),
    ".sav": ("SPSS's format", _TO_CSV.format("pandas.read_spss(FILE)")),
    ".sas7bdat": ("SAS's format", _TO_CSV.format("pandas.read_sas(FILE)")),
    **dict.fromkeys((".7z", ".rar"), ("an archive", "by unpacking it, and name the file in it")),
}  # fmt: skip
_ARCHIVES = (".zip", ".tar", ".tgz")
# Modules that open compressed files.
_MODULES = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
# Formats whose readers unpack compressed files.
_UNPACKING = ("csv", "tsv", "mtx", "svmlight", "idx", "docword")
# Formats of files with the labels only.
_LABELS = ("csv", "tsv", "npy", "mat", "idx", "parquet", "xlsx")
_FOLDERS = ("images", "parts", "zarr")


def read(path: str | Path | Sequence[str | Path], **options: Any) -> Loaded:
    """Read a custom data file; the keywords are the other fields of `FileOptions`.

    The matrix is as stored; a ``.npy`` file is mapped. Classes are counted from 0 in their sorted order. Labels of a
    table are equal if their cells are written alike.
    """
    file_options = FileOptions([path] if isinstance(path, str | Path) else path, **options)
    return treat(read_content(file_options), file_options)


def read_content(options: FileOptions) -> Content:
    """Read what a custom file contains: its labels, and its columns as they are.

    Columns are selected, but their text, missing values and scale are left to `treat`.
    """
    paths, first = options.paths, options.paths[0]
    if len(paths) == 1 and _is_archive(first):
        refuse_irregular(first)
        return _read_archive(first, options)
    kind = _format_of_all(options)
    columns = [name for name in options.labelings if is_column(name)]  # the other entries are files
    reading_options = _reading_options(options, columns, kind)
    for file in paths:
        refuse_irregular(file, folder=kind in _FOLDERS)
    limit = memory_limit(files_in(first, kind) if kind in _FOLDERS else paths, options.max_gb)
    # A reader that does not unpack a compressed file gets what it was unpacked to.
    packed = first.suffix.lower() in COMPRESSED and kind not in _UNPACKING
    read = partial(_read_packed, kind=kind) if packed else _READERS[kind]
    with _naming_columns(columns):
        reading_options.refuse_inapplicable(kind, first.name)
        content = read(first, limit, reading_options)
        further = {name: _further_labels(read, first, limit, reading_options, columns, name) for name in columns[1:]}
    if scipy.sparse.issparse(content.A):
        _make_canonical(content, first.name)
    drop = _choose_labels(content, options, columns, further)
    if kind != "parts":  # whose reader selects the columns
        content = preprocessing.select_columns(first, content, options.columns, drop)
    if content.labels is not None:
        content.labelings = [(without_empty(_without_spaces(labels)), where) for labels, where in content.labelings]
    tables.refuse_nested(content, first.name)
    content.warnings += tuple(tables.doubts(content, first.name))
    _check_noise(content, options.noise, first.name)
    if content.labels is not None:
        content.labelings = [_described(*labeling) for labeling in content.labelings]
    return content


def _format_of_all(options: FileOptions) -> str:
    """Return the format of the files, of which there are several only in svmlight."""
    kinds = {options.format or _format(file) for file in options.paths}
    kind = next(iter(kinds))
    if kind not in _READERS:
        raise unknown("format of a dataset's file", kind, _READERS)
    count = len(options.paths)
    if count > 1 and kinds != {"svmlight"}:
        raise UserError(f"{count} files were given; only svmlight files may be several, so join them into one")
    return kind


def _make_canonical(content: Content, name: str) -> None:
    """Warn about rounded integers of a sparse matrix, and convert it to canonical CSR."""
    content.warnings += tuple(tables.rounded(content.A, name))
    try:
        content.A = csr(content.A)  # compiled code relies on its parts
    except UserError as error:
        raise UserError(f"{name}: {error}") from error


def _choose_labels(
    content: Content, options: FileOptions, columns: Sequence[str], further: Mapping[str, Any]
) -> list[str]:
    """Give a content the labelings that the options name, and return the columns that are still to drop.

    `columns` are the entries of option ``labels`` that are columns of the data. The labels of the content are the first
    of these, or else what the reader took for labels by default; `further` has the labels in the other ones.
    """
    drop = [name for name in options.drop if name not in columns]
    if not options.label and "label" in drop and content.labelled == "column 'label'":
        content.labels = None  # the reader has removed this column from the features
        drop = [name for name in drop if name != "label"]
    if options.labels == NO_LABELS:
        content.labels = None
    if not options.labelings:
        return drop
    labels_of = {**further, **dict.fromkeys(columns[:1], content.labels)}
    content.labelings = [
        _labeling(name, content, labels_of, options.label, options.paths[0].name) for name in options.labelings
    ]
    features = preprocessing.column_names(content) if isinstance(content.A, pd.DataFrame) else []
    return [*drop, *(name for name in labels_of if name in features and name not in drop)]


def _check_noise(content: Content, noise: str, name: str) -> None:
    """Refuse a label of noise for data without labels, and warn if no point has it."""
    if noise and content.labels is None:
        raise UserError(f"option noise is {noise!r}, but no labels of {name} are used; name them, or remove noise")
    if noise and not any(is_noise(labels, noise).any() for labels, _ in content.labelings):
        content.warnings += (f"no point has the label {noise!r}, which marks noise",)


def _without_spaces(labels: Any) -> Any:
    """Return labels without the spaces around texts: readers of text remove them, other formats keep them."""
    array = np.asarray(labels)
    if array.dtype.kind in "US":
        return np.strings.strip(array)
    if array.dtype.kind != "O":
        return labels
    stripped = np.empty(array.shape, object)
    for at, label in np.ndenumerate(array):
        is_cell = isinstance(label, np.ndarray)  # of a MAT file
        stripped[at] = _without_spaces(label) if is_cell else label.strip() if isinstance(label, str | bytes) else label
    return stripped


def _described(labels: Any, where: str) -> tuple[Any, str]:
    """Return labels, bytes as text, and where they are with the number of points that have none."""
    array = np.asarray(labels)
    missing = int(pd.isna(array.ravel()).sum())
    described = f"{where}, {missing} without a label," if missing else where
    return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else labels, described


@contextmanager
def _naming_columns(columns: Sequence[str]) -> Iterator[None]:
    """Add to errors that an entry of option ``labels`` was taken for a column because no file has that name."""
    try:
        yield
    except UserError as error:
        if not columns:
            raise
        raise UserError(f"dataset.labels={columns[0]} is not a file, so it is taken for a column: {error}") from error


def _reading_options(options: FileOptions, columns: Sequence[str], kind: str) -> FileOptions:
    """Return the options for the reader of the data, which reads the first of the columns that are labelings.

    If option ``labels`` names files, option ``label`` is a column in these.
    """
    if not options.labelings:
        return options
    if columns and options.label:
        raise UserError(f"options labels={columns[0]} and label={options.label} both name columns; remove one of them")
    drop = [*options.drop, *columns[1:]] if kind == "parts" else options.drop  # whose reader selects the columns
    return replace(options, label=columns[0] if columns else "", drop=drop)


def _further_labels(
    read: Callable[[Path, float, FileOptions], Content],
    path: Path,
    limit: float,
    options: FileOptions,
    columns: Sequence[str],
    name: str,
) -> Any:
    """Return another column of labels, for which the file is read again."""
    kind_drops = options.drop and set(columns) & set(options.drop)
    drop = [column for column in (*options.drop, columns[0]) if column != name] if kind_drops else options.drop
    return read(path, limit, replace(options, label=name, drop=drop)).labels


def _labeling(
    name: str, content: Content, columns: Mapping[str, Any], label: str, data: str
) -> tuple[NDArray[Any], str]:
    """Return a reference labeling, from a file or a column, and where it is in words; refuse one of another length."""
    n = content.A.shape[0]
    if name in columns:
        labels, where = columns[name], f"column {name!r}"
    else:
        file, column = file_and_column(name)
        _refuse_as_labels(Path(file))
        labels, where = read_labels(Path(file), n, column or label)
    if np.size(labels) != n:
        raise UserError(f"{where} has {np.size(labels)} labels for {n} points of {data}; give one per point")
    return labels, where


def _is_archive(path: Path) -> bool:
    *_, before, last = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    archive = not path.is_dir() and (last in _ARCHIVES or (before == ".tar" and last in COMPRESSED))
    return archive and not zarr.is_store(path)


def _read_archive(path: Path, options: FileOptions) -> Content:
    """Read the single file of data in an archive."""
    limit = int(memory_limit([path], options.max_gb))
    refused = f"name the file in it, or the folder, after unpacking {path.name}"
    names = list[str]()

    def wanted(name: str) -> bool:
        member = PurePosixPath(name)
        hidden = any(part.startswith((".", "__MACOSX")) for part in member.parts)
        read = not hidden and not member.name.lower().startswith(("readme", "license"))
        names.extend([name] * read)
        if len(names) > 1:
            raise UserError(f"{path.name} holds several files, such as {names[0]} and {names[1]}; {refused}")
        return read

    members = read_members(path, wanted, limit)
    if not members:
        raise UserError(f"{path.name} holds no file of data; choose another")
    ((name, data),) = members.items()
    return _read_unpacked(path, PurePosixPath(name).name, data, options)


def _read_packed(path: Path, limit: float, options: FileOptions, kind: str) -> Content:
    """Read a compressed file of a format whose reader does not unpack it."""
    inner = replace(options, format=kind, labels="", noise="", columns=[], drop=[])
    return _read_unpacked(path, path.stem, b"".join(unpacked(path, limit)), inner)


def _read_unpacked(path: Path, name: str, data: bytes, options: FileOptions) -> Content:
    """Read what a file was unpacked to, from a temporary folder, with the memory that `path` may take."""
    if PurePosixPath(name).suffix.lower() in _ARCHIVES:
        raise UserError(f"{path.name} holds an archive, {name}; unpack it")
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        max_gb = memory_limit([path], options.max_gb) / 1e9
        content = read_content(replace(options, path=[file], max_gb=max_gb))
        if isinstance(content.A, np.memmap):  # whose file ends here
            content.A = read_only(np.array(content.A))
    content.form = f"{content.form.replace(', mapped in place', '')}, unpacked from {path.suffix[1:].lower()}"
    return content


def _refuse_as_labels(path: Path) -> None:
    """Refuse a file of labels in a format that would be taken for lines of text."""
    extension = next((s.lower() for s in reversed(path.suffixes) if s.lower() not in COMPRESSED), "")
    kind = _EXTENSIONS.get(extension, extension if extension in (*_UNSUPPORTED, *_ARCHIVES) else "")
    if kind not in ("", *_LABELS):
        raise UserError(
            f"{path.name} is not read as a file of labels; write them as text with one label per line, or as one of "
            f"{', '.join(_LABELS)}"
        )


def treat(content: Content, options: FileOptions) -> Loaded:
    """Return the matrix and classes of a file: text encoded, missing values dealt with, columns scaled."""
    first = options.paths[0]
    A, features = content.A, content.features
    if isinstance(A, pd.DataFrame):
        A, features = preprocessing.numbers(first.name, A, options.encode)
    preprocessing.refuse_sparse(first, A, options.scale, options.missing)
    names = features or tuple(preprocessing.column_names(content))
    A, labelings = preprocessing.complete(first, A, [labels for labels, _ in content.labelings], options.missing, names)
    A = preprocessing.scale_columns(first, A, options.scale)
    several = bool(content.further)
    named = [f"{first.name} ({where.partition(', ')[0]})" if several else first.name for _, where in content.labelings]
    return A, classes_of_labelings([*zip(labelings, named, strict=False)], options.noise), features


def files_in(folder: Path, kind: str = "") -> list[Path]:
    """Return the files that a folder is read from; its format is by default determined from its files."""
    kind = folder_kind(folder, kind)
    if kind == "zarr":
        return zarr.store_files(folder)
    return [*parts.part_files(folder), *parts.label_files(folder)] if kind == "parts" else images.image_files(folder)


def folder_kind(folder: Path, kind: str = "") -> str:
    """Return the format of a folder: the given one, else zarr, images or parts, depending on its files."""
    if kind or zarr.is_store(folder):
        return kind or "zarr"
    return "parts" if not images.find_images(folder) and parts.part_files(folder) else "images"


def _format(path: Path) -> str:
    if path.is_dir() or zarr.is_store(path):
        return folder_kind(path)
    doubtful = path.suffix.lower() in ("", *COMPRESSED, ".txt") or "ubyte" in path.name
    known_inside = path.suffix.lower() in COMPRESSED and Path(path.stem).suffix.lower() in _EXTENSIONS
    if doubtful and not known_inside and (sniffed := vectors.sniff(path)):
        return sniffed
    packed = ""
    *rest, last = [suffix.lower() for suffix in path.suffixes] or [""]
    if last in COMPRESSED:
        # LIBSVM's compressed files have no extension of their own: sector.t.bz2, rcv1_train.multiclass.bz2.
        inner = _EXTENSIONS.get(rest[-1] if rest else "", "")
        if rest and rest[-1] in _ARCHIVES:
            raise UserError(f"{path.name} holds an archive, {path.stem}; unpack it")
        if not inner and not {*rest} & {*_UNSUPPORTED} and vectors.is_binary(path):
            raise UserError(
                f"the format of the file in {path.name} is not known, and it is not text; add its extension, as in "
                f"NAME.npy{last}, or set option format to one of {', '.join(FORMATS)}"
            )
        if rest and not inner and rest[-1] in _UNSUPPORTED:
            last, packed = rest[-1], last
        elif inner or not rest or rest[-1] != ".txt":
            return inner or "svmlight"
        else:
            return "svmlight" if svmlight.is_likely(path) else "csv"
    if last == ".txt":
        return "svmlight" if svmlight.is_likely(path) else "csv"
    if last in _UNSUPPORTED:
        name, remedy = _UNSUPPORTED[last]
        remedy = _unpacking(remedy, packed)
        raise UserError(f"{path.name}: {name} is not supported; convert it, e.g. {remedy}")
    if last not in _EXTENSIONS:
        raise UserError(
            f"the extension of {path.name!r} is not known; set option format to one of {', '.join(FORMATS)}"
        )
    return _EXTENSIONS[last]


def _unpacking(remedy: str, packed: str) -> str:
    """Return how to convert a file of an unsupported format that is compressed, if it is."""
    if not packed or "joblib" in remedy:  # which unpacks it
        return remedy
    if "open(FILE, 'rb')" not in remedy:
        return f"after unpacking it, {remedy}"
    module = _MODULES[packed]
    return remedy.replace("import numpy", f"import numpy, {module}").replace("open(FILE", f"{module}.open(FILE")
