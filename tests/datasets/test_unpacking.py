"""Chunks of Zarr stores: a limit on what each unpacks to, whatever packed it, and packed numbers read unchanged."""

import bz2
import gzip
import lzma
import struct
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.datasets.formats import unpacking

zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")

A = np.arange(108.0).reshape(12, 9)
ZEROS = 2**29  # bytes; a chunk of A has 864
MEMORY = 2**26
PACKED = {
    "gzip": lambda codec: gzip.compress(bytes(ZEROS), 1),
    "gzip, second stream": lambda codec: gzip.compress(b"x") + gzip.compress(bytes(ZEROS), 1),
    "zlib": lambda codec: zlib.compress(bytes(ZEROS), 1),
    "bz2": lambda codec: bz2.compress(bytes(ZEROS), 1),
    "bz2, second stream": lambda codec: bz2.compress(b"x") + bz2.compress(bytes(ZEROS), 1),
    "lzma": lambda codec: lzma.compress(bytes(ZEROS), preset=0),
    "zstd": lambda codec: zstd_of_zeros(stated=True),
    "zstd, size not stated": lambda codec: zstd_of_zeros(stated=False),
    "zstd, second frame": lambda codec: bytes(codec.encode(bytes(8))) + zstd_of_zeros(stated=False),
    "blosc": lambda codec: codec.encode(bytes(ZEROS)),
    "lz4": lambda codec: codec.encode(bytes(ZEROS)),
}
CODECS = {
    "gzip": numcodecs.GZip, "zlib": numcodecs.Zlib, "bz2": numcodecs.BZ2, "lzma": numcodecs.LZMA,
    "zstd": numcodecs.Zstd, "blosc": numcodecs.Blosc, "lz4": numcodecs.LZ4,
}  # fmt: skip


def zstd_of_zeros(stated):
    """Return a frame of blocks of repeated zeros, of which each has four bytes (RFC 8878, section 3.1.1)."""
    head = bytes([0xE0]) + struct.pack("<Q", ZEROS) if stated else bytes([0x00, 0x58])
    blocks = [struct.pack("<I", 2**17 << 3 | 1 << 1)[:3] + b"\0"] * (ZEROS // 2**17)
    blocks[-1] = struct.pack("<I", 2**17 << 3 | 1 << 1 | 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + head + b"".join(blocks)


def store(folder, codec, chunks=(12, 9)):
    with warnings.catch_warnings(action="ignore"):
        array = zarr.create_array(
            folder / "points.zarr", zarr_format=2, shape=A.shape, chunks=chunks, dtype="f8", compressors=codec
        )
    array[...] = A
    return folder / "points.zarr"


def load(path):
    return datasets.load("file", {"path": str(path), "k": 2}).A


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", PACKED)
def test_a_chunk_that_unpacks_to_too_much_is_refused_before_it_takes_memory(name, tmp_path):
    codec = CODECS[name.partition(",")[0]]()
    path = store(tmp_path, codec)
    (path / "0.0").write_bytes(PACKED[name](codec))
    tracemalloc.start()
    with pytest.raises(UserError, match=r"points\.zarr is not a readable Zarr file: a chunk unpacks to more than"):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("chunks", [(12, 9), (5, 4), (1, 9)])
def test_packed_numbers_are_read_unchanged(name, chunks, tmp_path):
    np.testing.assert_array_equal(load(store(tmp_path, CODECS[name](), chunks)), A)


@pytest.mark.parametrize("name", CODECS)
def test_other_uses_of_the_codecs_have_no_limit(name):
    codec, content = CODECS[name](), bytes(2**22)
    with unpacking.limit_chunks(2**22):
        assert bytes(codec.decode(codec.encode(content))) == content
    with unpacking.limit_chunks(2**22 - 1), pytest.raises(ValueError, match="more than"):
        codec.decode(codec.encode(content))
    assert bytes(codec.decode(codec.encode(content))) == content


def test_the_size_of_frames_of_zstandard_is_the_stated_one_or_a_bound(rng):
    for size in (0, 1, 255, 256, 2**16 + 255, 2**16 + 256, 2**18 + 3):
        content = rng.integers(0, 5, size, np.uint8).tobytes()
        for checksum in (False, True):
            frame = bytes(numcodecs.Zstd(checksum=checksum).encode(content))
            assert unpacking._zstd_size(memoryview(frame)) == size
            assert unpacking._zstd_size(memoryview(frame + frame)) == 2 * size
    assert unpacking._zstd_size(memoryview(zstd_of_zeros(stated=False))) == ZEROS


@pytest.mark.parametrize("rows", [10**9, 10**15])
def test_a_store_that_claims_too_many_chunks_is_refused(rows, tmp_path):
    path = store(tmp_path, None, (5, 4))
    metadata = (path / ".zarray").read_text()
    (path / ".zarray").write_text(metadata.replace("12", str(rows), 1))
    with pytest.raises(UserError, match=r"claims \d+ chunks in an array, but at most 10000000 are read"):
        load(path)


@pytest.mark.parametrize(
    ("name", "options"), [("X", {}), ("X", {"matrix": "X"}), ("layers/counts", {"matrix": "layers/counts"})]
)
def test_a_sparse_matrix_or_a_layer_is_refused_with_the_remedy(name, options, tmp_path):
    group = zarr.open_group(tmp_path / "cells.zarr", mode="w")
    group.create_group("X").create_array("data", shape=(3,), dtype="f4")
    group.create_group("layers").create_array("counts", shape=(3, 3), dtype="f4")
    with pytest.raises(UserError, match=rf"{name} of cells\.zarr is not an array at the top .* as h5ad"):
        datasets.load("file", {"path": str(tmp_path / "cells.zarr"), "k": 2, **options})
