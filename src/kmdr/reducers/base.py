"""What a reducer is."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from kmdr.errors import UserError
from kmdr.linalg import Matrix

_registry: dict[str, type["Reducer"]] = {}
R = TypeVar("R", bound="type[Reducer]")


def register(name: str) -> Callable[[R], R]:
    """Make a class available to configurations under ``name``."""

    def add(cls: R) -> R:
        if name in _registry and _registry[name].__module__ != cls.__module__:
            raise ValueError(f"two reducers are named {name!r}: {_registry[name].__module__} and {cls.__module__}")
        _registry[name] = cls
        return cls

    return add


def registered() -> dict[str, type["Reducer"]]:
    """Return the classes registered so far, by name."""
    return dict(_registry)


class Reducer(ABC):
    """A map from A (n×d) to C (n×r), in two timed steps.

    ``prepare`` does everything that does not depend on r and is charged in full to every r; ``reduce`` does the
    rest for one r. A is a C-ordered float64 or float32 array or a CSR array; C is a dense array, n×r, or A itself.

    Attributes
    ----------
    deterministic : bool
        Whether C is a function of A, k and r alone.
    """

    deterministic: ClassVar[bool] = False

    @classmethod
    def parameters(cls) -> list[str]:
        """Return the names of the constructor's arguments."""
        return [] if cls.__init__ is object.__init__ else list(inspect.signature(cls).parameters)

    def check(self, n: int, d: int, k: int, r: int) -> None:
        """Refuse an r that this reducer cannot give for an n×d matrix, before any work is done.

        Raises
        ------
        UserError
        """
        del n, d, k, r  # nothing to refuse, unless a subclass knows better

    def fixed_r(self, d: int, k: int) -> int | None:
        """Return the number of columns of C where it does not depend on the r asked for, else None."""
        del d, k
        return None

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Any:
        """Return whatever `reduce` needs of the work that does not depend on r; None by default."""
        del A, k, rng

    @abstractmethod
    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Matrix:
        """Return C, n×r."""


def at_most(r: int, limit: int, name: str, what: str) -> None:
    """Refuse r above a limit.

    Raises
    ------
    UserError
    """
    if r > limit:
        raise UserError(f"r = {r} is more than the {limit} {what} that {name} can give; ask for r ≤ {limit}")


def one_of(value: str, valid: tuple[str, ...], name: str) -> str:
    """Return ``value`` when it is one of the valid ones.

    Raises
    ------
    UserError
    """
    if value not in valid:
        raise UserError(f"{name} = {value!r} is not one of {', '.join(valid)}; choose one of them")
    return value


def open_unit_interval(value: float, name: str) -> float:
    """Return ``value`` when 0 < value < 1.

    Raises
    ------
    UserError
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise UserError(f"{name} = {value!r} is outside 0 < {name} < 1; the papers use 1/3")
    return value
