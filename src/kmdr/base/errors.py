"""Errors that a user can fix, and checks of arguments that several packages share."""

import difflib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_LONGEST = 200
# A list of more names would bury the nearest match, and kinds of names that a command lists.
_FEW = 8
_LISTED = {"dataset": "datasets", "reducer": "reducers", "paper": "papers", "study": "studies"}


class UserError(Exception):
    """Bad input: one sentence with the value, what was expected and the remedy. Exit status 2."""


class ArgumentError(UserError, ValueError):
    """Bad input to kmdr as a library; also a `ValueError`, as scikit-learn raises it."""


def unknown(what: str, value: object, valid: Iterable[str]) -> UserError:
    """Return the error for an unknown name, with the nearest match or, if nothing is near, the valid names.

    ``what`` is the kind of thing that the name stands for, e.g. ``"dataset"``.
    """
    names = sorted(valid)
    text = value if isinstance(value, str) else shown(value)
    near = difflib.get_close_matches(text[:_LONGEST], names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"no {what} is named {shown(text)}; {_alternatives(what, hint, names)}")


def _alternatives(what: str, hint: str, names: Sequence[str]) -> str:
    """Return the nearest match and where all names are listed, or the names if they are few or nothing is near."""
    if hint and what in _LISTED:
        return f"{hint}'kmdr list {_LISTED[what]}' shows all"
    return f"{hint}valid: {', '.join(names)}" if len(names) <= _FEW or not hint else hint.rstrip()


def not_one_of(name: str, value: object, valid: Iterable[str]) -> UserError:
    """Return the error for a value that is not one of a few words, with the nearest of them."""
    words = list(valid)
    near = difflib.get_close_matches(value[:_LONGEST] if isinstance(value, str) else "", words, n=1, cutoff=0.5)
    remedy = f"did you mean {near[0]!r}?" if near else "choose one of them"
    return UserError(f"{name} = {shown(value)} is not one of {', '.join(words)}; {remedy}")


def yes_or_no(name: str, value: Any) -> bool:
    """Return ``value`` if it is a bool; raise `UserError` otherwise."""
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r} is not a choice; give true or false")
    return value


def shown(value: object) -> str:
    """Return the ``repr`` of a user's value for a message, with the middle of a long one omitted."""
    try:
        text = repr(value)
    except ValueError:  # Python does not convert integers of more than 4300 digits to text
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def whole_number(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return ``value`` if it is an integer from ``least`` to ``most``; raise `UserError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} = {shown(value)} is not a whole number of at least {least}; give one")
    if value > most:
        raise UserError(f"{name} = {shown(value)} is more than {most}; give less")
    return value


def memory() -> int:
    """Return the bytes of memory of this machine, or the limit of this process's control group if that is lower."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            # Version 2 names no controllers. In a container the group may be at the top, whatever its name.
            top, file = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
            inner = Path(group.lstrip("/"))
            for folder in (inner, *inner.parents):
                with suppress(OSError, ValueError):  # without a limit, the file contains the word max
                    limits.append(int(Path("/sys/fs/cgroup", top, folder, file).read_text("ascii")))
    return min(limits)


def check_memory(what: str, numbers: float) -> None:
    """Raise `UserError` if this many numbers of eight bytes take more than half of the memory."""
    available, needed = memory(), 8 * numbers
    if needed > available // 2:
        raise UserError(
            f"{what} take {needed / 1e9:.3g} GB, more than half of the {available / 1e9:.3g} GB of this machine; "
            "give fewer dimensions, points or clusters"
        )


def plain_name(name: str, value: Any) -> str:
    """Return ``value`` if it consists of letters, digits, ``-`` and ``_``, so that it can be part of a path."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w-]{1,100}", value):
        raise UserError(f"{name} = {shown(value)} is not a name; give letters, digits, '-' and '_'")
    return value


def section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a group of settings of a configuration; raise `UserError` if it is absent or a single value."""
    value = config.get(name)
    if not isinstance(value, Mapping):
        raise UserError(f"{name} = {shown(value)} is not a group of settings; choose one that 'kmdr --help' lists")
    return {str(key): entry for key, entry in value.items()}


def raised_by(error: BaseException) -> str:
    """Return file and line of the last code that an error came through, except kmdr's and Python's; empty if none."""
    places = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        # Of ``python -m PACKAGE``, the module is ``__main__``, but its package is known.
        names = frame.f_globals.get("__package__") or frame.f_globals.get("__name__", "")
        package = str(names).partition(".")[0]
        if package not in sys.stdlib_module_names | {"kmdr", "hydra"}:
            places.append(f"{frame.f_code.co_filename}:{line}")
    return places[-1] if places else ""


def imported_at(error: BaseException) -> str:
    """Return file and line of the last statement of a module, except kmdr's and Python's, whose import raised an error.

    It is empty if the error was not raised while a module was imported.
    """
    places = []
    cause: BaseException | None = error
    while cause is not None:
        for frame, line in traceback.walk_tb(cause.__traceback__):
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if frame.f_code.co_name == "<module>" and package not in sys.stdlib_module_names | {"kmdr", "__main__"}:
                places.append(f"{frame.f_code.co_filename}:{line}")
        cause = cause.__cause__
    return places[-1] if places else ""
