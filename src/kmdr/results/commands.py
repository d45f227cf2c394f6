"""The command that computes the rows of a configuration."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kmdr.base.text import override
from kmdr.config.task import KMEANS_COLUMNS, data_of
from kmdr.results.schema import WHOLE_NUMBERS


def command_of(row: Mapping[str, Any], r_grid: Sequence[int], repeats: int) -> str:
    """Return the command that computes the rows of a row's configuration, for some r and repetitions.

    The row is of text, or typed; files of the user's are named without their folders, as in the row.
    """
    dataset, options = data_of(row["dataset"], row["options"])
    others = json.loads(row["kmeans"] or "{}")
    settings = {
        "dataset": dataset,
        **{f"dataset.{name}": value for name, value in options.items()},
        **_reducer(row["reducer"], json.loads(row["params"])),
        "r_grid": list(r_grid),
        "k": int(row["k"]),
        "repeats": repeats,
        "seed": int(row["seed"]),
        **{f"kmeans.{n}": int(row[n]) if n in WHOLE_NUMBERS else row[n] for n in KMEANS_COLUMNS if row[n] != ""},
        **{f"kmeans.{name}": value for name, value in others.items() if name != "args"},
        **{f"kmeans.args.{name}": value for name, value in engine_arguments(others).items()},
        "matching": row["matching"] or "best",
    }
    return shlex.join(["kmdr", *(f"{name}={override(value)}" for name, value in settings.items())])


def _reducer(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that select a reducer; a reducer of another package is named by its import path."""
    if "." not in name:
        return {"reducer": name, **{f"reducer.{key}": value for key, value in params.items()}}
    return {"reducer": "outside", "reducer.path": name, **{f"reducer.args.{key}": v for key, v in params.items()}}


def engine_arguments(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of the engine among settings of k-means, where they are a mapping or its JSON text."""
    arguments = settings.get("args", {})
    decoded: Mapping[str, Any] = json.loads(arguments) if isinstance(arguments, str) else arguments
    return decoded
