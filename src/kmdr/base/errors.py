"""The one kind of error that a user can mend, and the checks that many places share."""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_LONGEST = 200


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
    text = value if isinstance(value, str) else shown(value)
    near = difflib.get_close_matches(text[:_LONGEST], names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"no {what} is named {shown(text)}; {hint}valid: {', '.join(names)}")


def yes_or_no(name: str, value: Any) -> bool:
    """Return ``value`` when it is true or false.

    Raises
    ------
    UserError
    """
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r} is not a choice; give true or false")
    return value


def shown(value: object) -> str:
    """Return what a user gave as it is shown back: its ``repr``, without the middle where that is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def whole_number(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return ``value`` when it is a whole number of at least ``least`` and at most ``most``.

    Raises
    ------
    UserError
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} = {shown(value)} is not a whole number of at least {least}; give one")
    if value > most:
        raise UserError(f"{name} = {shown(value)} is more than {most}; give less")
    return value


def memory() -> int:
    """Return the bytes of memory of this machine, or of the control group of this process where it is allowed less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            # Version 2 names no controllers. Within a container the group may lie at the top, whatever it is called.
            top, file = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
            inner = Path(group.lstrip("/"))
            for folder in (inner, *inner.parents):
                with suppress(OSError, ValueError):  # without a limit there is the word max
                    limits.append(int(Path("/sys/fs/cgroup", top, folder, file).read_text("ascii")))
    return min(limits)


def check_memory(what: str, numbers: float) -> None:
    """Refuse what would take more than half of the memory there is as so many numbers of eight bytes.

    Raises
    ------
    UserError
    """
    there, needed = memory(), 8 * numbers
    if needed > there // 2:
        raise UserError(
            f"{what} take {needed / 1e9:.3g} GB, more than half of the {there / 1e9:.3g} GB of this machine; "
            "give fewer dimensions, points or clusters"
        )


def plain_name(name: str, value: Any) -> str:
    """Return ``value`` when it is a word of letters, digits, ``-`` and ``_``: it will be part of a path.

    Raises
    ------
    UserError
    """
    if not isinstance(value, str) or not re.fullmatch(r"[\w-]{1,100}", value):
        raise UserError(f"{name} = {shown(value)} is not a name; give letters, digits, '-' and '_'")
    return value


def section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one group of settings of a configuration.

    Raises
    ------
    UserError
        When it is not there, or is a single value.
    """
    value = config.get(name)
    if not isinstance(value, Mapping):
        raise UserError(f"{name} = {shown(value)} is no group of settings; name one, as 'kmdr --help' lists them")
    return {str(key): entry for key, entry in value.items()}
