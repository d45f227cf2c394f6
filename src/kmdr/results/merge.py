"""``kmdr merge A B … -o C``: merge results folders, e.g. of several machines, unless they contradict each other.

A trial that is in several folders must have the same numbers in all, by the rule of `kmdr.results.compare`: to the last
bit if CPU, BLAS, numpy, scipy and numba are the same, else up to rounding. Its times may differ: the row that
`kmdr.results.table` prefers is kept. `kmdr.results.merge_facts` compares the facts.

The table is written in one step, after configurations and environments and before labels and facts. So after an
interrupted merge the folder has either its old rows or all of them, and the same command does the rest.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.text import announce, counted, tell
from kmdr.results.check import fact_faults, label_faults
from kmdr.results.checksums import sha256_hex
from kmdr.results.compare import compare, platform_of
from kmdr.results.folder import has_file, read_file, require_file, write_file
from kmdr.results.json_files import (
    missing_parts,
    plan_of_studies,
    planned_studies,
    read_json,
    unite_asked,
    unite_missing,
    with_parts,
)
from kmdr.results.labels import MOST_LABELS
from kmdr.results.manifests import described, log_lines, read_configs
from kmdr.results.merge_facts import check_facts, take_facts
from kmdr.results.paths import (
    ASKED,
    MISSING,
    PARTS,
    PLAN,
    SHARDS,
    UNIVERSES,
    labels_file,
    parts_of,
    place,
    task_files,
)
from kmdr.results.reader import public_content, read_task
from kmdr.results.schema import TIME_COLUMNS
from kmdr.results.store import Store, note_runs
from kmdr.results.table import all_rows, trial_of, united
from kmdr.results.table_stream import check_rows
from kmdr.results.text_rows import TextRow

Rows = list[TextRow]


class Source(NamedTuple):
    """A folder to merge.

    Attributes
    ----------
    configs, environments : dict
        By hash; a folder with only a table has none.
    notes : dict
        The contents of its JSON files by name.
    log : list of str
        Lines of ``runs.jsonl``.
    """

    folder: Path
    rows: Rows
    configs: dict[str, dict[str, Any]]
    environments: dict[str, dict[str, Any]]
    notes: dict[str, dict[str, Any]]
    log: list[str]


def read(folder: Path) -> Source:
    """Read a results folder; raise `UserError` if it has no rows, or a file that they rest on is damaged."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to merge; name folders of results")
    rows = all_rows(folder)
    if not rows and not has_file(folder, SHARDS):  # a part of a plan may be without tasks
        raise UserError(f"{folder} has no rows to merge; name folders that hold task files, rows.csv or rows.csv.xz")
    configs, damaged = read_configs(folder)
    for sentence in damaged.values():
        raise DamagedError(sentence)
    for fault in (*label_faults(folder), *fact_faults(folder)):
        raise DamagedError(fault.sentence)
    hashes = sorted({row["env_hash"] for row in rows})
    stored = [key for key in hashes if has_file(folder, f"environments/{key}.json")]
    return Source(
        folder, rows, configs,
        {key: described(folder, "environments", key) for key in stored},
        {name: read_json(folder, name) for name in (ASKED, UNIVERSES, SHARDS, PLAN, MISSING)},
        log_lines(folder),
    )  # fmt: skip


# -- rows ------------------------------------------------------------------------------------------------------------


class Tally(NamedTuple):
    """The number of rows in all folders, of trials in several folders, and of those with different times."""

    size: int
    shared: int
    timed_apart: int


def _contradiction(first: Mapping[str, str], second: Mapping[str, str], same_platform: bool) -> str:
    """Return the differences between two finished rows of a trial; empty if they agree."""
    outcome, detail = compare(first, {name: value for name, value in second.items() if value}, same_platform)
    if outcome not in ("exact", "within tolerance"):
        return detail
    metrics = [json.loads(row["metrics"] or "{}") for row in (first, second)]
    shared = sorted(metrics[0].keys() & metrics[1].keys())
    return ", ".join(f"{m} {metrics[0][m]} → {metrics[1][m]}" for m in shared if metrics[0][m] != metrics[1][m])


def tally(sources: Sequence[Source], target: Path) -> tuple[Rows, Tally]:
    """Return the rows of all folders as one table, and their counts.

    Raise `UserError` if a trial has different numbers in two folders, or they have too many rows together.
    """
    environments = {key: manifest for source in sources for key, manifest in source.environments.items()}
    known: dict[str, tuple[TextRow, Path]] = {}
    shared, timed_apart = set(), set()
    for source in sources:
        for row in source.rows:
            trial = trial_of(row)
            if trial not in known:
                known[trial] = row, source.folder
                check_rows(len(known), target)
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
            manifests = [environments.get(candidate["env_hash"]) for candidate in (other, row)]
            same = row["env_hash"] == other["env_hash"] or bool(
                manifests[0] and manifests[1] and platform_of(manifests[0]) == platform_of(manifests[1])
            )
            if differing := _contradiction(other, row, same):
                raise UserError(
                    f"{row['study']}: {row['reducer']} on {row['dataset']}, r = {row['r']}, repetition "
                    f"{row['repeat']}, configuration {row['config_hash']}, has other values in {folder} than in "
                    f"{source.folder} ({differing}), so nothing is merged; 'kmdr verify' on each says which values the "
                    "current code gives"
                )
    known.clear()  # it takes much memory for a large table
    rows = united(target, (source.rows for source in sources))
    return rows, Tally(len(rows), len(shared), len(timed_apart))


def refuse_contradictions(folder: Path, others: Sequence[Path]) -> int:
    """Return the number of trials that a folder shares with others, which are only read.

    Raise `UserError` if a shared trial has other numbers, so that `merge` would refuse the folders.
    """
    new = read(folder)
    trials, shared = {*map(trial_of, new.rows)}, 0
    for other in others:
        known = read(other)
        rows = [row for row in known.rows if trial_of(row) in trials]
        shared += tally([known._replace(rows=rows), new], folder)[1].shared
    return shared


def _have_one_platform(first: Source, second: Source) -> bool:
    """Return True if all rows of two folders are known to be from one platform."""
    manifests = [*first.environments.values(), *second.environments.values()]
    return bool(first.environments and second.environments) and all(
        platform_of(manifest) == platform_of(manifests[0]) for manifest in manifests
    )


# -- files that rows rest on -----------------------------------------------------------------------------------------


def _take_labels(folder: Path, store: Store) -> None:
    """Copy task files with labels, and the labels, unless the store has labels for all their rows.

    If the store has the task file with other times, the copy gets a name with the hash of its content.
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
            target = target.with_name(f"{repetition}-{sha256_hex(content)[:12]}.csv")
        write_file(store.folder, labels_file(store.folder, target), require_file(folder, labels, MOST_LABELS))
        write_file(store.folder, target, content)


def _check_facts(sources: Sequence[Source]) -> None:
    """Raise a UserError if the facts of two folders contradict each other."""
    check_facts(
        [source.folder for source in sources],
        lambda first, second: _have_one_platform(sources[first], sources[second]),
    )


def _universes(known: Mapping[str, list[Any]], new: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the universes of each paper that were run in either folder; the same universe gets both configurations."""
    papers = {}
    for paper in dict.fromkeys((*known, *new)):
        by_options: dict[tuple[str, ...], dict[str, Any]] = {}
        for universe in (*known.get(paper, ()), *new.get(paper, ())):
            before = by_options.get(tuple(universe["options"]), {"configs": {}})
            by_options[tuple(universe["options"])] = {**universe, "configs": before["configs"] | universe["configs"]}
        papers[paper] = list(by_options.values())
    return papers


def _plan(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of two folders: the most repetitions of each study, and the methods that both omitted."""
    if not known or not new:
        return {**known, **new}
    plans = [planned_studies(plan) for plan in (known, new)]
    studies = {}
    for name in sorted({*plans[0], *plans[1]}):
        several = [plan[name] for plan in plans if name in plan]
        most = {key: max(study[key] for study in several) for key in ("repeats_full", "repeats_planned")}
        omitted = set.intersection(*(set(study["left_out"]) for study in several))
        studies[name] = {
            **most,
            "left_out": sorted(omitted),
            "budget_seconds": max(filter(None, (study["budget_seconds"] for study in several)), default=None),
            "thinned_grid": any(study["thinned_grid"] for study in several),
            "tasks_not_begun": max(study["tasks_not_begun"] for study in several),
        }
    return plan_of_studies(studies)


Unions = Mapping[str, Callable[[Any, Any], dict[str, Any]]]


def _notes(sources: Sequence[Source], unions: Unions) -> dict[str, dict[str, Any]]:
    """Return the united contents of the JSON files of all folders."""
    notes: dict[str, dict[str, Any]] = {}
    for source in sources:
        for name, unite in unions.items():
            notes[name] = unite(notes.get(name, {}), source.notes[name])
    return {name: content for name, content in notes.items() if content}


def _finished(line: str) -> tuple[str, str]:
    return str(json.loads(line).get("finished", "")), line


def merge(folders: Sequence[Path], target: Path) -> Tally:
    """Merge results folders, which are only read, into a target, which may have rows and is created if needed.

    Raise `UserError` if a folder has no rows or is damaged, or a trial or a fact has different numbers in two folders,
    or the target is inside one of the folders. Nothing is written then.
    """
    for folder in folders:
        if folder.resolve() in target.resolve().parents:
            raise UserError(f"{target} is inside {folder}, which a merge only reads; choose a folder outside it")
    others = [read(folder) for folder in folders if folder.resolve() != target.resolve()]
    tally(others, target)  # before a new target is created
    _check_facts(others)
    store = Store(target)
    with store.held(), store.taking_in() as put:
        sources = [*([read(target)] if all_rows(target) else []), *others]
        rows, merged = tally(sources, target)
        if len(sources) > len(others):
            _check_facts(sources)
        for source in sources:
            source.rows.clear()  # large tables take much memory
        unions: Unions = {
            ASKED: unite_asked, UNIVERSES: _universes, SHARDS: with_parts, PLAN: _plan,
            MISSING: partial(unite_missing, {row["dataset"] for row in rows}),
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
            take_facts(source.folder, store)
        for name, content in notes.items():
            # Again with the present content: a run may have added to it meanwhile.
            store.change(name, partial(unions[name], content))
        store.change_log(
            lambda lines: sorted({*lines, *(line for source in others for line in source.log)}, key=_finished)
        )
    store.merge()
    return merged


def run(folders: Sequence[Path], out: Path) -> int:
    """Merge folders of results, their multiverses and atlases; return 1 if parts of a plan are missing, else 0."""
    for folder in folders:
        note_runs(folder)
    whole = _merge_and_report(folders, out, str(out))
    for name in PARTS:
        if within := [folder / name for folder in folders if folder / name in parts_of(folder)]:
            whole &= _merge_and_report(within, out / name, f"{out}/{name}")
    return int(not whole)


def _merge_and_report(folders: Sequence[Path], out: Path, target: str) -> bool:
    """Merge, report it, and return True if no part of a plan is missing."""
    merged = merge(folders, out)
    announce(
        f"{out}: {counted(merged.size, 'row')} of {', '.join(map(str, folders))}"
        + (f"; {counted(merged.shared, 'trial')} in several of them are kept once" if merged.shared else "")
        + (f", {merged.timed_apart} of these with other times; the preferred row is kept" if merged.timed_apart else "")
    )
    missing = missing_parts(read_json(out, SHARDS))
    for sentence in missing:
        tell(
            f"kmdr: warning: {sentence}; the command of the whole plan, with out={shlex.quote(target)}, runs what is "
            "missing"
        )
    return not missing
