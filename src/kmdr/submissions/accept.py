"""``kmdr accept NAME``: check a submission as a reviewer would, and write its status to the card.

The folder is checked like any other from a stranger, its card must describe its files, and its rows must not contradict
the reference. Then a sample of rows is rerun, as by ``kmdr verify``, and scores are computed again from stored labels.

Status
------
* *verified*: every row that was drawn was rerun and is the same, digit by digit.
* *consistent*: every row that was drawn was rerun on another CPU or with other libraries, and agrees by the rule of
  `kmdr.harness.verify`: F within a millionth of itself and the rest the same. At most a tenth of the rows may have
  taken another path of Lloyd's method, with F within 1 %.
* *as reported*: a row could not be rerun, because its method, plugin, package or data are not available here, or its
  trial exceeded the limits and was stopped, or too many rows took another path. The card states the reason.

A submission is refused if a rerun row has other numbers, if labels do not give the scores of their row, or if rows of
kmdr's own methods were computed by other code than the current one: numbers of changed code say nothing about the
methods that they are named after. So it is if a method's rows on a dataset are of several versions of its code. Rows of
older versions are computed again by ``--refresh``.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmdr import datasets, reducers
from kmdr.base.errors import UserError, shown
from kmdr.base.files import DamagedError
from kmdr.base.limits import UNLIMITED, Limit
from kmdr.base.paths import with_home
from kmdr.base.provenance import code_version
from kmdr.base.text import announce, counted, single_line, tell
from kmdr.clustering import engines
from kmdr.config.task import code_of, data_of, has_labelings, methods_from
from kmdr.datasets import registry
from kmdr.harness.engines.contract import limited
from kmdr.harness.engines.local import Lost
from kmdr.harness.rescore import scaled, scores_of_labels
from kmdr.harness.verify import (
    Comparison,
    check_trust,
    data_limit,
    folders_by_content,
    print_outcomes,
    rerun,
    sample,
    third_party,
    user_limit,
)
from kmdr.results.check import faults
from kmdr.results.checksums import write_checked
from kmdr.results.compare import compare
from kmdr.results.labels import read_labels
from kmdr.results.merge import refuse_contradictions
from kmdr.results.paths import parts_of, place
from kmdr.results.row_check import config_of
from kmdr.results.table import all_rows, has_rows
from kmdr.results.text_rows import TextRow
from kmdr.submissions.card import (
    CARD,
    VERIFICATION,
    Card,
    check_card,
    checked_name,
    identity,
    read_files,
    stated_card,
)
from kmdr.submissions.pack import check_packing, place_of_labels, refuse_mixed_code

# The largest share of rerun rows that may have taken another path of Lloyd's method, after rounding differences.
_MOST_OTHER_PATHS = 0.1
_SIZES = ("n", "d", "k")


# -- code ------------------------------------------------------------------------------------------------------------


def obstacle_to_rerun(row: Mapping[str, str], trusted: Collection[str]) -> str:
    """Return the reason why the code or the dataset of a row is not available here; empty if both are the same here.

    Raise `UserError` for a row that kmdr's own code computed, if that code has changed.
    """
    config, (name, options) = config_of(row), data_of(row["dataset"], row["options"])
    reducer, engine = row["reducer"], row["engine"]
    if foreign := [setting for setting in third_party(config) if setting not in trusted]:
        known = [setting for setting in foreign if "." in setting.partition("=")[2]]
        remedy = "; --trust runs it" if known else ""
        return f"{', '.join(foreign)} is third-party code that is not available here{remedy}"
    if name not in datasets.names():
        return f"the dataset {name} is not available here"
    theirs = set(filter(None, row["guests"].split("; ")))
    ours = set(methods_from(reducer, engine, name))
    if not ours <= theirs:
        return f"it was made with {', '.join(sorted(theirs)) or 'no plugin'}, but here is {', '.join(sorted(ours))}"
    code = code_of(reducer, name, engine, has_labelings(name, options))
    if row["code_hash"] == code:
        return ""
    plugin = reducers.origin_of_reducer(reducer) or engines.origin_of_engine(engine) or registry.entry(name).plugin
    if plugin and "." not in reducer + engine:
        return f"the plugin {plugin} has other code here"
    raise UserError(
        f"the rows of {reducer} on {row['dataset']} were computed by other code ({row['code_hash'] or 'unknown'}) than "
        f"this version's ({code}); run the same command with --refresh, then submit again"
    )


def _code_key(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("reducer", "engine", "dataset", "options", "code_hash", "guests"))


def _refuse_false_sizes(rows: Iterable[Mapping[str, str]]) -> None:
    """Refuse options by which a generated dataset would have other sizes than its rows, and take memory or disk."""
    for dataset, options, *sizes in {tuple(row[name] for name in ("dataset", "options", "n", "d")) for row in rows}:
        given = data_of(dataset, options)[1]
        for name, size in zip(_SIZES, sizes, strict=False):
            if given.get(name) not in (None, int(size), 0):
                raise UserError(f"the rows of {dataset} state {name} = {size}, but its options {name} = {given[name]}")


# -- labels ----------------------------------------------------------------------------------------------------------


def _labelled(folder: Path, files: Iterable[str], rows: Sequence[TextRow]) -> list[tuple[TextRow, str]]:
    """Return each row that has labels, with the name of their file, after checking that all labels fit their rows."""
    known = {(place(row), int(row["r"])): row for row in rows}
    pairs = []
    for name in (name for name in files if name.startswith("labels/")):
        for r, labels in read_labels(folder, folder / name):
            row = known.get((place_of_labels(name), r))
            if row is None or row["status"] != "ok" or len(labels) != int(row["n"]):
                raise DamagedError(f"{folder / name} has labels for r = {r} that belong to no row; remove the file")
            pairs.append((row, name))
    return pairs


def _labels(folder: Path, name: str, wanted: int) -> NDArray[np.unsignedinteger]:
    return next(labels for r, labels in read_labels(folder, folder / name) if r == wanted)


def check_labels(
    folder: Path, drawn: Sequence[tuple[TextRow, str]], folders: Mapping[str, Path | Lost], given: Limit = UNLIMITED
) -> int:
    """Return the number of rows whose scores agree with their labels, among those with available data.

    Raise `UserError` for other scores, and for scoring that exceeds the limits of `kmdr.harness.verify.data_limit`.
    """
    with limited(_scores, data_limit(given), lambda call: f"the scoring of {call[1]}") as score:
        return sum(
            _check_labels(folder, row, name, score(folder, name, row, prepared))
            for row, name in sorted(drawn, key=lambda pair: (pair[0]["data_sha256"], pair[1], int(pair[0]["r"])))
            if isinstance(prepared := folders.get(row["data_sha256"]), Path)
        )


def _scores(folder: Path, name: str, row: TextRow, prepared: Path) -> dict[str, float] | None:
    """Return the scores of the labels of a row; None if their matching is not available here."""
    try:
        return scores_of_labels(row, _labels(folder, name, int(row["r"])), scaled(prepared))
    except LookupError:
        return None
    except (ArithmeticError, ValueError) as error:
        raise UserError(f"the labels in {folder / name} cannot be scored ({single_line(str(error))})") from error


def _check_labels(folder: Path, row: TextRow, name: str, scores: dict[str, float] | Lost | None) -> bool:
    """Return whether the labels of a row were scored; refuse a row with other scores."""
    if scores is None:
        return False
    if isinstance(scores, Lost):
        raise UserError(f"the labels in {folder / name} were not scored: {scores.reason}")
    again = {key: float(row[key]) for key in ("n_iter", "n_init_failed") if row[key]} | scores | {"status": "ok"}
    outcome, detail = compare(row, again, same_platform=False)
    if outcome not in ("exact", "within tolerance"):
        raise UserError(f"{_trial_name(row)}, has other scores than its labels: {detail}")
    return True


# -- the status ------------------------------------------------------------------------------------------------------


def _trial_name(row: Mapping[str, str]) -> str:
    return (
        f"{row['study']}: {single_line(row['reducer'])} on {single_line(row['dataset'])}, r = {row['r']}, repetition "
        f"{row['repeat']}"
    )


def status_of(comparisons: Sequence[Comparison], reasons: Sequence[str]) -> tuple[str, str]:
    """Return the status of a submission, and the reason if it is not *verified*.

    None of the `comparisons` is different; `reasons` say why rows of some methods are not rerun.
    """
    counts = Counter(comparison.outcome for comparison in comparisons)
    skipped = [comparison.detail for comparison in comparisons if comparison.outcome in ("skipped", "not verified")]
    if lacking := [*dict.fromkeys([*reasons, *skipped])]:
        more = f"; and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        return "as reported", single_line(lacking[0]) + more
    if not comparisons:
        return "as reported", "no row was drawn"
    if counts["another path"] > _MOST_OTHER_PATHS * len(comparisons):
        return "as reported", f"{counts['another path']} of {counted(len(comparisons), 'row')} took another path here"
    if counts["exact"] == len(comparisons):
        return "verified", ""
    reason = (
        f"on another CPU or with other libraries, {counts['exact']} of {counted(len(comparisons), 'row')} "
        f"{'has' if counts['exact'] == 1 else 'have'} the same digits"
    )
    if counts["another path"]:
        reason += f" and {counts['another path']} took another path"
    return "consistent", reason


def accept(
    folder: Path,
    reference: Path,
    size: int,
    seed: int,
    trust: Collection[str] = (),
    *,
    given: Limit = UNLIMITED,
    again: bool = False,
) -> tuple[Card, list[Comparison]]:
    """Check a submission; return its card with the outcome, which is not yet written, and the rows that were rerun.

    Parameters
    ----------
    folder : Path
        Only read, and nothing that it names is imported unless ``trust`` names it, as for ``kmdr verify``.
    reference : Path
        Folder of results whose rows must not be contradicted; it may be missing.
    size, seed : int
        Of the sample of rows.
    given : Limit
        Of each row, in the place of the defaults of `kmdr.harness.verify.limit_of`.
    again : bool
        Whether a card that has an outcome is checked again.
    """
    trusted = frozenset(map(check_trust, trust))
    if folder.is_symlink() or not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder (links are not followed); name a submission, e.g. kmdr accept my-method"
        )
    card = stated_card(folder)
    if card["name"] != folder.resolve().name:
        raise UserError(f"{folder} has the card of {shown(card['name'])}; a submission is a folder with its name")
    if card.get(VERIFICATION) is not None and not again:
        raise UserError(f"{folder / CARD} states an outcome already; --again checks it again and replaces the outcome")
    files = read_files(folder)
    if damaged := faults(folder):
        raise UserError(f"{folder} is refused: {single_line(damaged[0].sentence)}")
    rows = all_rows(folder)
    check_card(folder, card, rows, files)
    check_packing(folder, rows, files)
    labelled = _labelled(folder, files, rows)
    del files
    refuse_mixed_code(folder, rows)
    by_code = {_code_key(row): row for row in rows if row["status"] == "ok"}
    reasons = {key: obstacle_to_rerun(row, trusted) for key, row in by_code.items()}
    places = [place for place in parts_of(reference) if has_rows(place)]
    shared = refuse_contradictions(folder, places)
    drawn = sample([row for row in rows if not reasons.get(_code_key(row), "")], size, seed, "reducer")
    labels = sample([row for row, _ in labelled], size, seed, "reducer")
    kept = {id(row) for row in labels}
    _refuse_false_sizes([*drawn, *labels])
    folders = folders_by_content([*drawn, *labels], given=given)
    comparisons = rerun(drawn, folder, folders, trusted, given)
    for comparison in comparisons:
        if comparison.outcome == "different":
            raise UserError(f"{_trial_name(comparison.row)}, has other numbers here: {single_line(comparison.detail)}")
    checked = check_labels(folder, [(row, name) for row, name in labelled if id(row) in kept], folders, given)
    status, reason = status_of(comparisons, sorted(filter(None, reasons.values())))
    outcomes = Counter((comparison.row["reducer"], comparison.outcome) for comparison in comparisons)
    details: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "drawn": len(drawn),
        "seed": seed,
        "outcomes": [
            {"reducer": name, "outcome": outcome, "rows": n} for (name, outcome), n in sorted(outcomes.items())
        ],
        "labels": checked,
        "shared": shared,
        "version": code_version(),
        "card": identity(card),
    }
    return {**card, VERIFICATION: details}, comparisons


def find(name: str, out: Path) -> Path:
    """Return the folder of a submission: a path with a slash, a folder of that name here, or its name in ``out``."""
    if "/" in name or name in (".", ".."):
        return with_home(name, "the submission")
    inside = out / checked_name(name)
    return inside if inside.is_dir() or not Path(name).is_dir() else Path(name)


def run(
    name: str,
    out: Path,
    reference: Path,
    rows: int,
    seed: int | None,
    trust: Sequence[str],
    seconds: float | None,
    memory: int | None,
    again: bool,
) -> None:
    """Check a submission, write the outcome to its card, and print it."""
    given, folder = user_limit(seconds, memory), find(name, out)
    if not reference.is_dir():
        tell(f"kmdr: warning: there is no folder {reference}, so the rows are not compared with it")
    seed = secrets.randbelow(2**32) if seed is None else seed
    card, comparisons = accept(folder, reference, rows, seed, trust, given=given, again=again)
    write_checked(folder, CARD, card)
    outcome = card[VERIFICATION]
    if comparisons:
        print_outcomes(comparisons, "reducer")
    if outcome["labels"]:
        announce(f"{counted(outcome['labels'], 'row has', 'rows have')} the scores of their labels")
    if outcome["shared"]:
        announce(f"{counted(outcome['shared'], 'trial')} are in {reference} too, with the same numbers")
    announce(f"{folder}: {outcome['status']}" + (f" ({outcome['reason']})" if outcome["reason"] else ""))
