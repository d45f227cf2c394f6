"""Limit what a chunk of a Zarr store unpacks to: a few bytes may claim, or be, any number of zeros.

The decoders of numcodecs are replaced by ones that count. They have no limit except within `limit_chunks`, so other
uses of numcodecs in this process read as before.
"""

import bz2
import functools
import importlib
import lzma
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ZSTD_MAGIC, _ZSTD_BLOCK = b"\x28\xb5\x2f\xfd", 2**17
_ZSTD_RAW, _ZSTD_REPEATED = 0, 1  # types of blocks


class _State:
    most_bytes = math.inf


@contextmanager
def limit_chunks(most_bytes: float) -> Iterator[None]:
    """Refuse each chunk that unpacks to more bytes."""
    _replace_decoders()
    before, _State.most_bytes = _State.most_bytes, most_bytes
    try:
        yield
    finally:
        _State.most_bytes = before


def _refuse_excess(size: int) -> None:
    if size > _State.most_bytes:
        raise ValueError(f"a chunk unpacks to more than {_State.most_bytes:.0f} bytes")


def _blosc_size(data: memoryview) -> int:
    """Return the bytes that Blosc data claim; refuse data that end early, which Blosc would complete from memory."""
    size, _, packed = (int.from_bytes(data[start : start + 4], "little") for start in (4, 8, 12))
    if packed > len(data):
        raise ValueError(f"a chunk has {len(data)} of its {packed} bytes")
    return size


def _lz4_size(data: memoryview) -> int:
    return int.from_bytes(data[:4], "little")


def _zstd_size(data: memoryview) -> int:
    """Return the bytes that Zstandard frames unpack to, or a bound of these if a frame does not state its size.

    RFC 8878, section 3.1.1.
    """
    total, at = 0, 0
    while at < len(data):
        if data[at : at + 4] != _ZSTD_MAGIC:
            raise ValueError("a chunk is not a frame of Zstandard")
        descriptor = data[at + 4]
        single = descriptor >> 5 & 1
        length = (single, 2, 4, 8)[descriptor >> 6]
        at += 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
        stated = int.from_bytes(data[at : at + length], "little") + 256 * (length == 2)
        at, bound, last = at + length, 0, False
        while not last and at < len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            bound += size if kind in (_ZSTD_RAW, _ZSTD_REPEATED) else _ZSTD_BLOCK
            at += 3 + (1 if kind == _ZSTD_REPEATED else size)
        at += 4 * (descriptor >> 2 & 1)  # a checksum
        total += stated if length else bound
    return total


# Codecs that state their size, and those that have to be unpacked to know it.
_SIZES = {"blosc.Blosc": _blosc_size, "lz4.LZ4": _lz4_size, "zstd.Zstd": _zstd_size}
_STREAMS: dict[str, Callable[[Any], Any]] = {
    "gzip.GZip": lambda _: zlib.decompressobj(wbits=31),
    "zlib.Zlib": lambda _: zlib.decompressobj(),
    "bz2.BZ2": lambda _: bz2.BZ2Decompressor(),
    "lzma.LZMA": lambda codec: lzma.LZMADecompressor(codec.format, filters=codec.filters),
}


def _claiming(decode: Any, size_of: Callable[[memoryview], int]) -> Any:
    def checked(self: Any, buf: Any, out: Any = None) -> Any:
        _refuse_excess(size_of(memoryview(buf).cast("B")))
        return decode(self, buf, out)

    return checked


def _streaming(decode: Any, start: Callable[[Any], Any]) -> Any:
    def checked(self: Any, buf: Any, out: Any = None) -> Any:
        size, left = 0, memoryview(buf).cast("B")
        while left and _State.most_bytes < math.inf:  # streams may follow one another
            stream = start(self)
            size += len(stream.decompress(left, int(_State.most_bytes) - size + 1))
            _refuse_excess(size)
            left = memoryview(stream.unused_data)
        return decode(self, buf, out)

    return checked


@functools.cache
def _replace_decoders() -> None:
    for codecs, replacement in ((_SIZES, _claiming), (_STREAMS, _streaming)):
        for name, check in codecs.items():
            module, _, cls = name.partition(".")
            codec = getattr(importlib.import_module(f"numcodecs.{module}"), cls)
            codec.decode = replacement(codec.decode, check)
