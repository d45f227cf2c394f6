"""Import third-party modules within the limits of a trial, before the command itself imports them."""

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from kmdr import reducers
from kmdr.base.errors import UserError, section
from kmdr.base.limits import Limit
from kmdr.base.outside import allow, find_class
from kmdr.harness.engines.contract import limited
from kmdr.harness.engines.local import Lost


def third_party_names(configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the import paths that configurations of the user name as reducers and k-means engines."""
    pairs = ((reducers.named(section(c, "reducer"))[0], section(c, "kmeans").get("engine")) for c in configs)
    names = dict.fromkeys(name for pair in pairs for name in pair if isinstance(name, str))
    return [name for name in names if "." in name]


def check_imports(names: Iterable[str], limit: Limit) -> None:
    """Refuse import paths whose module cannot be imported within a limit. Without a limit of trials, do nothing.

    The modules are imported in a process that is killed if one exceeds the limit. Any other error is left to the import
    in this process.
    """
    unknown = [name for name in names if name.rpartition(".")[0] not in sys.modules]
    if not unknown or not limit.limits_trials:
        return
    with limited(_import, limit, lambda call: f"the import of {call[0]!r}") as call:
        for name in unknown:
            answer = call(name, sys.path)
            if isinstance(answer, Lost):
                raise UserError(f"{name!r} cannot be imported: {answer.reason}")


def _import(name: str, path: list[str]) -> None:
    sys.path[:] = path
    allow(name)
    with suppress(BaseException):
        find_class(name, "class")
