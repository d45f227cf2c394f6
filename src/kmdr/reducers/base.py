"""What a reducer is: two timed steps for the harness, and a scikit-learn transformer for everyone else."""

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
from kmdr.linalg.matrix import WHOLE, Shifted, check_structure, column_means, is_finite, is_large, read_only, room

# Rows of which a multiple is mapped at a time: no product of a block of them is cut where that of all is not.
_ROWS = 1024
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


_PROMPT = ">" * 3  # written out, this module would look as if it had examples of its own
_HEADING = "Parameters\n----------\n"


def _entries(cls: type) -> dict[str, str]:
    """Return what the class's own docstring says of each parameter."""
    section = inspect.cleandoc(vars(cls).get("__doc__") or "").partition(_HEADING)[2].partition("\n\n")[0]
    parts = re.split(r"^(?=\w+ : )", section, flags=re.MULTILINE)
    return {part.partition(" : ")[0]: part.rstrip() for part in parts if part}


def _documented(cls: type["Reducer"]) -> str:
    """Return a class's docstring with its inherited parameters, and an example where it has none; a test runs them."""
    known: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        known |= _entries(each)
    names = [*cls.parameters(), *inspect.signature(Reducer).parameters]
    parameters = _HEADING + "\n".join(known[name] for name in names if name in known)
    own = inspect.cleandoc(vars(cls).get("__doc__") or "")
    before, there, after = own.partition(_HEADING)
    if not there:
        section = re.search(r"^\w+\n-{3,}$", own, re.MULTILINE)
        before, after = (own[: section.start()], "\n\n" + own[section.start() :]) if section else (own, "")
    rest = after.partition("\n\n")[2]
    whole = "\n\n".join(part.strip() for part in (before, parameters, rest) if part.strip())
    if "Examples\n--------" in whole:
        return whole
    call = f"{cls.__name__}(n_components=2, n_clusters=3, random_state=0).fit_transform(load_iris().data).shape"
    typed = ("from sklearn.datasets import load_iris", f"from kmdr.reducers import {cls.__name__}", call)
    example = "\n".join(f"{_PROMPT} {line}" for line in typed)
    return f"{whole}\n\nExamples\n--------\n{example}\n(150, 2)\n"


class Reducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A map from A (n×d) to C (n×r).

    The harness calls two timed steps. ``prepare`` does everything that does not depend on r and is charged in full to
    every r; ``reduce`` does the rest for one r: it draws the map and applies it. A is a C-ordered float64 or float32
    array or a CSR array; C is a dense array, n×r, or A itself.

    As a scikit-learn transformer, ``fit`` prepares and draws, and ``transform`` applies.

    Parameters
    ----------
    n_components : int, optional
        r. By default the r that the reducer's theorem asks for.
    n_clusters : int
        k, of the theorem, and of the singular vectors that some reducers take.
    eps : float
        ε of the theorem, 0 < ε < 1.
    random_state : int, RandomState, numpy Generator or None
        Where random draws come from. Not used by deterministic reducers.

    Attributes
    ----------
    deterministic : bool
        Whether C is a function of A, k and r alone.
    row_by_row : bool
        Whether a row of C is a function of the map and that row of A alone, to the last bit.
    own_kmeans : bool
        Whether `cluster` is another k-means than Lloyd's, so that the protocol can choose neither engine nor k-means++.
    later : mapping
        Parameters that came after rows had been written, with the values that those were made with: no row tells them
        at these.
    n_components_ : int
        r, after ``fit``.
    map_ : object
        What ``draw`` returned, after ``fit``.
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
        """Return the names of the constructor's arguments that are this reducer's own: what a configuration may set."""
        common = inspect.signature(Reducer).parameters  # once: to find it out takes as long as a small k-means
        return [name for name in inspect.signature(cls).parameters if name not in common]

    def validate(self) -> None:
        """Refuse arguments of the constructor that are out of range."""

    def check(self, n: int, d: int, k: int, r: int) -> None:
        """Refuse an r that this reducer cannot give for an n×d matrix, before any work is done."""
        del n, d, k, r  # nothing to refuse, unless a subclass knows better

    def fixed_r(self, d: int, k: int) -> int | None:
        """Return the number of columns of C where it does not depend on the r asked for, else None."""
        del d, k
        return None

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return the r that this reducer's theorem asks for.

        Raises
        ------
        UserError
            When no theorem gives one.
        """
        del n, d, k, eps
        raise UserError(f"no theorem gives the r of {type(self).__name__}; set n_components")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Any:
        """Return whatever `draw` needs of the work that does not depend on r; None by default."""
        del A, k, rng

    @abstractmethod
    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Any:
        """Return the map to r dimensions, in whatever form `apply` takes."""

    @abstractmethod
    def apply(self, A: Matrix, drawn: Any) -> Matrix:
        """Return the image of the rows of A under a map that was drawn, n×r."""

    def apply_all(self, A: Matrix, maps: Sequence[Any]) -> list[Matrix]:
        """Return what `apply` does for each of several maps, to the last bit; `images` calls it."""
        return [self.apply(A, drawn) for drawn in maps]

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Matrix:
        """Return C, n×r: the image of A under the map drawn for it."""
        return self.apply(A, self.draw(A, r, rng, state))

    def check_protocol(self, protocol: Protocol) -> None:
        """Refuse a protocol that this reducer's own k-means cannot follow, before any work is done."""
        if not self.own_kmeans:
            return
        if not protocol.plain:
            raise UserError(
                f"kmeans.online and kmeans.empty_action cannot be had with reducer {self.name}, which has a k-means of "
                "its own; leave them out"
            )
        for name, value, usable in (("start", protocol.start, "sample"), ("engine", protocol.engine, "kmdr")):
            if value == "plus" or (name == "engine" and value != usable):
                raise UserError(
                    f"kmeans.{name} = {value!r} cannot be had with reducer {self.name}, which has a k-means of its "
                    f"own; use {usable!r}"
                )

    def cluster(self, C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
        """Cluster what this reducer returned; the protocol's engine, unless C has no plain coordinates."""
        return cluster_allowed(C, k, starts, rng, protocol)

    # --- scikit-learn

    def fit(self, X: Any, y: Any = None) -> "Reducer":
        """Learn the map to ``n_components`` dimensions.

        Parameters
        ----------
        X : (n, d) array or sparse matrix

        Raises
        ------
        ArgumentError
            A ``ValueError``: when an argument is out of range, or the r is one that this reducer cannot give.
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
        """Return which argument gave the papers' r or k, for an error that names it."""
        return "n_components" if letter == "r" else "n_clusters"

    def _sizes(self, n: int, d: int) -> tuple[int, int]:
        """Return k and r."""
        k = whole_number("n_clusters", self.n_clusters, 1)
        if self.n_components is not None:
            return k, whole_number("n_components", self.n_components, 1)
        r = self.theorem_r(n, d, k, open_unit_interval(self.eps, "eps"))
        if r > d:
            raise UserError(
                f"for n_clusters = {k} and eps = {self.eps:.3g} the theorem of {type(self).__name__} asks for {r} "
                f"dimensions, and the data has no more than {d}; set n_components"
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


def shares_work(reducer: Reducer, A: Matrix) -> bool:
    """Tell whether several maps are applied to A faster together, by what a reducer's own class says of itself.

    What a class was derived from may not hold of it.
    """
    own = vars(type(reducer))
    return "apply_all" in own or (is_large(A) and own.get("row_by_row", False))


def images(reducer: Reducer, A: Matrix, maps: Sequence[Any]) -> list[Matrix]:
    """Return the images of A under several maps of a reducer that `shares_work`, to the last bit those of `apply`.

    A large A is read once for all of them where the reducer works row by row: some rows are mapped in each way before
    the next are looked at.
    """
    own = vars(type(reducer))
    apply_all = reducer.apply_all if "apply_all" in own else partial(Reducer.apply_all, reducer)
    if not (is_large(A) and own.get("row_by_row", False)):
        return apply_all(A, maps)
    C: list[Dense] = []
    step = _ROWS * max(1, WHOLE // 2 // (_ROWS * A.shape[1]))
    for start in range(0, len(A), step):
        rows = slice(start, start + step)
        parts = apply_all(A[rows], maps)
        C = C or [room((len(A), *part.shape[1:]), part.dtype) for part in parts]
        for image, part in zip(C, parts, strict=True):
            image[rows] = part
    return [*C]


def at_most(count: int, limit: int, name: str, what: str, symbol: Literal["r", "k"] = "r") -> None:
    """Refuse an r, or a k, above a limit."""
    if count > limit:
        raise UserError(
            f"{symbol} = {count} is more than the {limit} {what} that {name} can give; ask for {symbol} ≤ {limit}"
        )


def fewer_than_points(n_neighbors: int, n: int) -> None:
    """Refuse as many neighbours as there are points, or more."""
    if n_neighbors >= n:
        raise UserError(f"n_neighbors = {n_neighbors} needs more points than the {n} of this data; lower it")


def one_of(value: str, valid: tuple[str, ...], name: str) -> str:
    """Return ``value`` when it is one of the valid ones."""
    if value not in valid:
        raise UserError(f"{name} = {value!r} is not one of {', '.join(valid)}; choose one of them")
    return value


def true_or_false(value: bool, name: str) -> bool:
    """Return ``value`` when it is one of the two."""
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r} is neither true nor false; choose one of them")
    return value


def open_unit_interval(value: float, name: str) -> float:
    """Return ``value`` when 0 < value < 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise UserError(f"{name} = {value!r} is outside 0 < {name} < 1; the papers use 1/3")
    return value


def affordable(count: float, name: str, what: str) -> None:
    """Refuse to make ``count`` float64 numbers where they would take more than half of the memory there is."""
    there = memory()
    if 8 * count > there / 2:
        raise UserError(
            f"{name} needs {8 * count / 2**30:.1f} GiB for {what}, more than half of the {there / 2**30:.1f} GiB of "
            "this machine; take fewer points, or a reducer that keeps sparse data sparse"
        )


def dense(A: Matrix, name: str) -> Dense:
    """Return A as a dense float64 array.

    Raises
    ------
    UserError
        When A is sparse or float32, and the copy would take more than half of this machine's memory.
    """
    if isinstance(A, np.ndarray):
        if A.dtype != np.float64:
            affordable(A.size, name, "a float64 copy of the data")
        return A.astype(np.float64, copy=False)
    affordable(A.shape[0] * A.shape[1], name, "a dense copy of sparse data")
    return np.asarray(A.toarray(), dtype=np.float64)


def column_centred(A: Matrix, name: str) -> tuple[Dense | Shifted, Dense]:
    """Return A with the mean of each column taken off, dense, and the means, in float64.

    Raises
    ------
    UserError
        As `dense`; the copy that a dense A needs is asked for too, unless it is large.
    """
    if is_large(A):
        mean = column_means(A)
        return Shifted(A, mean[None]), mean
    affordable(A.shape[0] * A.shape[1], name, "a centred copy of the data")
    A = dense(A, name)
    mean = A.mean(axis=0)
    return A - mean, mean
