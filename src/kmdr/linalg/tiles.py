"""Tiles: rows of a matrix laid side by side, so that one vector instruction serves all of them at any stride.

A tile of A holds ``TILE`` consecutive rows transposed: entry ``j * TILE + t`` is A[row + t, j]. A kernel that combines
columns then works on contiguous vectors of ``TILE`` numbers. Such a vector is a value of its own in compiled code here,
because the compiler's vectoriser neither sees through indirect addresses nor uses the widest registers, and checks at
every short loop whether its arrays overlap. On a processor with narrower registers each operation becomes several.

This relies on numba's private API: its typing context, data models and code generator. Hence the upper bound of numba
in ``pyproject.toml``, which is raised once the tests of the kernels pass with a newer version.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.extending import intrinsic, models, register_model

from kmdr.linalg.matrix import Dense

# 16 float64 fill two of the widest registers: 8 took 1.1 times as long and 32 took 1.2 (sign product, r = 1000).
TILE = 16
_BLOCK = 8  # rows and columns that `_transpose` keeps in registers
_LINE = 64  # bytes per cache line; a vector across two lines costs two accesses (sign product: 1.5 times the time)


# Calls differ from definitions: numba passes types and asks for the code to generate.
_primitive: Callable[[Any], Any] = intrinsic


class _Lanes(types.Type):
    """A vector of ``TILE`` numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: _Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), TILE))  # type: ignore[no-untyped-call]


def _address(context: Any, builder: Any, array: Any, count: int, value: Any, offset: Any) -> Any:
    """Return the address of ``count`` entries of a contiguous array as one vector.

    The entries lie within the array, which is checked if numba checks bounds (``NUMBA_BOUNDSCHECK=1``).
    """
    vector = ir.VectorType(context.get_data_type(array.dtype), count)
    structure = context.make_array(array)(context, builder, value)
    if context.enable_boundscheck:
        length = builder.extract_value(structure.shape, 0)
        for end in (offset, builder.add(offset, offset.type(count - 1))):
            cgutils.do_boundscheck(context, builder, end, length)  # type: ignore[no-untyped-call]
    return builder.bitcast(builder.gep(structure.data, [offset]), vector.as_pointer())


@_primitive
def zeros(typingctx: Any, array: Any) -> Any:
    """Return a vector of zeros of the array's dtype."""
    del typingctx
    lanes = _Lanes(array.dtype)
    return lanes(array), lambda context, *_: ir.Constant(context.get_value_type(lanes), None)


@_primitive
def load(typingctx: Any, array: Any, offset: Any) -> Any:
    """Return ``array[offset : offset + TILE]`` as a vector."""
    del typingctx, offset

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        return builder.load(_address(context, builder, array, TILE, *args), align=array.dtype.bitwidth // 8)

    return _Lanes(array.dtype)(array, types.intp), generate


@_primitive
def store(typingctx: Any, array: Any, offset: Any, x: Any) -> Any:
    """Write the vector ``x`` to ``array[offset : offset + TILE]``."""
    del typingctx, offset

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        builder.store(args[2], _address(context, builder, array, TILE, *args[:2]), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, x), generate


@_primitive
def add(typingctx: Any, x: Any, y: Any) -> Any:
    """Return x + y of two vectors."""
    del typingctx
    return x(x, y), lambda _context, builder, _signature, args: builder.fadd(*args)


@_primitive
def subtract(typingctx: Any, x: Any, y: Any) -> Any:
    """Return x − y of two vectors."""
    del typingctx
    return x(x, y), lambda _context, builder, _signature, args: builder.fsub(*args)


@_primitive
def multiply_add(typingctx: Any, a: Any, x: Any, y: Any) -> Any:
    """Return a·x + y of a number and two vectors, rounded once if the processor can."""
    del typingctx, a, y

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        a, x, y = args
        anything = ir.Constant(x.type, ir.Undefined)
        lane = builder.insert_element(anything, a, ir.IntType(32)(0))
        every = builder.shuffle_vector(lane, anything, ir.Constant(ir.VectorType(ir.IntType(32), TILE), None))
        return builder.fadd(builder.fmul(every, x, flags=("contract",)), y, flags=("contract",))

    return x(x.dtype, x, x), generate


@_primitive
def add_square(typingctx: Any, x: Any, y: Any) -> Any:
    """Return x + y² of two vectors, rounded once if the processor can."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        x, y = args
        return builder.fadd(builder.fmul(y, y, flags=("contract",)), x, flags=("contract",))

    return x(x, y), generate


@_primitive
def _transpose(typingctx: Any, source: Any, i: Any, step: Any, target: Any, j: Any, target_step: Any) -> Any:
    """Copy rows of 8 entries, ``step`` apart from ``i`` on in ``source``, to columns of 8 in ``target``."""
    del typingctx, i, step, j, target_step

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        source_value, i, step, target_value, j, target_step = args
        align = source.dtype.bitwidth // 8
        rows = []
        for _ in range(_BLOCK):
            rows.append(builder.load(_address(context, builder, source, _BLOCK, source_value, i), align=align))
            i = builder.add(i, step)
        # Rows k and k + h exchange their off-diagonal blocks of h columns, for h = 4, 2, 1.
        masks = ir.VectorType(ir.IntType(32), _BLOCK)
        for h in (4, 2, 1):
            upper = ir.Constant(masks, [c + (_BLOCK - h if c & h else 0) for c in range(_BLOCK)])
            lower = ir.Constant(masks, [c + (_BLOCK if c & h else h) for c in range(_BLOCK)])
            for k in range(_BLOCK):
                if not k & h:
                    pair = rows[k], rows[k + h]
                    rows[k] = builder.shuffle_vector(*pair, upper)
                    rows[k + h] = builder.shuffle_vector(*pair, lower)
        for row in rows:
            builder.store(row, _address(context, builder, target, _BLOCK, target_value, j), align=align)
            j = builder.add(j, target_step)
        return context.get_dummy_value()

    return types.void(source, types.intp, types.intp, target, types.intp, types.intp), generate


@numba.njit(cache=True, nogil=True)
def scratch(vectors: int, like: Dense) -> Dense:
    """Return an uninitialised buffer of ``vectors`` vectors of the dtype of ``like``, at the start of a cache line."""
    room = np.empty(vectors * TILE + _LINE // like.itemsize, like.dtype)
    skip = -room.ctypes.data % _LINE // like.itemsize
    return room[skip : skip + vectors * TILE]


@numba.njit(cache=True, nogil=True)
def read_tile(A: Dense, row: int, start: int, stop: int, tile: Dense) -> None:
    """Write columns start … stop of the rows of a C-contiguous A from ``row`` on to ``tile``, padded with zero rows."""
    d = A.shape[1]
    width = stop - start
    rows = min(TILE, A.shape[0] - row)
    done = width // _BLOCK * _BLOCK if rows == TILE else 0
    flat = A.reshape(-1)
    for t in range(0, TILE, _BLOCK):
        for j in range(0, done, _BLOCK):
            _transpose(flat, (row + t) * d + start + j, d, tile, j * TILE + t, TILE)
    for j in range(done, width):
        for t in range(TILE):
            tile[j * TILE + t] = A[row + t, start + j] if t < rows else 0


@numba.njit(cache=True, nogil=True)
def write_tile(tile: Dense, C: Dense, row: int) -> None:
    """Write ``tile`` to the rows of the C-contiguous ``C`` from ``row`` on, as many as there are."""
    r = C.shape[1]
    rows = min(TILE, C.shape[0] - row)
    done = r // _BLOCK * _BLOCK if rows == TILE else 0
    flat = C.reshape(-1)
    for t in range(0, TILE, _BLOCK):
        for j in range(0, done, _BLOCK):
            _transpose(tile, j * TILE + t, TILE, flat, (row + t) * r + j, r)
    for j in range(done, r):
        for t in range(rows):
            C[row + t, j] = tile[j * TILE + t]
