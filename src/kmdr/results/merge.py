"""``kmdr merge A B … -o C``: folders of results, say of several machines, as one; what contradicts itself is refused.

A trial that several folders have is to have the same numbers in all, by the rule of `kmdr.results.compare`: to the last
bit where CPU, BLAS, numpy, scipy and numba are the same, else up to rounding. Its times may differ: of its rows the
better ranked is kept, as within a folder.

The table is written in one step, after what its rows are described by and before what goes with them. So a merge that
was interrupted leaves either the rows of the folder as they were or all of them, and the same command does the rest.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.private_paths import without_folders
from kmdr.base.text import announce, tell
from kmdr.results.check import of_facts, of_labels
from kmdr.results.compare import compare, platform_of
from kmdr.results.folder import has_file, list_files, read_file, read_json, require_file, write_file
from kmdr.results.labels import MOST_LABELS
from kmdr.results.rows import TextRow
from kmdr.results.schema import TIME_COLUMNS
from kmdr.results.shards import SHARDS, absent, with_parts
from kmdr.results.store import (
    ASKED,
    MULTIVERSE,
    UNIVERSES,
    Store,
    all_rows,
    configs_of,
    described,
    labels_file,
    log_lines,
    multiverse_folder,
    place,
    public_content,
    read_task,
    task_files,
    trial_of,
    united,
)

_PLAN, _MISSING = "plan.json", "missing.json"
Rows = list[TextRow]


class Source(NamedTuple):
    """A folder to merge.

    Attributes
    ----------
    folder : Path
    rows : list of dict
    configs, environments : dict
        By hash; without those that the folder lacks, as one of nothing but a table does.
    notes : dict
        What its JSON files say, by their names.
    log : list of str
    """

    folder: Path
    rows: Rows
    configs: dict[str, dict[str, Any]]
    environments: dict[str, dict[str, Any]]
    notes: dict[str, dict[str, Any]]
    log: list[str]


def read(folder: Path) -> Source:
    """Read a folder of results.

    Raises
    ------
    UserError
        When it has no rows, or a file that they rest on is damaged.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to merge; name folders of results")
    rows = all_rows(folder)
    if not rows and not has_file(folder, SHARDS):  # a part of a plan may be without tasks
        raise UserError(f"{folder} has no rows to merge; name folders that hold task files, rows.csv or rows.csv.xz")
    configs, damaged = configs_of(folder)
    for sentence in damaged.values():
        raise DamagedError(sentence)
    for fault in (*of_labels(folder), *of_facts(folder)):
        raise DamagedError(fault.sentence)
    hashes = sorted({row["env_hash"] for row in rows})
    there = [key for key in hashes if has_file(folder, f"environments/{key}.json")]
    return Source(
        folder, rows, configs,
        {key: described(folder, "environments", key) for key in there},
        {name: read_json(folder, name) for name in (ASKED, UNIVERSES, SHARDS, _PLAN, _MISSING)},
        log_lines(folder),
    )  # fmt: skip


# -- rows ------------------------------------------------------------------------------------------------------------


class Tally(NamedTuple):
    """How many rows folders have together, trials several of them have, and of these have different times."""

    size: int
    shared: int
    timed_apart: int


def _values(row: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in row.items() if value}


def _contradiction(first: Mapping[str, str], second: Mapping[str, str], same_platform: bool) -> str:
    """Return in what two finished rows of a trial differ, first the value of the first; empty where they agree."""
    outcome, detail = compare(first, _values(second), same_platform)
    if outcome not in ("exact", "within tolerance"):
        return detail
    metrics = [json.loads(row["metrics"] or "{}") for row in (first, second)]
    shared = sorted(metrics[0].keys() & metrics[1].keys())
    return ", ".join(f"{m} {metrics[0][m]} → {metrics[1][m]}" for m in shared if metrics[0][m] != metrics[1][m])


def tally(sources: Sequence[Source], target: Path) -> tuple[Rows, Tally]:
    """Return the rows of some folders as one table, and their numbers.

    Raises
    ------
    UserError
        When a trial has other numbers in one folder than in another.
    """
    environments = {key: manifest for source in sources for key, manifest in source.environments.items()}
    known: dict[str, tuple[TextRow, Path]] = {}
    shared, timed_apart = set(), set()
    for source in sources:
        for row in source.rows:
            trial = trial_of(row)
            if trial not in known:
                known[trial] = row, source.folder
                continue
            shared.add(trial)
            other, folder = known[trial]
            if any(row[name] != other[name] for name in TIME_COLUMNS):
                timed_apart.add(trial)
            if row["status"] != "ok":
                continue
            if other["status"] != "ok":
                known[trial] = row, source.folder
                continue
            manifests = [environments.get(each["env_hash"]) for each in (other, row)]
            same = row["env_hash"] == other["env_hash"] or bool(
                manifests[0] and manifests[1] and platform_of(manifests[0]) == platform_of(manifests[1])
            )
            if differing := _contradiction(other, row, same):
                raise UserError(
                    f"{row['study']}: {row['reducer']} on {row['dataset']}, r = {row['r']}, repetition "
                    f"{row['repeat']}, configuration {row['config_hash']}, has other values in {folder} than in "
                    f"{source.folder} ({differing}), so nothing is merged; 'kmdr verify' on each says which are "
                    "those of today's code"
                )
    known.clear()  # of a large table it takes much memory
    rows = united(target, (source.rows for source in sources))
    return rows, Tally(len(rows), len(shared), len(timed_apart))


# -- what rows rest on -----------------------------------------------------------------------------------------------


def _take_labels(folder: Path, store: Store) -> None:
    """Copy the task files of a folder that have labels, and these, unless the store has labels of all their rows.

    A task that the store has with other times gets a file more, named by its content.
    """
    kept = store.labels_kept()
    for file in task_files(folder):
        labels = labels_file(folder, file)
        if not has_file(folder, labels):
            continue
        rows, content = read_task(folder, file), public_content(folder, file)
        if {(place(row), int(row["r"])) for row in rows} <= kept:
            continue
        target = store.folder / file.relative_to(folder)
        if read_file(store.folder, target) not in (None, content):
            repetition = file.name.partition("-")[0]
            target = target.with_name(f"{repetition}-{hashlib.sha256(content).hexdigest()[:12]}.csv")
        write_file(store.folder, labels_file(store.folder, target), require_file(folder, labels, MOST_LABELS))
        write_file(store.folder, target, content)


def _take_facts(folder: Path, store: Store) -> None:
    """Copy the facts that the store has not; a run computes them again if they were made from other rows."""
    for file in (file for file in list_files(folder, "facts") if file.suffix == ".csv"):
        target = store.folder / file.relative_to(folder)
        if not has_file(store.folder, target):
            for kind in (".from", ".csv"):
                content = read_file(folder, file.with_suffix(kind))
                if content is not None:
                    write_file(store.folder, target.with_suffix(kind), content)


def _asked(known: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the configurations that each study was last run with, in one folder or in the other."""
    return {study: sorted({*known.get(study, ()), *new.get(study, ())}) for study in sorted({*known, *new})}


def _universes(known: Mapping[str, list[Any]], new: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the universes of each paper that were run in either; one of both has the configurations of both."""
    papers = {}
    for paper in dict.fromkeys((*known, *new)):
        by_options: dict[tuple[str, ...], dict[str, Any]] = {}
        for each in (*known.get(paper, ()), *new.get(paper, ())):
            before = by_options.get(tuple(each["options"]), {"configs": {}})
            by_options[tuple(each["options"])] = {**each, "configs": before["configs"] | each["configs"]}
        papers[paper] = list(by_options.values())
    return papers


def _plan(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was planned in two folders: of each study the most repetitions; what neither did is left out."""
    if not known or not new:
        return {**known, **new}
    plans = [plan["studies"] for plan in (known, new)]
    studies = {}
    for name in sorted({*plans[0], *plans[1]}):
        several = [plan[name] for plan in plans if name in plan]
        most = {key: max(each[key] for each in several) for key in ("repeats_full", "repeats_planned")}
        left_out = set.intersection(*(set(each["left_out"]) for each in several))
        studies[name] = {**most, "left_out": sorted(left_out)}
    budgets = [plan["budget_seconds"] for plan in (known, new) if plan.get("budget_seconds")]
    return {
        "budget_seconds": max(budgets) if budgets else None,
        "full": bool(known["full"] and new["full"]),
        "thinned_grid": bool(known.get("thinned_grid") or new.get("thinned_grid")),
        "tasks_not_begun": max(plan.get("tasks_not_begun", 0) for plan in (known, new)),
        "studies": studies,
    }


def _missing(there: Collection[str], known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return which datasets neither folder could have, and why."""
    return {name: without_folders(why) for name, why in {**new, **known}.items() if name not in there}


Unions = Mapping[str, Callable[[Any, Any], dict[str, Any]]]


def _notes(sources: Sequence[Source], unions: Unions) -> dict[str, dict[str, Any]]:
    """Return what the JSON files of some folders say together."""
    notes: dict[str, dict[str, Any]] = {}
    for source in sources:
        for name, unite in unions.items():
            try:
                notes[name] = unite(notes.get(name, {}), source.notes[name])
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                raise DamagedError(f"{source.folder / name} does not hold what kmdr writes there; remove it") from error
    return {name: content for name, content in notes.items() if content}


def _finished(line: str) -> tuple[str, str]:
    return str(json.loads(line).get("finished", "")), line


def merge(folders: Sequence[Path], target: Path) -> Tally:
    """Unite folders of results with each other, and with what the target has.

    Parameters
    ----------
    folders : sequence of Path
        They are only read.
    target : Path
        Made where it is not there.

    Returns
    -------
    Tally

    Raises
    ------
    UserError
        When one of them has no rows or is damaged, or a trial has other numbers in one than in another; nothing is
        written then.
    """
    others = [read(folder) for folder in folders if folder.resolve() != target.resolve()]
    tally(others, target)  # before a target that is new is made
    store = Store(target)
    with store.in_use(), store.taking_in() as put:
        sources = [*([read(target)] if all_rows(target) else []), *others]
        rows, merged = tally(sources, target)
        for source in sources:
            source.rows.clear()  # two large tables take much memory
        unions: Unions = {
            ASKED: _asked, UNIVERSES: _universes, SHARDS: with_parts, _PLAN: _plan,
            _MISSING: partial(_missing, {row["dataset"] for row in rows}),
        }  # fmt: skip
        notes = _notes(sources, unions)
        store.add_configs(config for source in others for config in source.configs.values())
        for source in others:
            for manifest in source.environments.values():
                store.add_environment(manifest)
        put(rows)
        rows.clear()
        for source in others:
            _take_labels(source.folder, store)
            _take_facts(source.folder, store)
        for name, content in notes.items():
            # Once more with what is there: a run may have added to it meanwhile.
            store.change(name, partial(unions[name], content))
        store.change_log(lambda lines: sorted({*lines, *(line for each in others for line in each.log)}, key=_finished))
    store.merge()
    return merged


def run(folders: Sequence[Path], out: Path) -> int:
    """Merge folders of results and their multiverses; return 1 if parts of a plan are missing, else 0."""
    whole = _merge_and_tell(folders, out, str(out))
    if within := [multiverse_folder(folder) for folder in folders if multiverse_folder(folder) != folder]:
        whole &= _merge_and_tell(within, out / MULTIVERSE, f"{out}/{MULTIVERSE}")
    return int(not whole)


def _merge_and_tell(folders: Sequence[Path], out: Path, target: str) -> bool:
    """Merge, report it, and return whether no part of a plan is missing."""
    merged = merge(folders, out)
    announce(
        f"{out}: {merged.size} rows of {', '.join(map(str, folders))}"
        + (f"; {merged.shared} trials in several of them are kept once" if merged.shared else "")
        + (f", {merged.timed_apart} of these with other times, the better ranked kept" if merged.timed_apart else "")
    )
    missing = absent(read_json(out, SHARDS))
    for sentence in missing:
        tell(f"kmdr: {sentence}; the command of the whole plan, with out={shlex.quote(target)}, runs what is missing")
    return not missing
