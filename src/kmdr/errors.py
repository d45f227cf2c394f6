"""The one kind of error that a user can mend, and the checks that many places share."""

import difflib
from collections.abc import Iterable
from typing import Any


class UserError(Exception):
    """Bad input: one sentence that names the value, what was expected and the remedy. Exit status 2."""


class ArgumentError(UserError, ValueError):
    """The same where kmdr is used as a library: what scikit-learn's callers expect of a bad argument."""


def unknown(what: str, value: object, valid: Iterable[str]) -> UserError:
    """Error for a name that is not in a closed list, with the nearest match and the valid names.

    Parameters
    ----------
    what : str
        What the name was to denote, e.g. ``"dataset"``.
    value : object
        The name given.
    valid : iterable of str
        The names that exist.

    Returns
    -------
    UserError
    """
    names = sorted(valid)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"no {what} is named {str(value)!r}; {hint}valid: {', '.join(names)}")


def yes_or_no(name: str, value: Any) -> bool:
    """Return ``value`` when it is true or false.

    Raises
    ------
    UserError
    """
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r} is not a choice; give true or false")
    return value


def whole_number(name: str, value: Any, least: int) -> int:
    """Return ``value`` when it is a whole number of at least ``least``.

    Raises
    ------
    UserError
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} = {value!r} is not a whole number of at least {least}; give one")
    return value
