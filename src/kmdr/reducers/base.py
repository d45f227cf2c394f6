"""The base class of reducers: timed steps for the harness, and a scikit-learn transformer for everyone else."""

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kmdr.base.errors import ArgumentError, UserError, memory, whole_number
from kmdr.base.plugins import Registry
from kmdr.clustering.engines import cluster_allowed
from kmdr.clustering.kmeans import Clustering, Protocol
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import (
    Shifted,
    check_structure,
    column_means,
    is_finite,
    is_out_of_core,
    mapped_rows,
    read_only,
    room,
)

REGISTRY: Registry[type["Reducer"]] = Registry("reducers")
R = TypeVar("R", bound="type[Reducer]")


def register(name: str) -> Callable[[R], R]:
    """Make a class available to configurations under ``name``."""

    def add(cls: R) -> R:
        cls.name = name
        cls.__doc__ = _documented(cls)
        REGISTRY.add(name, cls.__module__, cls)
        return cls

    return add


_PROMPT = ">" * 3  # written out, doctest would find an example in this module
_HEADING = "Parameters\n----------\n"


def _entries(cls: type) -> dict[str, str]:
    """Return the entry of each parameter in a class's own docstring."""
    section = inspect.cleandoc(vars(cls).get("__doc__") or "").partition(_HEADING)[2].partition("\n\n")[0]
    entries = re.split(r"^(?=\w+ : )", section, flags=re.MULTILINE)
    return {entry.partition(" : ")[0]: entry.rstrip() for entry in entries if entry}


def _documented(cls: type["Reducer"]) -> str:
    """Return a class's docstring with its inherited parameters, and a tested example if it has none."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        texts |= _entries(base)
    names = [*cls.parameters(), *inspect.signature(Reducer).parameters]
    parameters = _HEADING + "\n".join(texts[name] for name in names if name in texts)
    docstring = inspect.cleandoc(vars(cls).get("__doc__") or "")
    before, heading, after = docstring.partition(_HEADING)
    if not heading:
        section = re.search(r"^\w+\n-{3,}$", docstring, re.MULTILINE)
        before, after = (
            (docstring[: section.start()], "\n\n" + docstring[section.start() :]) if section else (docstring, "")
        )
    rest = after.partition("\n\n")[2]
    text = "\n\n".join(part.strip() for part in (before, parameters, rest) if part.strip())
    if "Examples\n--------" in text:
        return text
    call = f"{cls.__name__}(n_components=2, n_clusters=3, random_state=0).fit_transform(load_iris().data).shape"
    lines = ("from sklearn.datasets import load_iris", f"from kmdr.reducers import {cls.__name__}", call)
    example = "\n".join(f"{_PROMPT} {line}" for line in lines)
    return f"{text}\n\nExamples\n--------\n{example}\n(150, 2)\n"


class Reducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A map from A (n×d) to C (n×r).

    The harness calls two timed steps. ``prepare`` does everything that does not depend on r, and its time is charged in
    full to every r. ``reduce`` does the rest for one r: it draws the map and applies it. A is a C-ordered float64 or
    float32 array or a CSR array; C is a dense array, n×r, or A itself.

    As a scikit-learn transformer, ``fit`` prepares and draws, and ``transform`` applies.

    Parameters
    ----------
    n_components : int, optional
        r. By default the r that the reducer's theorem asks for.
    n_clusters : int
        k of the theorem, and of the singular vectors that some reducers take.
    eps : float
        ε of the theorem, 0 < ε < 1.
    random_state : int, RandomState, numpy Generator or None
        Source of random draws. Not used by deterministic reducers.

    Attributes
    ----------
    deterministic : bool
        Whether C is a function of A, k and r alone.
    row_by_row : bool
        Whether a block of rows of C (see `mapped_rows`) depends on the map and on these rows of A alone, to the last
        bit.
    own_kmeans : bool
        Whether `cluster` runs a k-means other than Lloyd's, so that the protocol can choose neither engine nor
        k-means++.
    later : mapping
        Parameters added after rows had been written, with the values that those rows were made with. Rows do not record
        them at these values.
    n_components_ : int
        r, after ``fit``.
    map_ : object
        Result of ``draw``, after ``fit``.
    """

    name: ClassVar[str] = ""
    deterministic: ClassVar[bool] = False
    row_by_row: ClassVar[bool] = False
    own_kmeans: ClassVar[bool] = False
    later: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self, n_components: int | None = None, *, n_clusters: int = 8, eps: float = 1 / 3, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.eps = eps
        self.random_state = random_state

    @classmethod
    def parameters(cls) -> list[str]:
        """Return the names of the parameters that a configuration may set, which `Reducer` itself does not have."""
        common = inspect.signature(Reducer).parameters  # once: it takes as long as a small k-means
        return [name for name in inspect.signature(cls).parameters if name not in common]

    def validate(self) -> None:
        """Refuse constructor arguments that are out of range."""

    def check(self, n: int, d: int, k: int, r: int) -> None:
        """Refuse an r that this reducer cannot provide for an n×d matrix, before any work is done."""
        del n, d, k, r  # a subclass may refuse some

    def fixed_r(self, d: int, k: int) -> int | None:
        """Return the number of columns of C if it does not depend on the requested r, else None."""
        del d, k
        return None

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return the r that this reducer's theorem asks for.

        Raises
        ------
        UserError
            If no theorem gives one.
        """
        del n, d, k, eps
        raise UserError(f"no theorem gives the r of {type(self).__name__}; set n_components")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Any:
        """Return the state that `draw` needs and that does not depend on r; None by default."""
        del A, k, rng

    @abstractmethod
    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Any:
        """Return the map to r dimensions, in any form that `apply` takes."""

    @abstractmethod
    def apply(self, A: Matrix, drawn: Any) -> Matrix:
        """Return the image of the rows of A under a drawn map, n×r."""

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Matrix:
        """Return C, n×r: the image of A under the map drawn for it."""
        return self.apply(A, self.draw(A, r, rng, state))

    def check_protocol(self, protocol: Protocol) -> None:
        """Refuse a protocol that this reducer's own k-means cannot follow, before any work is done."""
        if not self.own_kmeans:
            return
        if not protocol.plain:
            raise UserError(
                f"kmeans.online and kmeans.empty_action do not work with reducer {self.name}, which uses its own "
                "k-means; remove them"
            )
        for name, value, usable in (("start", protocol.start, "sample"), ("engine", protocol.engine, "kmdr")):
            if value in ("plus", "greedy") or (name == "engine" and value != usable):
                raise UserError(
                    f"kmeans.{name} = {value!r} does not work with reducer {self.name}, which uses its own k-means; "
                    f"use {usable!r}"
                )

    def cluster(self, C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
        """Cluster what this reducer returned, by the protocol's engine unless C has no plain coordinates."""
        return cluster_allowed(C, k, starts, rng, protocol)

    # --- scikit-learn

    def fit(self, X: Any, y: Any = None) -> "Reducer":
        """Learn the map to ``n_components`` dimensions.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
        y : ignored

        Raises
        ------
        ArgumentError
            A ``ValueError``: if an argument is out of range, or this reducer cannot provide the r.
        """
        del y
        A = self._matrix(X, reset=True, ensure_min_samples=2)
        n, d = A.shape
        try:
            k, r = self._sizes(n, d)
            self.validate()
            self.check(n, d, k, r)
            rng = self._generator()
            self.map_ = self.draw(A, r, rng, self.prepare(A, k, rng))
        except UserError as error:
            sentence = re.sub(r"\b[rk](?= [=≤] )", lambda letter: self._argument(letter[0]), str(error))
            raise ArgumentError(f"{sentence} (n_samples={n}, n_features={d})") from error
        self.n_components_ = r
        return self

    def transform(self, X: Any) -> Matrix:
        """Return the image of the rows of X, n×r, in X's precision."""
        return self._image(X)

    def _image(self, X: Any) -> Matrix:
        check_is_fitted(self)
        C = self.apply(self._matrix(X, reset=False), self.map_)
        if not is_finite(C):
            raise ArgumentError(f"the image of X is beyond {C.dtype}; scale X down")
        return C

    def _argument(self, letter: str) -> str:
        """Return the argument that set the papers' r or k, for an error that names it."""
        return "n_components" if letter == "r" else "n_clusters"

    def _sizes(self, n: int, d: int) -> tuple[int, int]:
        """Return k and r."""
        k = whole_number("n_clusters", self.n_clusters, 1)
        if self.n_components is not None:
            return k, whole_number("n_components", self.n_components, 1)
        r = self.theorem_r(n, d, k, check_unit_interval(self.eps, "eps"))
        if r > d:
            raise UserError(
                f"for n_clusters = {k} and eps = {self.eps:.3g} the theorem of {type(self).__name__} asks for {r} "
                f"dimensions, but the data has only {d}; set n_components"
            )
        return k, r

    def _matrix(self, X: Any, **requirements: Any) -> Matrix:
        how = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C", **requirements}
        A = read_only(validate_data(self, read_only(X), **how))
        A = sp.csr_array(A) if sp.issparse(A) else A
        check_structure(A)
        return A

    def _generator(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        return np.random.default_rng(list(check_random_state(self.random_state).bytes(16)))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def maps_in_blocks(reducer: Reducer, A: Matrix) -> bool:
    """Return True if several maps of a reducer are applied to each block of an out-of-core A before the next is read.

    This reads the reducer's own class only: a statement about a base class may not hold for a subclass.
    """
    return is_out_of_core(A) and vars(type(reducer)).get("row_by_row", False)


def images(reducer: Reducer, A: Dense, maps: Sequence[Any]) -> list[Matrix]:
    """Return the images of A under several maps if `maps_in_blocks`, to the last bit what `apply` returns."""
    C: list[Dense] = []
    for rows in mapped_rows(A):
        blocks = [reducer.apply(A[rows], drawn) for drawn in maps]
        C = C or [room((len(A), *block.shape[1:]), block.dtype) for block in blocks]
        for image, block in zip(C, blocks, strict=True):
            image[rows] = block
    return [*C]


def check_limit(count: int, limit: int, name: str, what: str, symbol: Literal["r", "k"] = "r") -> None:
    """Refuse an r, or a k, above a limit."""
    if count > limit:
        raise UserError(
            f"{symbol} = {count} is more than the {limit} {what} that {name} can give; choose {symbol} ≤ {limit}"
        )


def check_neighbours(n_neighbors: int, n: int) -> None:
    """Refuse at least as many neighbours as there are points."""
    if n_neighbors >= n:
        raise UserError(f"n_neighbors = {n_neighbors} must be below the number of points ({n}); lower it")


def check_choice(value: str, valid: tuple[str, ...], name: str) -> str:
    """Return ``value`` if it is valid; raise a UserError otherwise."""
    if value not in valid:
        raise UserError(f"{name} = {value!r} is not one of {', '.join(valid)}; choose one of them")
    return value


def check_bool(value: bool, name: str) -> bool:
    """Return ``value`` if it is a bool; raise a UserError otherwise."""
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r} is neither true nor false; choose one of them")
    return value


def check_unit_interval(value: float, name: str) -> float:
    """Return ``value`` if 0 < value < 1; raise a UserError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise UserError(f"{name} = {value!r} is outside 0 < {name} < 1; the papers use 1/3")
    return value


def check_memory(count: float, name: str, what: str) -> None:
    """Refuse to allocate ``count`` float64 numbers that would take more than half of the machine's memory."""
    available = memory()
    if 8 * count > available / 2:
        raise UserError(
            f"{name} needs {8 * count / 2**30:.1f} GiB for {what}, more than half of this machine's "
            f"{available / 2**30:.1f} GiB; use fewer points, or a reducer that keeps sparse data sparse"
        )


def dense(A: Matrix, name: str) -> Dense:
    """Return A as a dense float64 array.

    Raises
    ------
    UserError
        If A is sparse or float32, and the copy would take more than half of this machine's memory.
    """
    if isinstance(A, np.ndarray):
        if A.dtype != np.float64:
            check_memory(A.size, name, "a float64 copy of the data")
        return A.astype(np.float64, copy=False)
    check_memory(A.shape[0] * A.shape[1], name, "a dense copy of sparse data")
    return np.asarray(A.toarray(), dtype=np.float64)


def column_centred(A: Matrix, name: str) -> tuple[Dense | Shifted, Dense]:
    """Return A with the mean of each column subtracted, dense, and the means, in float64.

    Raises
    ------
    UserError
        As for `dense`, also for the copy that a dense A needs unless it is out-of-core.
    """
    if is_out_of_core(A):
        mean = column_means(A)
        return Shifted(A, mean[None]), mean
    check_memory(A.shape[0] * A.shape[1], name, "a centred copy of the data")
    A = dense(A, name)
    mean = A.mean(axis=0)
    return A - mean, mean
