"""Which parts of a split plan a results folder has, and which are missing (``shards.json``)."""

from collections.abc import Mapping
from typing import Any


def with_parts(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that are in one folder or the other: ``{hash of the plan: {"of": N, "parts": [I, …]}}``."""
    return {
        plan: {
            "of": {**known, **new}[plan]["of"],
            "parts": sorted({part for folder in (known, new) if plan in folder for part in folder[plan]["parts"]}),
        }
        for plan in sorted({*known, *new})
    }


def missing_parts(plans: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each plan that has missing parts."""
    sentences = []
    for plan, shards in plans.items():
        missing = [str(part) for part in range(1, shards["of"] + 1) if part not in shards["parts"]]
        if missing:
            sentences.append(
                f"of the plan {plan} in {shards['of']} parts, these are not finished or not among the folders: "
                f"{', '.join(missing)}"
            )
    return sentences
