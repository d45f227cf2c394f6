"""The ways in which the same points can be written down: one function per form, listed in `FORMS`.

A function takes an empty folder, the matrix as numpy or scipy holds it, its labels and how the file is packed. It
writes the file and returns the options with which the dataset ``file`` reads it. To add a format, write such a function
and decorate it with what it can hold; the strategies and all properties then include it.
"""

import bz2
import gzip
import importlib.util
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

import h5py
import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from PIL import Image

FLOATS = ("float64", "float32", "float16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")
DENSE = ("C", "Fortran", "strided", "reversed", "big-endian")
SCIPY = ("csr", "csc", "coo")
# Each of these may be combined with the others; a matrix of none of them is canonical.
SPARSE = ("unsorted", "duplicates", "zeros", "int64", "big-endian")
COMPRESSED = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
TEXT = ("plain", *COMPRESSED)
# Of numbers: with all bits that the type has, multiples of 1/8, whole numbers below 128, zeros and ones.
KINDS = ("full", "eighths", "bytes", "bits")


@dataclass(frozen=True)
class Form:
    """One way to write a matrix.

    Attributes
    ----------
    name : str
    write : callable
        From folder, matrix, labels and packing to the options of the dataset ``file``; of a matrix in memory, to the
        matrix itself.
    containers : tuple of str
        ``"dense"``, or the sparse formats of scipy that it takes.
    dtypes, packings, layouts : tuple of str
        Those that it can hold.
    sparse : bool
        Whether kmdr reads a sparse matrix from it.
    kept : str
        The type in which the matrix is kept, where it does not follow from that of the entries.
    in_memory : bool
        Whether it is no file.
    kinds : tuple of str
        Of `KINDS`, those whose numbers it writes exactly.
    needs : str
        The library that it takes, where it is not one of those that are always there.
    by_class : bool
        Whether the points come back in the order of their classes.
    """

    name: str
    write: Callable
    containers: tuple[str, ...]
    dtypes: tuple[str, ...]
    packings: tuple[str, ...]
    layouts: tuple[str, ...]
    sparse: bool
    kept: str
    in_memory: bool
    kinds: tuple[str, ...]
    needs: str
    by_class: bool

    @property
    def usable(self):
        return not self.needs or importlib.util.find_spec(self.needs) is not None


FORMS: dict[str, Form] = {}


def form(
    containers="dense", dtypes=DTYPES, packings=("plain",), layouts=None, needs="", kept="", in_memory=False,
    kinds=KINDS, by_class=False,
):  # fmt: skip
    """Add a function to `FORMS`; by default it takes dense arrays of every type and layout."""
    held = (containers,) if isinstance(containers, str) else containers
    sparse = held != ("dense",)
    held_as = layouts if layouts is not None else SPARSE if sparse else DENSE

    def add(write):
        name = write.__name__
        FORMS[name] = Form(
            name, write, held, dtypes, packings, held_as, sparse, kept, in_memory, kinds, needs, by_class
        )
        return write

    return add


# --- values


class Case(NamedTuple):
    """Points, and how they are written down.

    Attributes
    ----------
    A : ndarray of float64
        The points themselves.
    y : ndarray of int
        Their labels.
    form, packing, container, dtype : str
    layout : tuple of str
    seed : int
        Of the draws that a layout needs.
    """

    A: np.ndarray
    y: np.ndarray
    form: str
    packing: str
    container: str
    dtype: str
    layout: tuple[str, ...]
    seed: int

    @property
    def expected(self):
        """The matrix in float64 and the classes from 0, in the order in which the form gives them back."""
        codes = np.unique(self.y, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable") if FORMS[self.form].by_class else slice(None)
        return self.A[order], codes[order]

    @property
    def key(self):
        return self.form, self.packing, self.container, self.dtype, "+".join(self.layout) or "canonical"

    def __repr__(self):
        n, d = self.A.shape
        return f"Case({n} x {d}, {' '.join(self.key)}, seed {self.seed})\nA = {self.A.tolist()}\ny = {self.y.tolist()}"


def values(rng, shape, dtype, kind):
    """Return numbers that a type holds exactly, as float64."""
    if dtype == "bool" or kind == "bits":
        return rng.integers(0, 2, shape) * 1.0
    if dtype in FLOATS and kind == "full":  # every bit of the mantissa is used
        return rng.standard_normal(shape).astype(dtype).astype(np.float64)
    if dtype in FLOATS and kind == "eighths":
        return rng.integers(-800, 801, shape) / 8
    most = min(np.iinfo(dtype).max if dtype not in FLOATS else 2048, 2**40 if kind == "full" else 127)
    return rng.integers(0 if dtype in UNSIGNED else -most, most, shape, endpoint=True).astype(np.float64)


def points(n, d, k, dtype, kind, share, seed):
    """Return a matrix in float64 that a type holds exactly, and labels of k classes.

    A row belongs to its class in some of its features. At least one entry of each row is not 0, as kmdr requires of
    sparse data.
    """
    rng = np.random.default_rng(seed)
    codes = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    A = values(rng, (n, d), dtype, kind)
    own = rng.random((k, d)) < 0.6
    A = np.where(own[codes], values(rng, (k, d), dtype, kind)[codes], A)
    A *= rng.random((n, d)) < share
    empty = ~A.any(axis=1)
    A[empty, rng.integers(0, d, empty.sum())] = 1.0
    order = rng.permutation(n)
    return A[order] + 0.0, 3 * codes[order] + 2  # without -0.0


@cache
def ways(name):
    """Return all combinations of a form and what it can hold: form, packing, container, type and layout."""
    of = FORMS[name]
    return [
        (name, packing, container, dtype, layout)
        for packing in of.packings
        for container in of.containers
        for dtype in of.dtypes
        for layout in layouts(of, container, dtype)
    ]


def layouts(of, container, dtype):
    """Return the layouts in which a form takes a container and a type: one at a time of dense, any of sparse arrays."""
    usable = [layout for layout in of.layouts if can_be(of, container, dtype, layout)]
    if container == "dense":
        return [(layout,) for layout in usable]
    return [layout for count in range(len(usable) + 1) for layout in combinations(usable, count)]


def drawn(rng, name=None):
    """Return points and one way to write them, in one form or in any; every form is as likely as the others."""
    usable = sorted(of.name for of in FORMS.values() if of.usable)
    of = FORMS[name or usable[rng.integers(len(usable))]]
    name, packing, container, dtype, layout = ways(of.name)[rng.integers(len(ways(of.name)))]
    n, d, k, seed = rng.integers((14, 5, 2, 0), (41, 15, 5, 2**32)).tolist()
    A, y = points(n, d, k, dtype, str(rng.choice(of.kinds)), rng.choice((1.0, 0.6, 0.3)), seed)
    return Case(A, y, name, packing, container, dtype, layout, seed)


def can_be(of, container, dtype, layout):
    """Tell whether a layout means anything for a container and a type in a form."""
    if layout == "big-endian":
        return np.dtype(dtype).itemsize > 1
    if layout == "duplicates" and dtype == "bool":
        return not of.kept  # text of numbers has no "or"
    return container in ("dense", *SCIPY)


# --- layouts


def laid_out(case):
    """Return the matrix of a case in its type, container and layout."""
    make = dense_as if case.container == "dense" else sparse_as
    return make(case)


def dense_as(case):
    A = case.A.astype(case.dtype)
    (layout,) = case.layout
    if layout == "Fortran":
        return np.asfortranarray(A)
    if layout == "strided":
        wide = np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)
        wide[1::2], wide[:, 1::3] = 1, 1  # nothing that is skipped is what is read
        return wide[::2, ::3]
    if layout == "reversed":
        return np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1]
    if layout == "big-endian":
        return A.astype(A.dtype.newbyteorder(">"))
    return A


def sparse_as(case):
    """Return a sparse matrix whose three arrays are exactly as its layout says."""
    rng = np.random.default_rng(case.seed)
    rows, columns = np.nonzero(case.A)
    data = case.A[rows, columns]
    if "zeros" in case.layout:
        i, j = np.nonzero((case.A == 0) & (rng.random(case.A.shape) < 0.3))
        rows, columns, data = np.r_[rows, i], np.r_[columns, j], np.r_[data, np.zeros(len(i))]
    if "duplicates" in case.layout:
        twice = np.flatnonzero(rng.random(len(data)) < 0.3)
        half = data[twice] / 2 if case.dtype in FLOATS else np.floor(data[twice] / 2)
        if case.dtype == "bool":
            half = data[twice]  # true or true is true
        else:
            data[twice] -= half
        rows, columns, data = np.r_[rows, rows[twice]], np.r_[columns, columns[twice]], np.r_[data, half]
    major, minor, size = (columns, rows, 1) if case.container == "csc" else (rows, columns, 0)
    shuffled = rng.permutation(len(data))
    order = shuffled if "unsorted" in case.layout else np.lexsort((minor, major))
    if case.container != "coo":
        order = order[np.argsort(major[order], kind="stable")]
    rows, columns, major, minor, data = rows[order], columns[order], major[order], minor[order], data[order]
    index = np.int64 if "int64" in case.layout else np.int32
    dtype = np.dtype(case.dtype).newbyteorder(">" if "big-endian" in case.layout else "=")
    data = data.astype(dtype)
    if case.container == "coo":
        S = sp.coo_array((data.astype(np.float64), (rows, columns)), shape=case.A.shape)
        S.data = data  # which scipy would refuse where it is big-endian or float16
        S.coords = tuple(part.astype(index) for part in S.coords)
        return S
    if case.container in ("csr", "csc"):
        ends = np.r_[0, np.cumsum(np.bincount(major, minlength=case.A.shape[size]))]
        S = (sp.csr_array if case.container == "csr" else sp.csc_array)(case.A.shape)
        S.data, S.indices, S.indptr = data, minor.astype(index), ends.astype(index)
        return S
    return sp.csr_array((data.astype(case.dtype), (rows, columns)), shape=case.A.shape).asformat(case.container)


def layout_of(S):
    """Return of a CSR, CSC or COO array what its arrays show of `SPARSE`."""
    if S.format == "coo":
        major, minor = S.coords
    else:
        major, minor = np.repeat(np.arange(len(S.indptr) - 1), np.diff(S.indptr)), S.indices
    places = list(zip(major.tolist(), minor.tolist(), strict=True))
    index = S.coords[0] if S.format == "coo" else S.indices
    return {
        "unsorted": places != sorted(places), "duplicates": len(set(places)) < len(places),
        "zeros": not S.data.all(), "int64": index.dtype == np.int64,
        "big-endian": S.data.dtype.byteorder == ">",
    }  # fmt: skip


# --- in memory

# scipy has no sparse matrices of float16.
OF_SCIPY = tuple(dtype for dtype in DTYPES if dtype != "float16")


@form(in_memory=True)
def array(folder, A, y, packing):
    return A


@form(in_memory=True)
def read_only(folder, A, y, packing):
    A.flags.writeable = False
    return A


@form(in_memory=True, layouts=("C", "Fortran"))
def frame(folder, A, y, packing):
    return pd.DataFrame(A)


@form(containers=SCIPY, in_memory=True)
def sparse_array(folder, A, y, packing):
    return A


@form(containers=("csr", "csc"), in_memory=True)
def sparse_read_only(folder, A, y, packing):
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    return A


@form(containers=SCIPY, dtypes=OF_SCIPY, layouts=SPARSE[:4], in_memory=True)
def sparse_matrix(folder, A, y, packing):
    return getattr(sp, f"{A.format}_matrix")(A)


@form(containers=("bsr", "dia", "lil", "dok"), dtypes=OF_SCIPY, layouts=(), in_memory=True)
def other_sparse_array(folder, A, y, packing):
    return A


# --- numpy's files


def with_labels_apart(folder, path, y):
    np.save(folder / "labels.npy", y)
    return {"path": path, "labels": str(folder / "labels.npy")}


@form()
def npy(folder, A, y, packing):
    np.save(folder / "points.npy", A)
    return with_labels_apart(folder, folder / "points.npy", y)


@form()
def npy_copied(folder, A, y, packing):
    return {**npy(folder, A, y, packing), "copy": True}


@form(packings=("plain", "deflate"))
def npz(folder, A, y, packing):
    (np.savez if packing == "plain" else np.savez_compressed)(folder / "points.npz", X=A, y=y)
    return {"path": folder / "points.npz"}


@form(packings=("plain", "deflate"))
def npz_named(folder, A, y, packing):
    (np.savez if packing == "plain" else np.savez_compressed)(folder / "points.npz", data=A[:1], mine=A, kinds=y)
    return {"path": folder / "points.npz", "matrix": "mine", "label": "kinds"}


@form(
    containers=("csr", "csc", "coo", "bsr", "dia"), dtypes=OF_SCIPY, packings=("plain", "deflate"), layouts=SPARSE[:4]
)
def npz_of_scipy(folder, A, y, packing):
    sp.save_npz(folder / "points.npz", A, compressed=packing == "deflate")
    return with_labels_apart(folder, folder / "points.npz", y)


@form(containers="csr", packings=("plain", "deflate"))
def npz_of_parts(folder, A, y, packing):
    save = np.savez if packing == "plain" else np.savez_compressed
    save(folder / "points.npz", data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape, y=y)
    return {"path": folder / "points.npz"}


# --- MATLAB and the Matrix Market


@form(dtypes=tuple(t for t in DTYPES if t != "float16"), packings=("plain", "deflate"))
def mat(folder, A, y, packing):
    scipy.io.savemat(folder / "points.mat", {"fea": A, "gnd": y}, do_compression=packing == "deflate")
    return {"path": folder / "points.mat"}


@form(dtypes=("float64", "float32", "int16", "int32", "uint8", "uint16"), layouts=DENSE[:-1])
def mat_4(folder, A, y, packing):
    scipy.io.savemat(folder / "points.mat", {"X": A, "labels": y * 1.0}, format="4")
    return {"path": folder / "points.mat", "label": "labels"}


@form(
    containers=SCIPY,
    dtypes=("float64", "bool"),
    packings=("plain", "deflate"),
    layouts=("unsorted", "zeros"),  # MATLAB has no duplicates, and the format no rule for those of booleans
)
def mat_sparse(folder, A, y, packing):
    scipy.io.savemat(folder / "points.mat", {"X": A, "y": y}, do_compression=packing == "deflate")
    return {"path": folder / "points.mat"}


def packed(path, packing, content):
    """Write bytes, compressed where that is said, and return the path."""
    if packing == "plain":
        path.write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.{packing}")
    with COMPRESSED[packing](path, "wb") as file:
        file.write(content)
    return path


def text_of(value):
    """Return the shortest text of a number that is read as the same number of its type."""
    return repr(value.item()) if isinstance(value, np.generic) else repr(value)


MTX = ("plain", "gz", "bz2")


@form(packings=MTX, kept="float64")
def matrix_market_array(folder, A, y, packing):
    kind = "real" if A.dtype.kind == "f" else "integer"
    entries = [text_of(value) for value in (A + 0 if A.dtype == bool else A).T.ravel()]
    head = f"%%MatrixMarket matrix array {kind} general\n% a comment\n{A.shape[0]} {A.shape[1]}\n"
    path = packed(folder / "points.mtx", packing, (head + "\n".join(entries) + "\n").encode())
    return with_labels_apart(folder, path, y)


@form(containers="coo", packings=MTX, kept="float64", layouts=SPARSE[:3], dtypes=OF_SCIPY)
def matrix_market(folder, A, y, packing):
    kind = {"f": "real", "b": "pattern"}.get(A.dtype.kind, "integer")
    if not A.data.all():
        kind = kind.replace("pattern", "integer")  # in which every entry is 1
    lines = [
        f"{i + 1} {j + 1} {text_of(value * 1 if kind == 'integer' else value)}".removesuffix(" True")
        for i, j, value in zip(*A.coords, A.data, strict=True)
    ]
    head = f"%%MatrixMarket matrix coordinate {kind} general\n{A.shape[0]} {A.shape[1]} {len(lines)}\n"
    path = packed(folder / "points.mtx", packing, (head + "\n".join(lines) + "\n").encode())
    return with_labels_apart(folder, path, y)


@form(containers=("csr", "csc", "coo"), packings=("plain",), layouts=SPARSE[:4], dtypes=OF_SCIPY, kept="float64")
def matrix_market_of_scipy(folder, A, y, packing):
    # As float64, for scipy writes the shortest text that float32 reads as the same; a precision of 17 it gets wrong.
    scipy.io.mmwrite(folder / "points.mtx", A.astype(np.float64) if A.dtype.kind in "fb" else A)
    return with_labels_apart(folder, folder / "points.mtx", y)


# --- text


def svmlight_lines(A, y, base=1):
    """Return the text of some points, whose first names its first and last features, even where they are 0.

    The number of features, and whether they count from 0, is what the text shows.
    """
    lines = []
    for i, label in enumerate(y):
        row = slice(A.indptr[i], A.indptr[i + 1])
        entries = {j: text_of(v * 1) for j, v in zip(A.indices[row], A.data[row], strict=True)}
        if i == 0:
            entries = {0: "0", A.shape[1] - 1: "0"} | entries
        lines.append(" ".join([str(label), *(f"{j + base}:{entries[j]}" for j in sorted(entries))]))
    return ("\n".join(lines) + "\n").encode()


@form(containers="csr", packings=TEXT, layouts=("zeros", "int64"), kept="float64", dtypes=OF_SCIPY)
def svmlight(folder, A, y, packing):
    return {"path": packed(folder / "points.svm", packing, svmlight_lines(A, y))}


@form(containers="csr", layouts=("zeros",), kept="float64", dtypes=OF_SCIPY)
def svmlight_from_0(folder, A, y, packing):
    return {"path": packed(folder / "points.libsvm", packing, svmlight_lines(A, y, 0))}


@form(containers="csr", packings=TEXT, layouts=("zeros",), kept="float64", dtypes=OF_SCIPY)
def svmlight_in_two_files(folder, A, y, packing):
    half = len(y) // 2
    paths = [
        packed(folder / f"points{part}.svm", packing, svmlight_lines(A[rows], y[rows]))
        for part, rows in enumerate((slice(0, half), slice(half, None)))
    ]
    return {"path": paths}


def lines_of(A, y, separator, decimal=".", names=None):
    rows = [] if names is None else [separator.join(names)]
    for row, label in zip(A, y, strict=True):
        rows.append(separator.join([*(text_of(v * 1).replace(".", decimal) for v in row), str(label)]))
    return ("\n".join(rows) + "\n").encode()


def column_names(A):
    return [f"feature {j}" for j in range(A.shape[1])]


@form(packings=TEXT, kept="float64")
def csv(folder, A, y, packing):
    return {"path": packed(folder / "points.csv", packing, lines_of(A, y, ",", names=[*column_names(A), "label"]))}


@form(packings=TEXT, kept="float64")
def tsv(folder, A, y, packing):
    content = lines_of(A, y, "\t", names=[*column_names(A), "kind"])
    return {"path": packed(folder / "points.tsv", packing, content), "label": "kind"}


@form(kept="float64")
def csv_with_decimal_commas(folder, A, y, packing):
    content = lines_of(A, y, ";", ",", names=[*column_names(A), "label"])
    return {"path": packed(folder / "points.csv", packing, content)}


@form(kept="float64")
def csv_without_header(folder, A, y, packing):
    content = lines_of(A, y, ",")
    return {"path": packed(folder / "points.data", packing, content), "header": "false", "label": str(A.shape[1])}


@form(kept="float64")
def csv_of_pandas(folder, A, y, packing):
    # As float64, for the shortest text of a float16 or float32 is that of another float64.
    table = pd.DataFrame(A.astype(np.float64) if A.dtype.kind == "f" else A * 1, columns=column_names(A))
    table.assign(label=y).to_csv(folder / "points.csv", index=False)
    return {"path": folder / "points.csv"}


@form(kept="float64", kinds=KINDS[1:])
def xlsx(folder, A, y, packing):
    # openpyxl writes 16 digits of a number; and no other sheet is read than the one that is asked for.
    table = pd.DataFrame(A.astype(np.float64), columns=column_names(A)).assign(label=y)
    with pd.ExcelWriter(folder / "points.xlsx", engine="openpyxl") as book:
        table.head(2).to_excel(book, sheet_name="first", index=False)
        table.to_excel(book, sheet_name="points", index=False)
    return {"path": folder / "points.xlsx", "matrix": "points"}


# --- HDF5


HDF5 = ("plain", "gzip", "lzf", "chunked")


def stored(group, name, values, packing):
    values = np.asarray(values)
    packing = {"gzip": {"compression": "gzip", "shuffle": True}, "lzf": {"compression": "lzf"}}.get(
        packing, {"chunks": tuple(min(5, n) for n in values.shape)} if packing == "chunked" else {}
    )
    group.create_dataset(name, data=values, **packing)


@form(packings=HDF5)
def hdf5(folder, A, y, packing):
    with h5py.File(folder / "points.h5", "w") as file:
        stored(file, "X", A, packing)
        stored(file, "y", y, packing)
    return {"path": folder / "points.h5"}


@form(packings=HDF5)
def hdf5_nested(folder, A, y, packing):
    with h5py.File(folder / "points.hdf5", "w") as file:
        stored(file, "layers/counts", A, packing)
        stored(file, "kinds", y, packing)
    return {"path": folder / "points.hdf5", "matrix": "layers/counts", "label": "kinds"}


def annotate(file, A, y, packing):
    """Write the tables of AnnData: the labels as codes and categories."""
    obs, var = file.create_group("obs"), file.create_group("var")
    for table, n, letter in ((obs, A.shape[0], "c"), (var, A.shape[1], "g")):
        table.attrs["_index"] = "_index"
        table["_index"] = [f"{letter}{i}" for i in range(n)]
    classes, codes = np.unique(y, return_inverse=True)
    column = obs.create_group("cell_type")
    column["codes"], column["categories"] = codes.astype("i1"), [f"type {label:02}" for label in classes]


def store_parts(group, A, packing, kind="encoding-type", shape="shape"):
    group.attrs[kind], group.attrs[shape] = f"{A.format}_matrix", A.shape
    for part in ("data", "indices", "indptr"):
        stored(group, part, getattr(A, part), packing)


@form(packings=HDF5)
def h5ad(folder, A, y, packing):
    with h5py.File(folder / "points.h5ad", "w") as file:
        stored(file, "X", A, packing)
        annotate(file, A, y, packing)
    return {"path": folder / "points.h5ad", "label": "cell_type"}


@form(containers=("csr", "csc"), packings=HDF5)
def h5ad_sparse(folder, A, y, packing):
    with h5py.File(folder / "points.h5ad", "w") as file:
        store_parts(file.create_group("X"), A, packing)
        annotate(file, A, y, packing)
    return {"path": folder / "points.h5ad", "label": "cell_type"}


@form(containers=("csr", "csc"), packings=HDF5)
def h5ad_of_old(folder, A, y, packing):
    with h5py.File(folder / "points.h5ad", "w") as file:
        group = file.create_group("X")
        store_parts(group, A, packing, "h5sparse_format", "h5sparse_shape")
        group.attrs["h5sparse_format"] = A.format
        obs = np.zeros(len(y), [("index", "S8"), ("label", "i8")])
        obs["label"] = y
        file["obs"] = obs
    return {"path": folder / "points.h5ad"}


@form(containers=("csr", "csc"), packings=HDF5)
def hdf5_sparse(folder, A, y, packing):
    with h5py.File(folder / "points.h5", "w") as file:
        store_parts(file.create_group("X"), A, packing)
        stored(file, "y", y, packing)
    return {"path": folder / "points.h5"}


def cell_ranger(folder, A, y, packing, group, features):
    """Write features times cells, one column per cell, whose parts are those of the rows of A."""
    with h5py.File(folder / "points.h5", "w") as file:
        counts = file.create_group(group)
        for part in ("data", "indices", "indptr"):
            stored(counts, part, getattr(A, part), packing)
        counts["shape"] = np.array(A.shape[::-1], "i4")
        counts["barcodes"] = np.array([f"AACG{i}-1" for i in range(A.shape[0])], "S18")
        counts[features] = np.array([f"ENSG{i:011}" for i in range(A.shape[1])], "S15")
        stored(file, "y", y, packing)
    return {"path": folder / "points.h5"}


@form(containers="csr", packings=HDF5, layouts=("unsorted", "zeros", "int64", "big-endian"))
def cell_ranger_3(folder, A, y, packing):
    return cell_ranger(folder, A, y, packing, "matrix", "features/id")


@form(containers="csr", packings=HDF5, layouts=("unsorted", "zeros", "int64", "big-endian"))
def cell_ranger_2(folder, A, y, packing):
    return cell_ranger(folder, A, y, packing, "GRCh38", "genes") | {"matrix": "GRCh38"}


# --- Parquet and Zarr


@form(
    needs="pyarrow", packings=("none", "snappy", "gzip", "zstd", "brotli"), layouts=DENSE[:-1],
    dtypes=tuple(t for t in DTYPES if t != "float16"),
)  # fmt: skip
def parquet(folder, A, y, packing):
    table = pd.DataFrame(A, columns=column_names(A)).assign(label=y)
    table.to_parquet(folder / "points.parquet", index=False, compression=None if packing == "none" else packing)
    return {"path": folder / "points.parquet"}


@form(needs="pyarrow", layouts=DENSE[:-1], dtypes=tuple(t for t in DTYPES if t != "float16"))
def parts_of_parquet(folder, A, y, packing):
    (folder / "parts").mkdir()
    table = pd.DataFrame(A, columns=column_names(A)).assign(label=y)
    for part, rows in enumerate(np.array_split(np.arange(len(y)), 11)):  # 10 follows 9, not 1
        table.iloc[rows].to_parquet(folder / "parts" / f"{part}.parquet", index=False, row_group_size=2)
    return {"path": folder / "parts"}


def zarr_group(folder, A, y, version, store=None, **settings):
    import zarr

    group = zarr.open_group(store or folder / "points.zarr", mode="w", zarr_format=version)
    chunks = (5, 3)
    for name, values in (("X", A), ("y", np.asarray(y))):
        array = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=chunks[: values.ndim], **settings
        )
        array[...] = values
    return {"path": folder / "points.zarr"}


@form(needs="zarr", packings=("plain", "packed"))
def zarr_2(folder, A, y, packing):
    settings = {} if packing == "packed" else {"compressors": None}
    return zarr_group(folder, A, y, 2, order="F" if A.flags.f_contiguous else "C", **settings)


@form(needs="zarr", packings=("plain", "packed"))
def zarr_3(folder, A, y, packing):
    return zarr_group(folder, A, y, 3, **({} if packing == "packed" else {"compressors": None}))


@form(needs="zarr", packings=("plain", "packed"))
def zarr_zip(folder, A, y, packing):
    import zarr

    store = zarr.storage.ZipStore(folder / "points.zip", mode="w")
    zarr_group(folder, A, y, 3, store, **({} if packing == "packed" else {"compressors": None}))
    store.close()
    return {"path": folder / "points.zip"}


# --- folders


@form()
def parts_of_npy(folder, A, y, packing):
    (folder / "parts").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(y)), 11)):
        np.save(folder / "parts" / f"part-{part}.npy", A[rows])
    np.save(folder / "parts" / "labels.npy", y)
    return {"path": folder / "parts"}


def save_image(path, row):
    Image.fromarray(np.ascontiguousarray(row[None])).save(path)  # each feature is a pixel


def images(folder, A, y, packing):
    (folder / "images").mkdir()
    for i, row in enumerate(A):
        save_image(folder / "images" / f"{i}.{packing}", row)
    return with_labels_apart(folder, folder / "images", y)


EIGHT = ("png", "tif", "bmp", "gif", "pgm")


@form(dtypes=("uint8",), packings=EIGHT, kept="float64", layouts=DENSE[:-1])
def images_of_8_bits(folder, A, y, packing):
    return images(folder, A, y, packing)


@form(dtypes=("uint8",), packings=EIGHT, kept="float64", layouts=DENSE[:-1], by_class=True)
def images_in_folders_of_classes(folder, A, y, packing):
    for i, (row, label) in enumerate(zip(A, y, strict=True)):
        path = folder / "images" / f"class {label:03}" / f"{i}.{packing}"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_image(path, row)
    return {"path": folder / "images"}


@form(dtypes=("uint16",), packings=("png", "tif", "pgm"), kept="float64", layouts=DENSE[:-1])
def images_of_16_bits(folder, A, y, packing):
    return images(folder, A, y, packing)


@form(dtypes=("float32", "int32"), packings=("tif",), kept="float64", layouts=DENSE[:-1])
def images_of_32_bits(folder, A, y, packing):
    return images(folder, A, y, packing)
