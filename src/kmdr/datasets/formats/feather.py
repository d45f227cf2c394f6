"""Read a table of Arrow: feather, which is Arrow's file format, or a stream of Arrow's messages.

A compressed buffer may claim any size, and takes that memory before anything of it is unpacked. The sizes are
therefore read from the messages first. The messages are read in their order, so that they are those that were checked.
The offsets in a buffer are not checked when it is read, and a wrong one ends the process, so the table is validated.
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kmdr.base.errors import UserError
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.common import Content, afford, import_extra, reading
from kmdr.datasets.formats.tables import exact_column, lost_integers, table_content

_FILE, _OLD = b"ARROW1\0\0", b"FEA1"
# The last bytes of a file and of a stream.
_FILE_END, _STREAM_END = b"ARROW1", b"\xff\xff\xff\xff\0\0\0\0"
# Bytes of a cell of a table of pandas.
_CELL_BYTES = 8
# Fields, by their number, of the tables Message, DictionaryBatch and RecordBatch of Arrow's format.
_HEADER, _BATCH, _LENGTH, _BUFFERS, _COMPRESSION = 2, 1, 0, 2, 3


def feather(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a feather file of version 2 or a stream of Arrow."""
    ipc = import_extra("pyarrow.ipc", "parquet", path)
    memory_map = import_extra("pyarrow", "parquet", path).memory_map
    with reading(path, "feather"), memory_map(str(path)) as file:
        content = file.read_buffer()
        if content[: len(_OLD)].to_pybytes() == _OLD:
            raise UserError(
                f"{path.name} is a feather file of version 1; convert it, e.g. by pandas: "
                "pandas.read_feather(FILE).to_csv('data.csv', index=False)"
            )
        is_file = content[: len(_FILE)].to_pybytes() == _FILE
        end = content[-len(_STREAM_END) :].to_pybytes()
        if is_file and not end.endswith(_FILE_END):
            raise UserError(f"{path.name} is truncated: a feather file ends with ARROW1; copy or download it again")
        stream = content[len(_FILE) :] if is_file else content
        columns = len(ipc.open_stream(stream).schema)
        rows, claimed = 0, 0
        for message in ipc.MessageReader.open_stream(stream):
            if message.type != "schema":
                length, sizes = _sizes(message.metadata.to_pybytes(), message.type == "dictionary", message.body)
                rows, claimed = rows + length, claimed + sum(sizes)
                afford(path, f"claims {rows} rows of {columns} columns", _CELL_BYTES * rows * columns + claimed, limit)
        table = ipc.open_stream(stream).read_all()
        table.validate(full=True)
        table = _plain_columns(path, table, limit)
        frame = table.to_pandas().reset_index(drop=True)
        for j, column in enumerate(table.columns if frame.shape[1] == table.num_columns else ()):
            if frame.columns[j] == (options.label or "label") and lost_integers(frame.iloc[:, j]):
                frame.isetitem(j, exact_column(column).array)
        read = table_content(path, frame, list(map(str, frame.columns)), "feather", options.label)
    if is_file or end == _STREAM_END:
        return read
    warning = f"{path.name} has no mark of the end of a stream, so it may be truncated: {rows} rows were read"
    return replace(read, warnings=(*read.warnings, warning))


def _plain_columns(path: Path, table: Any, limit: float) -> Any:
    """Return an Arrow table whose columns pandas can hold within the limit.

    Dictionaries of numbers, which would be categories in pandas, as text is, are decoded. Cells that are lists or
    records, which may overlap in the file and are refused unless their column is dropped, become empty lists.
    """
    pa, compute = (import_extra(module, "parquet", path) for module in ("pyarrow", "pyarrow.compute"))
    types, rows = pa.types, len(table)
    for j, column in enumerate(table.columns):
        kind, plain = getattr(column.type, "storage_type", column.type), column
        coded = kind.value_type if types.is_dictionary(kind) else None
        if coded is not None and (types.is_primitive(coded) or types.is_decimal(coded)):
            plain = column.cast(coded)
        elif types.is_nested(kind) and not types.is_run_end_encoded(kind):
            plain = pa.ListArray.from_arrays(pa.array([0] * (rows + 1), pa.int32()), pa.array([], pa.int8()))
        else:
            unfolded = sum(_unfolded_bytes(chunk, types, compute) for chunk in column.chunks)
            afford(path, f"has texts in column {table.schema.field(j).name!r} that unfold to too much", unfolded, limit)
        if plain is not column:
            table = table.set_column(j, table.schema.field(j).name, plain)
    return table


def _unfolded_bytes(chunk: Any, types: Any, compute: Any) -> int:
    """Return the bytes of the texts of an array whose rows may share one text in the file; 0 for other arrays."""
    if types.is_string_view(chunk.type) or types.is_binary_view(chunk.type):
        # A view is 16 bytes, of which the first four are the length.
        lengths = np.frombuffer(chunk.buffers()[1], "<i4")[4 * chunk.offset :: 4][: len(chunk)]
        return int(lengths.clip(0).sum(dtype=np.int64))
    if types.is_run_end_encoded(chunk.type) and not types.is_primitive(chunk.type.value_type):
        ends = chunk.run_ends.to_numpy(zero_copy_only=False)
        lengths = compute.binary_length(chunk.values).fill_null(0).to_numpy(zero_copy_only=False)
        return int(np.diff(ends, prepend=0).astype(np.float64) @ lengths)
    return 0


def _sizes(message: bytes, is_dictionary: bool, body: Any) -> tuple[int, list[int]]:
    """Return the rows that a message claims, and the sizes of its buffers when they are unpacked."""
    batch = _reference(message, _field(message, _reference(message, 0), _HEADER))
    batch = _reference(message, _field(message, batch, _BATCH)) if is_dictionary else batch
    at, buffers = _field(message, batch, _LENGTH), _field(message, batch, _BUFFERS)
    (length,) = struct.unpack_from("<q", message, at) if at else (0,)
    places = [*_places(message, _reference(message, buffers))] if buffers else []
    if not _field(message, batch, _COMPRESSION):
        return length, [size for _, size in places]
    unpacked = [struct.unpack("<q", body[start : start + 8].to_pybytes())[0] for start, size in places if size]
    return length, [size for size in unpacked if size > 0]  # -1: it is not compressed


def _places(message: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and the size of each buffer of a vector of them."""
    (count,) = struct.unpack_from("<I", message, at)
    return struct.iter_unpack("<qq", message[at + 4 : at + 4 + 16 * count])


def _reference(message: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", message, at)[0])


def _field(message: bytes, table: int, number: int) -> int:
    """Return the position of a field of a table of FlatBuffers; 0 if it has its default."""
    fields = table - int(struct.unpack_from("<i", message, table)[0])
    (size,) = struct.unpack_from("<H", message, fields)
    place = fields + 4 + 2 * number
    offset = int(struct.unpack_from("<H", message, place)[0]) if 4 + 2 * number < size else 0
    return table + offset if offset else 0
