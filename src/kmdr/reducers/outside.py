"""Any scikit-learn transformer as a reducer, named by its import path."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from kmdr.base.errors import UserError
from kmdr.base.outside import arguments, check_arguments, find_class, seed_of
from kmdr.linalg import Dense, Matrix
from kmdr.reducers.base import Reducer


class Outside(Reducer):
    """C = the result of a third-party transformer: ``fit`` draws the map, ``transform`` applies it.

    r is passed as ``n_components``, and the repetition's seed as ``random_state`` if the class has such an argument.

    Parameters
    ----------
    path : str
        ``package.module.Class``.
    args : mapping
        Further arguments of its constructor.
    """

    def __init__(self, path: str = "", args: Mapping[str, Any] | None = None, n_components: int | None = None) -> None:
        super().__init__(n_components)
        self.path = path
        self.args = args
        self.name = path  # type: ignore[misc]  # per instance, not per class
        self._class = find_class(path, "reducer")
        self._seeded = "random_state" in arguments(self._class)
        self.deterministic = not self._seeded  # type: ignore[misc]

    def validate(self) -> None:
        """Refuse a class that cannot map to a given number of dimensions, and arguments it does not take."""
        if not hasattr(self._class, "fit_transform") and not hasattr(self._class, "transform"):
            raise UserError(f"reducer {self.path!r} has neither fit_transform nor transform; name a transformer")
        if "n_components" not in arguments(self._class):
            raise UserError(
                f"reducer {self.path!r} has no argument n_components, so r cannot be set; name a transformer that has "
                "one, or write a wrapper class"
            )
        check_arguments(self._class, self.args or {}, f"reducer {self.path}")
        for name in ("n_components", "random_state"):
            if name in (self.args or {}):
                raise UserError(f"reducer.args.{name} is set by kmdr from r_grid and seed; remove it")

    def model(self, r: int, rng: np.random.Generator) -> Any:
        """Return the unfitted transformer to r dimensions."""
        seed = {"random_state": seed_of(rng)} if self._seeded else {}
        return self._class(**{**(self.args or {}), "n_components": r, **seed})

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Any:
        """Return the fitted transformer."""
        del state
        return self.model(r, rng).fit(A)

    def apply(self, A: Matrix, drawn: Any) -> Matrix:
        """Return the fitted transformer's image of A."""
        return as_matrix(drawn.transform(A), A.shape[0], None)

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Matrix:
        """Return C, by ``fit_transform`` if the class has it: only there some classes map the fitted points."""
        del state
        model = self.model(r, rng)
        C = model.fit_transform(A) if hasattr(model, "fit_transform") else model.fit(A).transform(A)
        return as_matrix(C, A.shape[0], r)


def as_matrix(C: Any, n: int, r: int | None) -> Matrix:
    """Return C as an n×r array or CSR array of floating-point numbers.

    Raises
    ------
    UserError
        If it is none, or has masked or complex entries: the conversion would drop the mask or the imaginary parts.
    """
    refuse_masked(C, "transformer")
    if np.iscomplexobj(C):
        raise UserError(
            "the transformer returned complex numbers, and a real matrix discards the imaginary part; return real ones"
        )
    if sp.issparse(C):
        C = sp.csr_array(C)
    else:
        C = np.asarray(C)
        if C.dtype not in (np.float32, np.float64):
            C = C.astype(np.float64)
        C = np.ascontiguousarray(C)
    if C.ndim != 2 or C.shape[0] != n or r not in (None, C.shape[1]):
        raise UserError(f"the transformer returned an array of shape {C.shape}, not {n} x {'r' if r is None else r}")
    matrix: Dense = C
    return matrix


def refuse_masked(C: Any, what: str) -> None:
    """Raise a UserError if a result has masked entries, because an array of it would have the values below the mask."""
    if np.ma.is_masked(C):
        raise UserError(f"the {what} returned masked entries; fill them, e.g. by C.filled(0)")
