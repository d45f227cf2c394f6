"""Which parts of a plan a folder of results has, and which are missing: the note ``shards.json``."""

from collections.abc import Mapping
from typing import Any

# Which parts of which cuts a folder has in full: {hash of the cut: {"of": N, "parts": [I, …]}}.
SHARDS = "shards.json"


def with_parts(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return which parts are in one folder or in the other, as `SHARDS` says it."""
    return {
        cut: {
            "of": {**known, **new}[cut]["of"],
            "parts": sorted({part for each in (known, new) if cut in each for part in each[cut]["parts"]}),
        }
        for cut in sorted({*known, *new})
    }


def absent(noted: Mapping[str, Any]) -> list[str]:
    """Say which parts of a cut are not there, for each cut that is not whole."""
    sentences = []
    for cut, each in noted.items():
        lacking = [str(part) for part in range(1, each["of"] + 1) if part not in each["parts"]]
        if lacking:
            sentences.append(
                f"of the plan {cut} in {each['of']} parts, these are not finished or not among the folders: "
                f"{', '.join(lacking)}"
            )
    return sentences
