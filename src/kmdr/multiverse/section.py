"""A paper's multiverse as the report shows it: curves, shares of variance, options, the universe that is nearest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.analysis.statistics import LEVEL
from kmdr.claims.best_of import SYMBOLS
from kmdr.claims.effects import Outcome, counted
from kmdr.claims.reported import Number
from kmdr.figures.canvas import Drawing, save
from kmdr.figures.panels import dataset_label
from kmdr.figures.style import reducer_styles
from kmdr.figures.tables import Table, save_table
from kmdr.multiverse.choices import Multiverse
from kmdr.multiverse.run import Findings, find
from kmdr.multiverse.specification import Curve, specification_curves
from kmdr.results.json_files import Settled

_MOST_CURVES = 4  # side by side


@dataclass(frozen=True)
class Piece:
    """A figure or a table of a multiverse.

    Attributes
    ----------
    title : str
    files : tuple of Path
        Relative to the folder of the report.
    table : Table or None
        None for a figure.
    """

    title: str
    files: tuple[Path, ...]
    table: Table | None = None


@dataclass(frozen=True)
class MultiverseSection:
    """What the report shows of a paper's multiverse.

    Attributes
    ----------
    paper : str
    sentences : tuple of str
        What it finds, or why there is nothing to find.
    pieces : tuple of Piece
    holds : mapping of str to str
        Of each claim, in how many universes it holds.
    """

    paper: str
    sentences: tuple[str, ...]
    pieces: tuple[Piece, ...]
    holds: dict[str, str]


def multiverse_section(
    results: Results, spec: Multiverse, settled: Sequence[Settled], folder: Path
) -> MultiverseSection:
    """Make figures and tables of a paper's multiverse.

    Parameters
    ----------
    results : Results
    spec : Multiverse
    settled : sequence of Settled
    folder : Path
        Of the report.
    """
    try:
        findings = attempt(lambda rows: find(rows, spec, settled), results)
    except NotRunError as reason:
        return MultiverseSection(spec.paper, (f"Not run: {reason}.",), (), {})
    stem = f"{spec.paper}_multiverse"
    pieces = []
    for number, group in enumerate(_groups(findings.numbers), 1):
        files = save(_curves(findings, group), folder / "figures" / f"{stem}{number}")
        pieces.append(Piece(f"Specification curves: {_together(findings, group)}", _relative(files, folder)))
    tables = {
        "options": ("The options", _options(findings)),
        "universes": ("The universes", Table(findings.table(), {})),
    }
    if findings.numbers:
        tables |= {
            "nearest": ("The universe that is nearest", _nearest(findings)),
            "shares": ("Share of the variance over universes that each choice explains", _shares(findings)),
        }
    for name in ("nearest", "shares", "options", "universes"):
        if name in tables:
            title, table = tables[name]
            files = save_table(table, folder / "tables" / f"{stem}_{name}")
            shown = table if name != "universes" else None
            pieces.append(Piece(title, _relative(files, folder), shown))
    return MultiverseSection(spec.paper, _sentences(findings), tuple(pieces), _holds(findings))


def _relative(files: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    return tuple(file.relative_to(folder) for file in files)


def _label(number: Number) -> str:
    """Return what a number is of, in words."""
    what = SYMBOLS.get(number.quantity, number.quantity.replace("_", " "))
    at = "" if np.isnan(number.r) else f", r = {number.r:.0f}"
    return f"{what}, {reducer_styles([number.method])[number.method].label}{at}"


def _labels(several: Sequence[Number]) -> list[str]:
    """Return the labels of numbers, with their dataset or id where they need it to be told apart."""
    labels = [_label(number) for number in several]
    if len({number.dataset for number in several}) > 1:
        labels = [f"{label} on {dataset_label(n.dataset)}" for label, n in zip(labels, several, strict=True)]
    return [f"{label} ({n.id})" if labels.count(label) > 1 else label for label, n in zip(labels, several, strict=True)]


def _groups(several: Sequence[Number]) -> list[list[int]]:
    """Return the positions of numbers that stand side by side: of one id, dataset and quantity, if many one method."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, number in enumerate(several):
        key = (number.id, number.dataset, number.quantity)
        alike = sum((other.id, other.dataset, other.quantity) == key for other in several)
        groups.setdefault((*key, number.method) if alike > _MOST_CURVES else key, []).append(position)
    return [group[i : i + _MOST_CURVES] for group in groups.values() for i in range(0, len(group), _MOST_CURVES)]


def _together(findings: Findings, group: Sequence[int]) -> str:
    labels = _labels(findings.numbers)
    return "; ".join(labels[position] for position in group)


def _curves(findings: Findings, group: Sequence[int]) -> Drawing:
    labels, curves = _labels(findings.numbers), []
    for position in group:
        laws = [own[position] for own in findings.laws]
        frame = pd.DataFrame([(law.mean, *law.interval) for law in laws], columns=["mean", "low", "high"])
        frame["log_likelihood"] = findings.logs[:, position]
        number = findings.numbers[position]
        curves.append(Curve(labels[position], number.value, number.reading_error, frame))
    options = {choice: list(names) for choice, names in findings.spec.choices.items()}
    return specification_curves(curves, findings.universes, options, findings.nearest)


def _nearest(findings: Findings) -> Table:
    lines = []
    for position, label in enumerate(_labels(findings.numbers)):
        line: dict[str, object] = {"number": label, "reported": findings.numbers[position].value}
        for name, universe in (("nearest", findings.nearest), ("own", 0)):
            law = findings.laws[universe][position]
            low, high = law.interval
            line |= {
                f"{name}: mean": law.mean, f"{name}: low": low, f"{name}: high": high,
                f"{name}: log-likelihood": findings.logs[universe, position],
            }  # fmt: skip
        lines.append(line)
    frame = pd.DataFrame(lines)
    numbers = {name: ".4g" if "log" not in name else ".2f" for name in frame.columns[1:]}
    return Table(
        frame, numbers,
        "Own: the paper's choices as they are taken here; low to high: the central 95 % of a universe's law. The "
        "log-likelihood is that of the reported number, its reading error included.",
    )  # fmt: skip


def _shares(findings: Findings) -> Table:
    lines = []
    for position, label in enumerate(_labels(findings.numbers)):
        line: dict[str, object] = {"number": label}
        for choice, (share, low, high) in zip(findings.spec.choices, findings.shares[:, position], strict=True):
            line[choice] = "–" if np.isnan(share) else f"{share:.0%} [{low:.0%}, {high:.0%}]"
        rest = 1 - findings.shares[:, position, 0].sum()
        line["together, and chance"] = "–" if np.isnan(rest) else f"{max(rest, 0.0):.0%}"
        lines.append(line)
    return Table(
        pd.DataFrame(lines), {},
        "Shapley values of the sum of squares that additive effects of the choices explain, with 95 % intervals by the "
        "bootstrap over repetitions; the rest is of choices that act together, and chance.",
    )  # fmt: skip


def _options(findings: Findings) -> Table:
    frame = findings.options()
    for claim in findings.outcomes:
        frame[claim] = [f"{held} of {of}" for held, of in zip(frame[claim], frame["universes"], strict=True)]
    note = "Of each claim: in how many of the universes with an option it holds, uncorrected."
    if "likelihood" not in frame:
        return Table(frame, {}, note)
    likelihood = "the mean likelihood of the universes with an option, as a share of that of all options of its choice"
    return Table(frame, {"likelihood": ".3f"}, f"Likelihood: {likelihood}. {note}")


def _in_words(findings: Findings, universe: int) -> str:
    pairs = zip(findings.spec.choices, findings.universes[universe], strict=True)
    return ", ".join(f"{choice}: {option}" for choice, option in pairs)


def _sentences(findings: Findings) -> tuple[str, ...]:
    spec, count = findings.spec, len(findings.universes)
    told = [f"{count} of {spec.all} universes were run, of {counted(len(spec.choices), 'choice')}.", _scope(spec)]
    if not findings.numbers:
        return tuple(told)
    i, kept = findings.nearest, findings.not_rejected
    told.append(
        f"Nearest to the {len(findings.numbers)} reported numbers together is {_in_words(findings, i)}: its "
        f"log-likelihood is {findings.together[i]:.1f}, against {findings.together[0]:.1f} with the paper's choices as "
        f"they are taken here; a table drawn in it is as unlikely with probability {findings.p[i]:.2g}. "
        f"{counted(len(kept), 'universe')} of {count} are not rejected at {LEVEL:.0%}"
        + (f"; all of these have {common}." if (common := _common(findings, kept)) else ".")
    )
    if check := findings.check:
        told.append(
            f"It was picked among {count}: by half of the cells, in {counted(check.splits, 'split')}, it is picked "
            f"again in {check.again:.0%}; the other half has then a log-likelihood of {check.picked:.1f} in the mean, "
            f"against {check.own:.1f} with the paper's own choices and {check.any:.1f} over all universes."
        )
    return tuple(told)


def _scope(spec: Multiverse) -> str:
    """Say on what universes are compared: it may be less than studies have, whose verdict may then be another."""
    runs = sorted({of_method["runs"] for of_method in spec.methods.values()})
    repetitions = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    at = f"r = {', '.join(map(str, spec.r_grid))}" if spec.r_grid else "the r of the studies"
    datasets = ", ".join(dataset_label(name) for name in spec.datasets)
    return f"Each has {repetitions} repetitions of {counted(len(spec.methods), 'method')} on {datasets}, at {at}."


def _common(findings: Findings, some: Sequence[int]) -> str:
    """Name the options that some universes have in common."""
    shared = []
    for column, choice in enumerate(findings.spec.choices):
        options = {findings.universes[i][column] for i in some}
        if len(options) == 1:
            shared.append(f"{choice}: {options.pop()}")
    return ", ".join(shared)


def _holds(findings: Findings) -> dict[str, str]:
    """Return in words in how many universes each claim holds, and each kind of what it says."""
    told: dict[str, str] = {}
    words: dict[Outcome, str] = {"not reproduced": "fails", "inconclusive": "stays open", "not run": "is not run"}
    for name, outcomes in findings.outcomes.items():
        claim, _, kind = name.partition(", ")
        rest = [f", {word} in {n}" for outcome, word in words.items() if (n := outcomes.count(outcome))]
        sentence = f"holds in {outcomes.count('reproduced')} of {len(outcomes)} universes{''.join(rest)}"
        told[claim] = f"{told[claim]}; its {kind} {sentence}" if kind else sentence
    for claim, sentence in told.items():
        own = words.get(findings.outcomes[claim][0], "holds")
        told[claim] = f"{sentence}. With the paper's own choices it {own} on as many rows as universes have"
    return told
