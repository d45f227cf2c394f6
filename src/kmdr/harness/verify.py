"""Rerun a sample of committed rows and compare, to see whether this machine gives the numbers of the repository.

A trial is rebuilt from its row and from the configuration of the row's ``config_hash``, on the dataset whose content
has the hash named there; the row's name and options of the dataset only say where to look for it. Nothing is written.

Rule of comparison
------------------
objective, accuracy, nmi, ari, n_iter and n_init_failed are compared.

* *exact*: all are the same, to the last bit. With the row's CPU, BLAS, numpy, scipy and numba nothing else passes.
* *within tolerance*: on another machine, F within 1e-6 of itself and the rest the same (NMI and ARI to 1e-9).
* *another path*: on another machine, the rest differs but F is within 1 %. Rounding decides between clusters at equal
  distance and between starts of equal inertia, and from there Lloyd may go another way.
* *different*: everything else, and a trial that fails.
* *skipped*: its dataset is not available here with the content that the row names. Never counts as passed.
* *not verified*: its reducer or engine is third-party code: neither built in, nor an installed plugin, nor named by
  ``--trust``. A folder of results cannot make kmdr import such code. Or its trial exceeded a limit and was stopped, or
  ended its process. Never counts as passed.

Limits
------
Each row is rerun in a process that is killed if it exceeds the limits of `limit_of`, which follow from the seconds that
the row states unless the user gives others. Data are prepared in a process with the limits of `data_limit`.
"""

import math
import random
import re
import shlex
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kmdr import datasets, reducers
from kmdr.base.errors import UserError, shown
from kmdr.base.limits import UNLIMITED, Limit, can_measure_memory
from kmdr.base.outside import allow
from kmdr.base.paths import CONF
from kmdr.base.provenance import code_version
from kmdr.base.provenance import environment as this_environment
from kmdr.base.text import aligned, canonical, counted, single_line, tell
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task, data_of
from kmdr.datasets import open_prepared, prepared_by_content
from kmdr.datasets.fingerprint import is_outdated
from kmdr.harness.engines.contract import Answer, attempt, end_children, limited
from kmdr.harness.engines.local import Lost
from kmdr.harness.progress import Progress
from kmdr.harness.task import Provenance
from kmdr.results.compare import compare, platform_of
from kmdr.results.folder import has_file
from kmdr.results.manifests import described, local_paths
from kmdr.results.reader import read_rows
from kmdr.results.row_check import RowCheck, config_of
from kmdr.results.table import rows_file

OUTCOMES = ("exact", "within tolerance", "another path", "different", "skipped", "not verified")
# Settings that take an import path.
_TRUSTED = ("reducer", "kmeans.engine")
_THIRD_PARTY = "third-party code: "
# The seconds that a rerun may take: a multiple of the stated ones, at least a minute, or ten if a time is not stated,
# and at most an hour, whatever a stranger's row states. Its memory: 16 times the largest dense matrix not mapped.
_MULTIPLE, _LEAST_SECONDS, _LEAST_UNSTATED, _MOST_SECONDS = 20, 60, 600, 3600
_MEMORY = 4 << 30
_TIMES = ("prepare_seconds", "reduce_seconds", "cluster_seconds", "score_seconds")


class Comparison(NamedTuple):
    """The outcome of a row, one of `OUTCOMES`, with the reason if that is not obvious."""

    row: Mapping[str, str]
    outcome: str
    detail: str


def sample(rows: Sequence[Mapping[str, str]], size: int, seed: int, column: str = "study") -> list[Mapping[str, str]]:
    """Draw rows of finished trials without replacement, as equally from all studies as their sizes allow.

    Another column may take the place of the study.
    """
    draw = random.Random(seed)
    studies: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            studies[row[column]].append(row)
    for group in studies.values():
        draw.shuffle(group)
    order = sorted(studies)
    draw.shuffle(order)
    turns = range(max(map(len, studies.values()), default=0))
    return [studies[study][turn] for turn in turns for study in order if turn < len(studies[study])][:size]


def folders_by_content(
    rows: Iterable[Mapping[str, str]], reference: Path | None = None, given: Limit = UNLIMITED
) -> dict[str, Path | Lost]:
    """Return the prepared folder of each available dataset of some rows, by content hash.

    Data that are not prepared yet, or whose loader or source changed, are prepared from the files that the folder of
    results lists for this machine, else from files with the names in the rows. That happens in a process with the
    limits of `data_limit`; data that exceed these have the reason in the place of a folder.
    """
    folders: dict[str, Path | Lost] = dict(prepared_by_content())
    outdated = {digest for digest, folder in folders.items() if isinstance(folder, Path) and is_outdated(folder)}
    wanted = {(row["dataset"], row.get("options", ""), row["data_sha256"]) for row in rows}
    with limited(datasets.prepare, data_limit(given), lambda call: f"the preparation of {call[0]}") as prepare:
        for dataset, options, digest in sorted(data for data in wanted if data[-1] not in folders.keys() - outdated):
            name, stated = data_of(dataset, options)
            for paths in (*(local_paths(reference, digest) if reference else ()), {}):
                with suppress(UserError):
                    folder = prepare(name, stated | paths)
                    folders.pop(digest, None)
                    content = digest if isinstance(folder, Lost) else open_prepared(folder).data_sha256
                    folders[content] = folder
                    if content == digest:
                        break
    return folders


def third_party(config: Mapping[str, Any]) -> list[str]:
    """Return the settings of a configuration that name code neither built in nor of an installed plugin."""
    engine = config["kmeans"].get("engine", Protocol.engine)
    methods = (("reducer", config["reducer"], reducers.names()), ("kmeans.engine", engine, engines.names()))
    return [f"{setting}={name}" for setting, name, known in methods if name not in known]


def check_trust(setting: str) -> str:
    """Return an argument of ``--trust``, and allow its import path."""
    name, _, path = setting.partition("=")
    if name not in _TRUSTED or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", path):
        raise UserError(
            f"--trust {shown(setting)} does not name third-party code; write e.g. --trust "
            "reducer=package.module.Class or --trust kmeans.engine=package.module.Class"
        )
    allow(path)
    return setting


def rebuild(row: Mapping[str, str], config: Mapping[str, Any], folder: Path) -> Task:
    """Return the task of one row: its dataset, reducer, k, r, repetition, seed, protocol and matching."""
    settings = {**config, "params": canonical(config["params"]), "protocol": Protocol(**config["kmeans"])}
    del settings["kmeans"]
    return Task(
        study=row["study"], folder=str(folder), r_grid=(int(row["r"]),), repeat=int(row["repeat"]), serial=True,
        **settings,
    )  # fmt: skip


def user_limit(seconds: float | None, memory: int | None) -> Limit:
    """Return the limit that a user gives by --seconds and --memory (bytes); None is the default of `limit_of`."""
    if memory is not None and not can_measure_memory():
        raise UserError("--memory needs /proc, which Linux has; remove it, or give --seconds")
    return Limit(seconds, memory, names=("--seconds", "--memory"))


def limit_of(row: Mapping[str, str], given: Limit = UNLIMITED) -> Limit:
    """Return the limit of rerunning a row.

    Parameters
    ----------
    row : mapping
        Its times set the default of the seconds: 20 times their sum in whole minutes, from 1 min, or 10 min if one of
        them is empty, to 1 h. The default of the memory is 4 GiB, where this system can measure it.
    given : Limit
        Takes the place of the defaults where it limits anything.
    """
    stated = [float(row[name]) for name in _TIMES if row[name]]
    least = _LEAST_SECONDS if len(stated) == len(_TIMES) else _LEAST_UNSTATED
    minutes = math.ceil(min(_MULTIPLE * sum(stated), _MOST_SECONDS) / 60)
    return data_limit(given, max(least, 60 * minutes))


def data_limit(given: Limit = UNLIMITED, seconds: float = _MOST_SECONDS) -> Limit:
    """Return the limit of preparing a dataset or scoring labels, for which a row states no time: an hour and 4 GiB."""
    memory = _MEMORY if can_measure_memory() else None
    return replace(given, seconds=given.seconds or seconds, memory=given.memory or memory)


def verify(
    row: Mapping[str, str],
    reference: Path,
    folders: Mapping[str, Path | Lost],
    environment: Mapping[str, Any],
    trusted: Collection[str] = (),
    given: Limit = UNLIMITED,
) -> Comparison:
    """Rerun the trial of one row, within the limits of `limit_of`.

    ``reference`` is the folder of results that the row comes from; it is only read. ``folders`` are the prepared
    datasets by content hash, ``environment`` is the manifest of this environment, and ``trusted`` names third-party
    code that may be imported, e.g. ``"reducer=package.module.Class"``.
    """
    config = config_of(row) if row["engine"] else _described(reference, "configs", row["config_hash"])
    if foreign := [setting for setting in third_party(config) if setting not in trusted]:
        classes = [setting for setting in foreign if "." in setting.partition("=")[2]]
        remedy = " ".join(f"--trust {shlex.quote(setting)}" for setting in classes)
        if classes != foreign:  # a method of a plugin that is not installed
            remedy = f"KMDR_PATH=PLUGIN {remedy}".rstrip()
        return Comparison(row, "not verified", f"{_THIRD_PARTY}{', '.join(foreign)}; {remedy} runs it")
    folder = folders.get(row["data_sha256"])
    if not isinstance(folder, Path):
        return _unavailable(row, reference, folder)
    try:
        task, data = rebuild(row, config, folder), open_prepared(folder)
        if "." not in task.reducer:  # the import of third-party code may never end; its process does it
            reducers.make_allowed(task.reducer, config["params"])
    except (UserError, TypeError, ValueError) as error:  # settings that no run takes
        return Comparison(row, "different", f"its settings are refused: {error}")
    provenance = Provenance(1, int(row["threads"]), "", "")
    if false := _false_sizes(row, data):
        return Comparison(row, "different", false)
    answer = attempt(task, provenance, limit_of(row, given), timed=False)
    if not isinstance(answer, Answer):
        reason = answer.reason if isinstance(answer, Lost) else "stopped"
        return Comparison(row, "not verified", reason)
    theirs, (again,) = _described(reference, "environments", row["env_hash"]), answer.rows
    return Comparison(row, *compare(row, again, platform_of(theirs) == platform_of(environment)))


_described = cache(described)


def _unavailable(row: Mapping[str, str], reference: Path, lost: Lost | None) -> Comparison:
    """Return the outcome of a row whose data are not available, or were not prepared within the limits."""
    if lost:
        return Comparison(row, "not verified", f"its data were not prepared: {lost.reason}")
    name, options = data_of(row["dataset"], row.get("options", ""))
    path = {**options, **next(iter(local_paths(reference, row["data_sha256"])), {})}.get("path")
    remedy = f"its rows were computed from {path}" if path else f"'kmdr data where {name}' says where to get it"
    content = row["data_sha256"][:12]
    return Comparison(row, "skipped", f"{row['dataset']} with content {content}… is not available; {remedy}")


def _false_sizes(row: Mapping[str, str], data: datasets.Dataset) -> str:
    """Return the sizes of its data that a row states differently; empty if there are none."""
    n, d = data.A.shape
    sizes = {"n": n, "d": d, "nnz": n * d if isinstance(data.A, np.ndarray) else data.A.nnz}
    return ", ".join(f"{name} {row[name]} → {size}" for name, size in sizes.items() if int(row[name]) != size)


def version_note(version: str) -> str:
    """Return the reason why the code version of a row cannot be checked out here; empty if it can."""
    if version.endswith(".dirty"):
        return "made by code with uncommitted changes"
    commit = version.rpartition("+g")[2]
    if not re.fullmatch("[0-9a-f]{7,40}", commit):  # git would take other text for an option
        return "made by a version that names no commit"
    git = ["git", "-C", str(CONF.parent), "merge-base", "--is-ancestor", commit, "HEAD"]
    try:
        known = subprocess.run(git, capture_output=True, check=False).returncode == 0
    except OSError:
        known = False
    return "" if known else "made by a commit that is not part of this checkout's history"


def _rerun(
    reference: Path, size: int, seed: int, trusted: Collection[str], given: Limit
) -> tuple[list[Comparison], list[str]]:
    """Return the comparisons of a sample of a folder's rows, and sentences on its refused rows."""
    table = rows_file(reference)
    if not has_file(reference, table):
        raise UserError(
            f"there is no {table}; name a folder of results, e.g. 'kmdr verify results/runs'; 'kmdr reference' makes "
            "one to compare with"
        )
    check = RowCheck(reference)
    rows = read_rows(table, check)
    order = sample(rows, len(rows), seed)
    drawn, further = order[:size], order[size:]
    folders = folders_by_content(drawn, reference, given)
    missing = sum(row["data_sha256"] not in folders for row in drawn)
    drawn += islice(_available(further, reference, folders, given), missing)
    return rerun(drawn, reference, folders, trusted, given), check.sentences(table)


def _available(
    rows: Iterable[Mapping[str, str]], reference: Path, folders: dict[str, Path | Lost], given: Limit
) -> Iterator[Mapping[str, str]]:
    """Yield the rows whose data are available, and add the prepared folders of these data to ``folders``."""
    tried = set()
    for row in rows:
        data = row["dataset"], row.get("options", ""), row["data_sha256"]
        if row["data_sha256"] not in folders and data not in tried:
            tried.add(data)
            folders |= folders_by_content([row], reference, given)
        if isinstance(folders.get(row["data_sha256"]), Path):
            yield row


def rerun(
    rows: Sequence[Mapping[str, str]],
    reference: Path,
    folders: Mapping[str, Path | Lost],
    trusted: Collection[str],
    given: Limit,
) -> list[Comparison]:
    """Rerun the trials of some rows as `verify` does, with a progress bar."""
    here = this_environment()
    comparisons = []
    try:
        with Progress(len(rows), float(len(rows))) as progress:
            for row in rows:
                comparisons.append(verify(row, reference, folders, here, trusted, given))
                progress.advance([], 1.0)
    finally:
        end_children()
    return comparisons


def print_outcomes(comparisons: Sequence[Comparison], column: str) -> None:
    """Print the number of rows with each outcome, by the values of a column."""
    counts = Counter((comparison.row[column], comparison.outcome) for comparison in comparisons)
    totals = Counter(comparison.outcome for comparison in comparisons)
    lines = [
        (single_line(value), *(str(counts[value, outcome]) for outcome in OUTCOMES))
        for value in sorted({comparison.row[column] for comparison in comparisons})
    ]
    print(*aligned([(column, *OUTCOMES), *lines, ("all", *(str(totals[outcome]) for outcome in OUTCOMES))]), sep="\n")


def verify_sample(
    reference: Path, size: int, seed: int, trusted: Collection[str] = (), given: Limit = UNLIMITED
) -> int:
    """Rerun a random sample of a folder's rows, print the outcomes, and return the exit status.

    Each row whose data are not available is followed by another whose data are, if there is one. The status is 0 if
    some rows were compared, none is different, stopped or refused, else 1. ``trusted`` and ``given`` are as for
    `verify`.
    """
    comparisons, refused = _rerun(reference, size, seed, frozenset(map(check_trust, trusted)), given)
    totals = Counter(comparison.outcome for comparison in comparisons)
    print_outcomes(comparisons, "study")
    for row, outcome, detail in comparisons:
        if detail:
            where = f"{row['study']}: {row['reducer']} {row['params']} on {row['dataset']}, r = {row['r']}"
            print(single_line(f"{outcome}: {where}, repetition {row['repeat']}: {detail}"))
    for version in sorted({comparison.row["code_version"] for comparison in comparisons}):
        print("; ".join(filter(None, (f"rows of {version}, checked with {code_version()}", version_note(version)))))
    print(f"{counted(len(comparisons), 'row')} drawn with seed {seed}")
    foreign = sum(comparison.detail.startswith(_THIRD_PARTY) for comparison in comparisons)
    stopped = totals["not verified"] - foreign
    compared = len(comparisons) - totals["skipped"] - totals["not verified"]
    if foreign:
        was = "was" if foreign == 1 else "were"
        tell(f"kmdr: warning: {foreign} of {counted(len(comparisons), 'row')} {was} not verified: third-party code")
    if stopped:
        was, reruns_were = ("was", "its rerun was") if stopped == 1 else ("were", "their reruns were")
        of_rows = f"{stopped} of {counted(len(comparisons), 'row')}"
        tell(f"kmdr: warning: {of_rows} {was} not verified: {reruns_were} stopped or ended early")
    if not compared:
        missing = "; 'kmdr data status' says which data are missing" if totals["skipped"] else ""
        tell(f"kmdr: warning: no row could be compared{missing}")
    for sentence in refused:
        tell(f"kmdr: error: not confirmed: {sentence}")
    return int(totals["different"] > 0 or stopped > 0 or bool(refused) or not compared)
