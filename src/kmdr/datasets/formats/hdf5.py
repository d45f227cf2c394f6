"""Read HDF5, AnnData's h5ad, Cell Ranger's h5 and MATLAB 7.3.

There are dense arrays, sparse matrices as groups of their parts, and columns of ``obs``.

Only the file itself is read: links to other files, and arrays stored in other files, are refused.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from kmdr.base.errors import UserError, unknown
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats import arrays
from kmdr.datasets.formats.arrays import pick, pick_classes
from kmdr.datasets.formats.common import Content, afford, afford_shape, import_extra, reading
from kmdr.datasets.validation import csr

_PARTS = {"data", "indices", "indptr"}
# Attributes with layout and shape of a sparse group, in AnnData's files and in older ones.
_LAYOUTS, _SHAPES = ("encoding-type", "h5sparse_format"), ("shape", "h5sparse_shape")


def hdf5(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a matrix and labels of an HDF5 file. The matrix may lie in a group, as ``layers/counts``.

    In an h5ad file the matrix is ``X`` and the labels are a column of ``obs``. In a file of 10x Genomics the matrix is
    the group ``matrix``, or of Cell Ranger 2 the group with the name of the genome, and the points are its cells.
    """
    matrix, label = options.matrix, options.label
    h5py = import_extra("h5py", "hdf5", path)
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        annotated = "obs" in file and ("X" in file or "var" in file)
        if annotated and "X" not in file and not matrix:
            others = [f"{group}/{name}" for group in ("layers", "obsm") if group in file for name in file[group]]
            raise UserError(
                f"{path.name} has no matrix X; set dataset.matrix=… to another ({', '.join(others) or 'none'})"
            )
        is_cells = _is_cells(_inside(path, file, matrix or "matrix"))
        given = matrix or "matrix" * is_cells
        points = given if given and _inside(path, file, given) is not None else pick(path, list(file), matrix)
        A, claimed = _matrix(path, _inside(path, file, points), points, limit)
        features = None
        if is_cells:
            A, features = _cells(path, _inside(path, file, points), points, A, limit)
            claimed = f"10x Genomics, cells of {points!r}"
        if annotated:
            obs = _inside(path, file, "obs")
            columns = _columns(obs)
            if label and label not in columns:
                raise unknown(f"column of obs in {path.name}", label, columns)
            classes = label or ("label" if "label" in columns else "")
            labels = _column(path, file, obs, classes, limit) if classes else None
            form = f"h5ad, {claimed}, columns of obs: {', '.join(columns) or 'none'}"
            return Content(A, labels, _feature_names(path, file, A.shape[1], limit), form, f"column {classes!r} of obs")
        if label and label not in file:
            raise unknown(f"array of labels in {path.name}", label, [name for name in file if name != points])
        classes = label or pick_classes(path, list(file), matrix=points)
        labels = _values(path, _inside(path, file, classes), classes, limit) if classes else None
        return Content(A, labels, features, f"HDF5, {claimed}", f"array {classes!r}")


def _inside(path: Path, file: Any, name: str) -> Any:
    node = file
    for part in filter(None, name.split("/")):
        link = node.get(part, getlink=True) if hasattr(node, "keys") else None
        if link is None:
            return None
        if type(link).__name__ == "ExternalLink":
            raise UserError(f"{path.name} links {name!r} to another file; choose that file instead")
        node = node[part]
    return _held_here(path, file, node, name)


def _held_here(path: Path, file: Any, node: Any, name: str) -> Any:
    """Return a node, or refuse one whose values are in another file."""
    foreign = hasattr(node, "dtype") and (node.is_virtual or node.external)
    if foreign or node.file.filename != file.file.filename:
        raise UserError(f"{path.name} links {name!r} to another file; choose that file instead")
    return node


def _matrix(path: Path, node: Any, name: str, limit: float) -> tuple[Any, str]:
    if hasattr(node, "dtype"):
        if node.dtype.kind not in "biuf":
            raise UserError(f"{name} of {path.name} does not hold real numbers; choose a matrix of real numbers")
        afford(path, f"claims {name} of {' x '.join(map(str, node.shape))}", 8.0 * math.prod(node.shape), limit)
        return node[()], f"array {name!r}"
    if not set(node) >= _PARTS:
        held = ", ".join(f"{name}/{part}" for part in node)
        raise UserError(
            f"{name} of {path.name} is a group, not a matrix; set dataset.matrix=… to an array: {held or 'none'}"
        )
    shape = next((node.attrs[key] for key in _SHAPES if key in node.attrs), None)
    if shape is None:
        shape = node["shape"][:2] if "shape" in node else None
    if shape is None:
        raise UserError(f"{name} of {path.name} has the parts of a sparse matrix but no shape; add it")
    _refuse_fractions(path, shape, f"the shape of {name}")
    n, d = (int(size) for size in shape)
    usual = "csc" if _is_cells(node) else "csr"
    layout = next((_text(node.attrs[key]) for key in _LAYOUTS if key in node.attrs), usual)
    parts = [_inside(path, node, part) for part in ("data", "indices", "indptr")]
    afford_shape(path, (n, d), limit)
    needed = float(sum(8 * math.prod(part.shape) for part in parts))
    afford(path, f"claims {len(parts[0])} entries in {name}", needed, limit)
    make = scipy.sparse.csc_array if layout.startswith("csc") else scipy.sparse.csr_array
    data, indices, indptr = (part[()] for part in parts)
    _refuse_fractions(path, indices, f"{name}/indices")
    _refuse_fractions(path, indptr, f"{name}/indptr")
    return make((data, indices, indptr), shape=(n, d)), f"sparse matrix {name!r}"


def _refuse_fractions(path: Path, values: Any, name: str) -> None:
    """Refuse indices that are not whole, of which scipy takes the integer part."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and not (array.dtype.kind == "f" and (array == np.trunc(array)).all()):
        raise UserError(f"{name} of {path.name} has numbers that are not whole; write the file again")


def _is_cells(node: Any) -> bool:
    """Return whether a node is a group as Cell Ranger writes it: features times cells, column by column."""
    return isinstance(node, Mapping) and set(node) >= {*_PARTS, "shape", "barcodes"}


def _cells(path: Path, group: Any, name: str, A: Any, limit: float) -> tuple[Any, tuple[str, ...] | None]:
    """Return the matrix of a group of Cell Ranger with one row per cell, and the identifiers of its features.

    The order of the entries of a cell is free; a feature that a cell has twice is refused, as counts would be added.
    """
    try:
        cells = csr(A.T)
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from error
    n, d = cells.shape
    nodes = {"barcodes": n, "features/id" if "features" in group else "genes": d}
    lists = {part: node for part in nodes if (node := _inside(path, group, part)) is not None}
    for part, node in lists.items():
        if node.shape != (nodes[part],):
            raise UserError(
                f"{name} of {path.name} has the shape {d} features x {n} cells, but {part} has the shape {node.shape}; "
                "download it again"
            )
    unique = cells.copy()
    unique.sum_duplicates()
    if repeated := cells.nnz - unique.nnz:
        raise UserError(
            f"{name} of {path.name} has {repeated} entries of a cell and a feature that have one already; download it "
            "again"
        )
    del lists["barcodes"]
    return cells, next(
        (tuple(map(str, _as_text(_all_of(path, node, part, limit)))) for part, node in lists.items()), None
    )


def _columns(obs: Any) -> list[str]:
    """Return the columns of an AnnData table, which is a compound array in old files."""
    if hasattr(obs, "dtype"):
        return list(obs.dtype.names or ())
    index = _text(obs.attrs.get("_index", "_index"))
    return [name for name in obs if name not in (index, "__categories")]


def _column(path: Path, file: Any, obs: Any, name: str, limit: float) -> Any:
    if hasattr(obs, "dtype"):
        categories = _inside(path, file, f"uns/{name}_categories")  # in old files
        values = _all_of(path, obs, name, limit, name)
        if categories is not None and values.dtype.kind in "iu":
            return _decode_categories(path, name, values, _values(path, categories, name, limit))
        return _as_text(values)
    categories = _inside(path, obs, f"__categories/{name}")
    node = _inside(path, obs, name)
    if categories is not None:
        return _decode_categories(path, name, _all_of(path, node, name, limit), _values(path, categories, name, limit))
    return _values(path, node, name, limit)


def _all_of(path: Path, node: Any, name: str, limit: float, part: Any = ()) -> Any:
    """Return all values of an array, or of a part of its columns; refuse one that takes more memory than the limit."""
    afford(path, f"claims the values of {name}", float(node.dtype.itemsize * math.prod(node.shape)), limit)
    return node[part]


def _values(path: Path, node: Any, name: str, limit: float) -> Any:
    """Return the values of an array, or of a group of codes and categories."""
    if hasattr(node, "dtype"):
        return _as_text(_all_of(path, node, name, limit))
    if isinstance(node, Mapping) and {"codes", "categories"} <= set(node):
        codes, categories = (_all_of(path, node[part], f"{name}/{part}", limit) for part in ("codes", "categories"))
        return _decode_categories(path, name, codes, _as_text(categories))
    raise UserError(f"{name} of {path.name} does not hold readable labels; choose others with dataset.label=…")


def _decode_categories(path: Path, name: str, codes: Any, categories: Any) -> Any:
    """Return the category of each code; code -1 is a missing value."""
    if np.size(codes) and not -1 <= np.min(codes) <= np.max(codes) < len(categories):
        raise UserError(
            f"{name} of {path.name} has codes from {np.min(codes)} to {np.max(codes)}, but {len(categories)} "
            "categories; write the file again"
        )
    return np.array([*categories, None], dtype=object)[codes]


def _as_text(values: Any) -> Any:
    if values.dtype.kind in "OS":
        return np.array([_text(value) for value in values.ravel()], dtype=object)
    return values


def _feature_names(path: Path, file: Any, d: int, limit: float) -> tuple[str, ...] | None:
    """Return the names of the columns, the index of ``var``."""
    var = _inside(path, file, "var")
    if var is None or hasattr(var, "dtype"):
        return None
    index = _inside(path, var, _text(var.attrs.get("_index", "_index")))
    names: Sequence[Any] = []
    if index is not None and hasattr(index, "dtype"):
        names = _as_text(_all_of(path, index, "the index of var", limit))
    return tuple(map(str, names)) if len(names) == d else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# -- MATLAB ----------------------------------------------------------------------------------------------------------


def mat(path: Path, limit: float, options: FileOptions) -> Content:
    """Read MATLAB variables. Files of version 7.3 are HDF5, with the axes in reverse order."""
    with reading(path, "MAT"):
        if not _is_mat73(path):
            return arrays.mat(path, limit, options)
        names = mat_variables(path)
        points = pick(path, names, options.matrix)
        classes = pick_classes(path, names, options.label, points)
        with import_extra("h5py", "hdf5", path).File(path, "r") as file:
            A = _variable(path, file, points, limit)
            if A.dtype.kind not in "biuf" or _text(file[points].attrs.get("MATLAB_class", "")) == "char":
                raise UserError(f"{points} of {path.name} is not a matrix of numbers; choose one with dataset.matrix=…")
            labels = _variable(path, file, classes, limit) if classes else None
        return Content(A, labels, None, f"MATLAB 7.3, variable {points!r}", f"variable {classes!r}")


def mat_variables(path: Path) -> list[str]:
    """Return the names of the variables of a MAT file."""
    if not _is_mat73(path):
        return [name for name, _, _ in scipy.io.whosmat(path)]
    with import_extra("h5py", "hdf5", path).File(path, "r") as file:
        return [name for name in file if not name.startswith("#")]


def _is_mat73(path: Path) -> bool:
    """Return whether a MAT file is HDF5, which begins after a header of 512 bytes."""
    with path.open("rb") as file:
        file.seek(512)
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def _variable(path: Path, file: Any, name: str, limit: float) -> Any:
    """Return a variable of MATLAB 7.3: an array, a sparse matrix, or an array of texts for a cell array."""
    node = _inside(path, file, name)
    if hasattr(node, "dtype"):
        afford(path, f"claims {name}", 8.0 * math.prod(node.shape), limit)
        if node.dtype.kind != "O":
            return node[()].T
        cells = [_held_here(path, file, file[reference], name) for reference in np.ravel(node[()].T)]
        afford(path, f"claims the texts of {name}", 8.0 * sum(math.prod(cell.shape) for cell in cells), limit)
        return np.array([_characters(cell) for cell in cells], dtype=object)
    parts = {part: _inside(path, node, part) for part in ("data", "ir", "jc") if part in [*node]}
    if "MATLAB_sparse" not in node.attrs or "jc" not in parts:
        raise UserError(f"{name} of {path.name} is a structure; choose a matrix of numbers with dataset.matrix=…")
    afford(path, f"claims {name}", 8.0 * sum(math.prod(part.shape) for part in parts.values()), limit)
    shape = int(node.attrs["MATLAB_sparse"]), len(parts["jc"]) - 1
    afford_shape(path, shape, limit)
    data, rows = (parts[part][()] if part in parts else np.empty(0, np.int64) for part in ("data", "ir"))
    return scipy.sparse.csc_array((data, rows.astype(np.int64), parts["jc"][()].astype(np.int64)), shape=shape)


def _characters(cell: Any) -> str:
    """Return a text of MATLAB 7.3. An empty array is stored as its shape."""
    if cell.attrs.get("MATLAB_empty", 0):
        return ""
    return "".join(map(chr, np.ravel(cell[()].T).astype(int)))
