"""A paper's multiverse in the report: specification curves, shares of variance, options, and the nearest universe."""

import lzma
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.analysis.rows import computing_cost
from kmdr.analysis.significance import LEVEL
from kmdr.base.text import counted, typeset
from kmdr.claims.best_of import SYMBOLS
from kmdr.claims.catalogue import items
from kmdr.claims.effects import SUPPORTED, Outcome
from kmdr.claims.reported import Number
from kmdr.figures.canvas import FORMATS, Drawing, figure_files
from kmdr.figures.description import panels_in_words
from kmdr.figures.escape import spreadsheet_csv
from kmdr.figures.panels import dataset_label, quantity_label
from kmdr.figures.style import reducer_styles
from kmdr.figures.tables import Piece, Table, table_files
from kmdr.multiverse.choices import STUDY, Multiverse, settings_on_dataset
from kmdr.multiverse.findings import Findings, compute_findings
from kmdr.multiverse.power import POWER
from kmdr.multiverse.specification_curve import Curve, specification_curves
from kmdr.results.json_files import Settled

_MOST_CURVES = 4  # side by side
_FAVOURED = 0.75  # share of the likelihood of an option that the numbers favour
_NOT_SUPPORTED: tuple[Outcome, ...] = ("not supported", "undecided", "not run")
# The statements of a claim by kind, as the subject of a sentence.
_STATEMENTS = {
    "number": "its reported values",
    "statement": "its statements on F and P",
    "time": "its statements on time",
    "side": "its side statements",
}


@dataclass(frozen=True)
class MultiverseSection:
    """A paper's multiverse in the report.

    Attributes
    ----------
    sentences : tuple of str
        Its findings, or why there are none.
    holds : mapping of str to str
        The number of universes in which each claim is supported, in words, or that they have too little power.
    explanation : str
        Which choices explain the paper's reported numbers, for the summary of the paper; empty if it has none.
    universes : DataFrame
        For texts that cite it: one row per universe with its options, ``own`` (the paper's choices as implemented here)
        and, if numbers are reported, ``p``, ``least_p``, ``numbers`` (rejected, not rejected or too few runs), the
        probability of each number, and ``least_likely``, the number whose largest probability is the least.
    """

    paper: str
    sentences: tuple[str, ...]
    pieces: tuple[Piece, ...]
    holds: dict[str, str]
    explanation: str = ""
    universes: pd.DataFrame = field(default_factory=pd.DataFrame)
    cost: Mapping[str, float] = field(default_factory=dict)


def multiverse_section(
    results: Results,
    spec: Multiverse,
    settled: Sequence[Settled],
    formats: Sequence[str] = FORMATS,
    others: pd.DataFrame | None = None,
) -> MultiverseSection:
    """Return the figures, in some formats, tables and findings of a paper's multiverse.

    ``others`` is that of `compute_findings`.
    """
    try:
        findings = attempt(lambda rows: compute_findings(rows, spec, settled, others), results)
    except NotRunError as reason:
        return MultiverseSection(spec.paper, (f"Not run: {reason}.",), (), {})
    stem, labels = f"{spec.paper}_multiverse", _labels(findings.numbers)
    pieces = []
    for number, group in enumerate(_groups(findings.numbers), 1):
        curves = _curves(findings, group, labels)
        title = "; ".join(labels[position] for position in group)
        files = figure_files(curves, Path(f"figures/{stem}{number}"), formats)
        alt = panels_in_words(curves.numbers)
        pieces.append(Piece(f"Specification curves: {title}", _pack_numbers(files), alt=alt))
    tables = [("options", "The options", _options(findings))]
    if findings.numbers:
        shares = "Share of the variance over universes that each choice explains"
        tables = [("nearest", "The nearest universe", _nearest(findings, labels)),
                  ("shares", shares, _shares(findings, labels)), *tables]  # fmt: skip
    for name, title, table in tables:
        pieces.append(Piece(title, table_files(table, Path(f"tables/{stem}_{name}")), table))
    tails = pd.DataFrame(findings.tails, columns=[f"probability of {label}" for label in labels])
    every = pd.concat([findings.table(), tails], axis=1)
    content = {Path(f"tables/{stem}_universes.csv"): spreadsheet_csv(every)}
    pieces.append(Piece("The universes", _pack_numbers(content)))
    explained = explanation(findings, labels)
    sentences = (*_sentences(findings), *([explained] if explained else []), *_least_likely(findings, labels))
    return MultiverseSection(
        spec.paper, sentences, tuple(pieces), _holds(findings), explained, _universes(every, findings, labels),
        computing_cost(results.trials([f"{STUDY}{name}" for name in spec.studies])),
    )  # fmt: skip


def _universes(every: pd.DataFrame, findings: Findings, labels: Sequence[str]) -> pd.DataFrame:
    """Return the table of all universes with what texts cite of it."""
    every = every.assign(own=[i == 0 for i in range(len(every))])
    if not findings.numbers:
        return every
    return every.assign(least_likely=labels[_least_likely_number(findings)])


def _pack_numbers(files: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """Return files with the CSV packed by xz: lines of universes are much alike, so it takes a tenth."""
    packed = {
        path.with_name(f"{path.name}.xz"): lzma.compress(content, preset=9)
        for path, content in files.items()
        if path.suffix == ".csv"
    }
    return {path: content for path, content in files.items() if path.suffix != ".csv"} | packed


def _label(number: Number) -> str:
    """Return the name of a number: quantity, method and r."""
    what = SYMBOLS.get(number.quantity, number.quantity.replace("_", " "))
    at = "" if np.isnan(number.r) else f", r = {number.r:.0f}"
    return f"{what}, {reducer_styles([number.method])[number.method].label}{at}"


def _labels(several: Sequence[Number]) -> list[str]:
    """Return the names of numbers, with their dataset or place in the paper if needed to distinguish them."""
    places = {item.id: item.label for item in items()}
    labels = [_label(number) for number in several]
    if len({number.dataset for number in several}) > 1:
        labels = [f"{label} on {dataset_label(n.dataset)}" for label, n in zip(labels, several, strict=True)]
    return [
        f"{label} ({places.get(n.id, n.id)})" if labels.count(label) > 1 else label
        for label, n in zip(labels, several, strict=True)
    ]


def _groups(several: Sequence[Number]) -> list[list[int]]:
    """Return the positions of numbers drawn side by side: of one id, dataset and quantity; if many, of one method."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, number in enumerate(several):
        key = (number.id, number.dataset, number.quantity)
        alike = sum((other.id, other.dataset, other.quantity) == key for other in several)
        groups.setdefault((*key, number.method) if alike > _MOST_CURVES else key, []).append(position)
    return [group[i : i + _MOST_CURVES] for group in groups.values() for i in range(0, len(group), _MOST_CURVES)]


def _curves(findings: Findings, group: Sequence[int], labels: Sequence[str]) -> Drawing:
    curves = []
    for position in group:
        distributions = [of_universe[position] for of_universe in findings.distributions]
        frame = pd.DataFrame(
            [(distribution.mean, *distribution.interval) for distribution in distributions],
            columns=["mean", "low", "high"],
        )
        frame["log_likelihood"] = findings.logs[:, position]
        number = findings.numbers[position]
        quantity = quantity_label(number.quantity)[1].replace("_", " ")
        curves.append(Curve(labels[position], quantity, number.value, number.reading_error, frame))
    options = {choice: list(names) for choice, names in findings.spec.choices.items()}
    return specification_curves(curves, findings.universes, options, findings.spec.labels, findings.nearest)


def _nearest(findings: Findings, labels: Sequence[str]) -> Table:
    lines = []
    for position, label in enumerate(labels):
        line: dict[str, object] = {"number": label, "reported": findings.numbers[position].value}
        for name, universe in (("nearest", findings.nearest), ("own", 0)):
            distribution = findings.distributions[universe][position]
            low, high = distribution.interval
            line |= {
                f"{name}: mean": distribution.mean, f"{name}: low": low, f"{name}: high": high,
                f"{name}: log-likelihood": findings.logs[universe, position],
            }  # fmt: skip
        lines.append(line)
    frame = pd.DataFrame(lines)
    numbers = {name: ".4g" if "log" not in name else ".2f" for name in frame.columns[1:]}
    return Table(
        frame, numbers,
        "Own: the paper's choices as implemented here; low to high: the central 95 % of a universe's distribution. The "
        "log-likelihood is that of the reported number with its reading error.",
    )  # fmt: skip


def _shares(findings: Findings, labels: Sequence[str]) -> Table:
    lines = []
    for position, label in enumerate(labels):
        line: dict[str, object] = {"number": label}
        for choice, (share, low, high) in zip(findings.spec.choices, findings.shares[:, position], strict=True):
            line[findings.spec.labels[choice]] = (
                "–" if np.isnan(share) else typeset(f"{share:.0%} [{low:.0%}, {high:.0%}]")
            )
        rest = 1 - findings.shares[:, position, 0].sum()
        line["interactions and chance"] = "–" if np.isnan(rest) else typeset(f"{max(rest, 0.0):.0%}")
        lines.append(line)
    return Table(
        pd.DataFrame(lines), {},
        "Shapley values of the sum of squares that additive effects of the choices explain, with 95 % intervals by the "
        "bootstrap over repetitions; the rest is due to interactions of choices and chance.",
    )  # fmt: skip


def _options(findings: Findings) -> Table:
    frame = findings.options()
    frame["choice"] = frame["choice"].map(findings.spec.labels)
    note = (
        "For each claim: the number of universes with the option in which it is supported, uncorrected, of those whose "
        "runs can decide it."
    )
    if "likelihood" not in frame:
        return Table(frame, {}, note)
    likelihood = "the mean likelihood of universes with an option, divided by the sum over all options of the choice"
    return Table(frame, {"likelihood": ".3f"}, f"Likelihood: {likelihood}. {note}")


def _universe_text(findings: Findings, universe: int) -> str:
    pairs = zip(findings.spec.labels.values(), findings.universes[universe], strict=True)
    return ", ".join(f"{choice}: {option}" for choice, option in pairs)


def _sentences(findings: Findings) -> tuple[str, ...]:
    spec, count = findings.spec, len(findings.universes)
    sentences = [
        f"{count} of {counted(spec.all, 'universe')} were run, with {counted(len(spec.choices), 'choice')}.",
        _scope(spec, int(findings.runs.max(initial=0))),
    ]
    if not findings.numbers:
        return tuple(sentences)
    i = findings.nearest
    sentences.append(
        f"The universe nearest to the {len(findings.numbers)} reported numbers has {_universe_text(findings, i)}. Its "
        f"log-likelihood is {findings.together[i]:.1f}, compared with {findings.together[0]:.1f} for the paper's "
        f"choices as implemented here. A table drawn from it is at least as unlikely with probability "
        f"{findings.p[i]:.2g}."
    )
    # Where each choice has only a default and one alternative, to find the same alternative again shows nothing.
    wide = any(len(options) > 2 for options in spec.choices.values())
    if wide and (check := findings.check):
        sentences.append(
            f"The nearest universe was selected among {count}. Selected by half of the cells, in "
            f"{counted(check.splits, 'split')}, it is the same in {check.again:.0%}. The mean log-likelihood of the "
            f"other half is then {check.picked:.1f}, compared with {check.paper:.1f} for the paper's own choices and "
            f"{check.any:.1f} over all universes."
        )
    return tuple(map(typeset, sentences))


def explanation(findings: Findings, labels: Sequence[str]) -> str:
    """Return in words which choices explain the reported numbers; empty if there are none."""
    if not findings.numbers:
        return ""
    what = f"the {len(findings.numbers)} reported numbers"
    state, p, least = findings.agreement[0], f"p = {findings.p[0]:.2g}", findings.least_p[0]
    of_default = {
        "rejected": f"The paper's own choices do not explain {what} ({p})",
        "not rejected": f"{what.capitalize()} together do not reject the paper's own choices ({p})",
        "too few runs": f"The paper's own choices have too few runs to be rejected by {what} ({p}; a table with a "
        f"number that no run shows would have about {least:.2g})",
    }[state]
    if all(name == "rejected" for name in findings.agreement):
        return f"{of_default}{_unexplained(findings, labels)}"
    return f"{of_default}. {_counts(findings)}.{_favoured(findings) if state == 'rejected' else ''}"


def _counts(findings: Findings) -> str:
    """Return in words how many other universes are rejected, and what all others have in common."""
    counts = Counter(findings.agreement[1:])
    texts = [f"{counts['rejected']} rejected", f"{counts['not rejected']} not rejected"]
    texts += [f"{counts['too few runs']} with too few runs to tell"] if counts["too few runs"] else []
    rest = [i for i, name in enumerate(findings.agreement) if i and name != "rejected"]
    common = _common(findings, rest) if len(rest) > 1 else ""
    text = f"Other universes: {', '.join(texts)}"
    return text + (f". Every universe that is not rejected uses {common}" if common else "")


def _unexplained(findings: Findings, labels: Sequence[str]) -> str:
    """Return in words that every universe is rejected, and which numbers the nearest does not explain."""
    i = findings.nearest
    rest = [
        f"{label} ({findings.numbers[position].value:g}, p = {findings.tails[i, position]:.2g})"
        for position, label in enumerate(labels)
        if findings.tails[i, position] <= LEVEL
    ]
    return (
        f", and neither does any of {counted(len(findings.universes), 'universe')} (largest p = "
        f"{findings.p.max():.2g}). The nearest has {_universe_text(findings, i)}"
        + (f"; unexplained in it: {', '.join(rest)}." if rest else "; in it, each number alone is plausible.")
    )


def _favoured(findings: Findings) -> str:
    """Return the alternatives to the paper's own choices that have most of the likelihood."""
    options = findings.options()
    best = options.loc[options.groupby("choice", sort=False)["likelihood"].idxmax()]
    firsts = {choice: next(iter(names)) for choice, names in findings.spec.choices.items()}
    texts = [
        f"{findings.spec.labels[choice]}: {option} ({100 * likelihood:.0f} % of the likelihood)"
        for choice, option, likelihood in best[["choice", "option", "likelihood"]].itertuples(index=False)
        if option != firsts[choice] and likelihood >= _FAVOURED
    ]
    return f" The numbers favour {', '.join(texts)}." if texts else ""


def _least_likely_number(findings: Findings) -> int:
    """Return the position of the number whose largest probability over the universes is the least."""
    return int(findings.tails.max(axis=0).argmin())


def _least_likely(findings: Findings, labels: Sequence[str]) -> list[str]:
    """Return a sentence on the number that is least likely in all universes."""
    if not findings.numbers:
        return []
    position = _least_likely_number(findings)
    number, tails = findings.numbers[position], findings.tails[:, position]
    unseen = findings.distributions[0][position].unknown * 2 * min(number.value, 1 - number.value)
    runs = counted(int(findings.runs[position]), "run")
    return [
        f"The reported number that fits least is {number.value:g} ({labels[position]}): p = {tails[0]:.2g} under the "
        f"paper's own choices (up to {unseen:.2g} of it due to having only {runs}); "
        f"{tails.min():.2g} to {tails.max():.2g} over {counted(len(tails), 'universe')}, above {100 * LEVEL:g} % in "
        f"{int((tails > LEVEL).sum())}."
    ]


def _scope(spec: Multiverse, most: int) -> str:
    """Return what universes are compared on; it may be less than in the studies, whose verdict may then differ.

    ``most`` is the largest number of runs of a reported number with the paper's own choices.
    """
    runs = sorted(
        {settings_on_dataset(method, name)["runs"] for method in spec.methods.values() for name in spec.datasets}
    )
    repetitions = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    sizes = sorted({r for grid in spec.r_grid.values() for r in grid})
    at = f"r = {', '.join(map(str, sizes))}" if sizes else "the r of the studies"
    datasets = ", ".join(dataset_label(name) for name in spec.datasets)
    further = f" Reported numbers are compared with all runs, of which the paper's own choices have up to {most}."
    return (
        f"Each has {repetitions} repetitions of {counted(len(spec.methods), 'method')} on {datasets}, at {at}."
        f"{further if most > runs[-1] else ''}"
    )


def _common(findings: Findings, some: Sequence[int]) -> str:
    """Return the options that some universes have in common."""
    shared = []
    for column, choice in enumerate(findings.spec.labels.values()):
        options = {findings.universes[i][column] for i in some}
        if len(options) == 1:
            option = options.pop()
            shared.append(f"{choice}: {option}")
    return ", ".join(shared)


def _holds(findings: Findings) -> dict[str, str]:
    """Return in words in how many universes each claim is supported, and each kind of its statements.

    Only universes whose runs can decide the claim are counted; without any, the text says so and has no count.
    """
    texts: dict[str, str] = {}
    for name, outcomes in findings.outcomes.items():
        claim, _, kind = name.partition(", ")
        some = findings.decidable(name)
        if not some:
            texts[claim] = _no_power(findings.powers[claim])
            continue
        counts = [outcomes[i] for i in some]
        rest = [f", {outcome} in {n}" for outcome in _NOT_SUPPORTED if (n := counts.count(outcome))]
        held = sum(outcome in SUPPORTED for outcome in counts)
        sentence = f"supported in {held} of {counted(len(some), 'universe')}{''.join(rest)}"
        texts[claim] = f"{texts[claim]}; {_STATEMENTS[kind]} are {sentence}" if kind else sentence
    for claim, sentence in texts.items():
        if not (some := findings.decidable(claim)):
            continue
        missing = len(findings.universes) - len(some)
        more = f" ({missing} more with a power below {100 * POWER:.0f} %)" if missing else ""
        outcome = findings.outcomes[claim][0]
        as_written = f". With the paper's own choices and as many repetitions as a universe has, it is {outcome}"
        texts[claim] = sentence + more + (as_written if 0 in some else "")
    return texts


def _no_power(powers: Sequence[float]) -> str:
    percent = 100 * max(powers)
    most = "0 %" if percent == 0 else "below 1 %" if percent < 1 else f"at most {percent:.0f} %"
    universes = f"{'all ' * (len(powers) > 1)}{counted(len(powers), 'universe')}"
    return f"not evaluated for want of power ({most} in {universes}; {100 * POWER:.0f} % is needed)"
