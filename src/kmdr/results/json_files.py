"""The JSON files of a results folder. Each has one schema, by which it is checked whenever it is read."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.private_paths import without_folders
from kmdr.results.checksums import without_json_checksum
from kmdr.results.folder import read_file
from kmdr.results.paths import ASKED, LOCAL, MISSING, PLAN, SHARDS, UNIVERSES
from kmdr.results.untrusted_text import display_text, for_display

T = TypeVar("T")
_MAX_BYTES = 1 << 24


# -- schemas ---------------------------------------------------------------------------------------------------------


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _is_universe(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_list_of_texts(value.get("options"))
        and isinstance(value.get("configs"), dict)
        and all(_is_list_of_texts(names) and len(names) == 3 for names in value["configs"].values())
    )


def _is_planned_study(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_count(value.get("repeats_planned"))
        and _is_count(value.get("repeats_full"))
        and value["repeats_full"] > 0
        and _is_list_of_texts(value.get("left_out"))
    )


def _are_limits(value: Mapping[str, Any]) -> bool:
    budget = value.get("budget_seconds") or 0
    return isinstance(budget, int | float) and 0 <= budget < 1e12 and _is_count(value.get("tasks_not_begun", 0))


def _is_plan(plan: dict[str, Any]) -> bool:
    studies = plan.get("studies", {})
    return _are_limits(plan) and isinstance(studies, dict) and all(map(_is_planned_study, studies.values()))


def _is_partition(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_count(value.get("of"))
        and isinstance(value.get("parts"), list)
        and all(map(_is_count, value["parts"]))
    )


def _has_values(is_valid: Callable[[Any], bool]) -> Callable[[dict[str, Any]], bool]:
    return lambda content: all(map(is_valid, content.values()))


class Schema(NamedTuple):
    """The content of a JSON file, in words, and the test of it."""

    words: str
    is_valid: Callable[[dict[str, Any]], bool]


SCHEMAS: Mapping[str, Schema] = {
    ASKED: Schema("a list of configuration hashes for each study", _has_values(_is_list_of_texts)),
    UNIVERSES: Schema(
        "the options and configurations of each universe of each paper",
        _has_values(lambda universes: isinstance(universes, list) and all(map(_is_universe, universes))),
    ),
    PLAN: Schema("budget_seconds, tasks_not_begun and the repetitions of each study", _is_plan),
    MISSING: Schema("a sentence for each dataset", _has_values(lambda reason: isinstance(reason, str))),
    SHARDS: Schema("the finished parts of each partition of a plan", _has_values(_is_partition)),
    LOCAL: Schema(
        "the paths of files by machine and content hash",
        _has_values(
            lambda files: (
                isinstance(files, dict)
                and all(isinstance(paths, list) and all(isinstance(p, dict) for p in paths) for paths in files.values())
            )
        ),
    ),
}


# -- reading -----------------------------------------------------------------------------------------------------


def read_json(folder: Path, path: Path | str) -> dict[str, Any]:
    """Return a JSON object that `write_checked` wrote; an empty one if there is no such file.

    Raise `DamagedError` if it is not a JSON object, has another checksum, is nested too deeply or does not match its
    schema.
    """
    content = read_file(folder, path, _MAX_BYTES)
    if content is None:
        return {}
    remedy = f"'kmdr check {folder} --repair' removes it, and a run writes it again"
    try:
        value = without_json_checksum(content)
    except ValueError as error:
        reason = display_text(str(error))[:200]
        raise DamagedError(f"{folder / path} is damaged: it cannot be read as JSON ({reason}); {remedy}") from error
    schema = SCHEMAS.get(Path(path).name)
    if schema and not schema.is_valid(value):
        raise DamagedError(
            f"{folder / path} is damaged: it does not hold what kmdr writes there, {schema.words}; {remedy}"
        )
    return value


# -- for the report -------------------------------------------------------------------------------------------------


def read_or_note(read: Callable[[Path], dict[str, T]], folder: Path, notes: list[str]) -> dict[str, T]:
    """Return the result of a reading function; if the file is damaged, append the error to the notes."""
    try:
        return read(folder)
    except UserError as error:
        notes.append(without_folders(str(error)))
        return {}


def missing_of(folder: Path) -> dict[str, str]:
    """Return the reason why each missing dataset is unavailable (``missing.json``)."""
    return {name: without_folders(reason) for name, reason in for_display(read_json(folder, MISSING)).items()}


def unite_missing(available: Collection[str], reasons: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return the reasons why datasets are missing, without the available ones; of two reasons the first counts."""
    return {name: without_folders(why) for name, why in {**others, **reasons}.items() if name not in available}


def unite_asked(known: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the configurations of each study of both."""
    return {study: sorted({*known.get(study, ()), *new.get(study, ())}) for study in sorted({*known, *new})}


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


def planned_studies(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the plan of each study with the limits of its own run.

    Version 0.3 stored the limits once for all studies: they then count for each, and the tasks that were not begun for
    the first.
    """
    studies: dict[str, dict[str, Any]] = {}
    late = plan.get("tasks_not_begun", 0)
    for name, study in sorted(plan.get("studies", {}).items()):
        limits = {
            "budget_seconds": plan.get("budget_seconds"),
            "thinned_grid": bool(plan.get("thinned_grid")),
            "tasks_not_begun": late,
        }
        studies[name] = {**limits, **study} if _are_limits(study) else {**study, **limits}
        late = late if "tasks_not_begun" in study else 0
    return studies


def plan_of_studies(studies: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the content of ``plan.json``: the plan of each study, and what follows for the folder."""
    budgets = [study["budget_seconds"] for study in studies.values() if study["budget_seconds"]]
    thinned = any(study["thinned_grid"] for study in studies.values())
    late = sum(study["tasks_not_begun"] for study in studies.values())
    cut = any(study["left_out"] or 0 < study["repeats_planned"] < study["repeats_full"] for study in studies.values())
    return {
        "budget_seconds": max(budgets, default=None),
        "full": not (cut or late or thinned),
        "thinned_grid": thinned,
        "tasks_not_begun": late,
        "studies": dict(sorted(studies.items())),
    }


def asked_of(folder: Path) -> dict[str, list[str]]:
    """Return the configurations of the last run of each study (``asked.json``)."""
    return dict(for_display(read_json(folder, ASKED)))


class Settled(NamedTuple):
    """A universe that was run.

    ``configs`` has study, dataset and reducer by hash, as the paper's studies name them.
    """

    options: tuple[str, ...]
    configs: dict[str, list[str]]


def universes_of(folder: Path) -> dict[str, list[Settled]]:
    """Return the universes of each paper that were run, in the order of their design (``universes.json``)."""
    return {
        paper: [Settled(tuple(universe["options"]), universe["configs"]) for universe in universes]
        for paper, universes in for_display(read_json(folder, UNIVERSES)).items()
    }


def plan_of(folder: Path) -> dict[str, Any]:
    """Return the plan of a folder (``plan.json``)."""
    return dict(for_display(read_json(folder, PLAN)))


def environments_of(folder: Path, rows: pd.DataFrame, notes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the manifests of the environments that rows name, by hash; append a note for each damaged one."""
    return {
        str(key): for_display(read_or_note(partial(read_json, path=f"environments/{key}.json"), folder, notes))
        for key in rows["env_hash"].unique()
    }
