"""Compare two results of one trial, and the platforms that computed them; see `kmdr.harness.verify` for the rule."""

from collections.abc import Mapping
from typing import Any

from kmdr.results.schema import Row

COMPARED = ("objective", "accuracy", "nmi", "ari", "n_iter", "n_init_failed")


_PACKAGES = ("numpy", "scipy", "numba")
# Relative difference of F, and absolute difference of the other measures, that count as rounding.
_NEAR = 1e-6
_NEAR_AGREEMENT = 1e-9
# Relative difference of F up to which Lloyd's method took another path after a rounding difference.
_OTHER_PATH = 0.01


def platform_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of an environment's manifest that decide the last bits of a number."""
    listed = environment.get("packages")  # a stranger's manifest may be any object
    packages = {name: listed.get(name) for name in _PACKAGES} if isinstance(listed, Mapping) else {}
    return {"cpu": environment.get("cpu"), "blas": environment.get("blas"), **packages}


def compare(row: Mapping[str, str], again: Row, same_platform: bool) -> tuple[str, str]:
    """Return the outcome of a rerun and the differences in words.

    ``row`` is from the table, ``again`` from `kmdr.harness.task.run`; ``same_platform`` says whether `platform_of` is
    the same for both.
    """
    if again["status"] != "ok":
        return "different", again["error"]
    before = {name: float(row[name]) for name in COMPARED if row[name]}
    after = {name: float(again[name]) for name in COMPARED if name in again}
    if before == after:
        return "exact", ""
    unequal = [name for name in COMPARED if before.get(name) != after.get(name)]
    detail = ", ".join(f"{name} {row[name] or 'none'} → {again.get(name, 'none')}" for name in unequal)
    if same_platform or before.keys() != after.keys():
        return "different", detail
    shift = abs(after["objective"] - before["objective"])
    close = all(abs(after[name] - before[name]) <= _NEAR_AGREEMENT for name in before if name != "objective")
    if close and shift <= _NEAR * abs(before["objective"]):
        return "within tolerance", detail
    return ("another path" if shift <= _OTHER_PATH * abs(before["objective"]) else "different"), detail
