"""Numbers that a text cites from a report: ``{SOURCE CONDITION... COLUMN:FORMAT}``.

The source is the id of a table, figure or claim (``CLAIM/reconstructed`` for its verdict under the other protocol), a
table of a multiverse by the stem of its file, ``verdicts`` (outcomes as written, and reconstructed), or ``answers``:
the numbers of the view "Answers", so that a ratio to k-means on all features is the same number there and in a text. A
condition is ``COLUMN=VALUE[,VALUE...]`` or ``COLUMN~TEXT`` (contains), quoted as in a shell; ``!=`` is the contrary of
``=``, and ``+`` between sources joins them. Several selected values are cited as their range; the column ``rows`` is
their number.
"""

import operator
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from kmdr.base.text import format_number, typeset
from kmdr.claims.effects import decided
from kmdr.claims.implementations import times_by_other_code
from kmdr.claims.summary import Sentence
from kmdr.claims.verdicts import Verdict, evidence
from kmdr.reporting.model import Report

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_FIELD = re.compile(r"\{([^{}]+?)(?::([-+.\d%\w]*))?\}")
_CONDITION = re.compile(r"^([^=~!]+)(!=|=|~)(.*)$")
Sources = Mapping[str, pd.DataFrame]


def sources(report: Report) -> dict[str, pd.DataFrame]:
    """Return the tables of a report that texts may cite, by name."""
    tables = {part.item.id: part.numbers for part in report.items if not part.numbers.empty}
    for section in report.multiverses.values():
        tables[f"{section.paper}_multiverse_universes"] = section.universes
        for piece in section.pieces:
            if piece.table is not None:
                tables[next(iter(piece.files)).stem] = piece.table.frame
    for verdict in report.verdicts:
        tables |= statements_of(verdict)
    tables["answers"] = answers_table(report.explored)
    tables["verdicts"] = pd.DataFrame(
        [
            (v.claim.id, v.claim.paper, v.outcome, v.reconstructed.outcome if v.reconstructed else None)
            for v in report.verdicts
        ],
        columns=["claim", "paper", "outcome", "reconstructed"],
    )
    return tables


def statements_of(verdict: Verdict) -> dict[str, pd.DataFrame]:
    """Return the statements of a verdict under each protocol that was run, by the names of their sources."""
    protocols = {verdict.claim.id: verdict, f"{verdict.claim.id}/reconstructed": verdict.reconstructed}
    return {name: _statements(judged) for name, judged in protocols.items() if judged and judged.components}


def _statements(verdict: Verdict) -> pd.DataFrame:
    """Return the statements of a verdict with their outcomes; ``decides`` is False for statements that do not count."""
    rows = [
        {
            **component._asdict(), "ours": component.reported - component.effect, "decides": not why,
            "outcome": verdict.statement(component) if not why else decided(component.p_for, component.p_against),
            **times_by_other_code(verdict, component),
        }
        for component, why in evidence(verdict)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(verdict=verdict.outcome)


def answers_table(explored: Mapping[str, Any]) -> pd.DataFrame:
    """Return the numbers of the view "Answers" as it shows them: one row per experiment, quantity, method and r.

    Returns
    -------
    DataFrame
        ``studies``: of the experiment, separated by spaces. ``method``: as the view names it. ``centre``, ``low``,
        ``high`` and ``n``: the mean, or of times the median, with its interval and number. ``change``: the difference
        of the centre of a score, such as accuracy, from that of k-means on all features.
    """
    rows = []
    for view in explored.get("views", ()):
        of_view = view["dataset"], " ".join(view["studies"])
        for quantity, lines in view["lines"].items():
            for line in lines:
                of_line = quantity, view["methods"][line["method"]]
                changes = line.get("change", [None] * len(line["r"]))
                cells = zip(*(line[name] for name in ("r", "centre", "low", "high", "n")), changes, strict=True)
                rows += [(*of_view, *of_line, *cell) for cell in cells]
    numeric = ["centre", "low", "high", "n", "change"]
    table = pd.DataFrame(rows, columns=["dataset", "studies", "quantity", "method", "r", *numeric])
    return table.astype(dict.fromkeys(numeric, float))


def select(tables: Sources, field: str) -> "pd.Series[Any]":
    """Return the values that a field names; raise a LookupError if there are none."""
    _, *conditions, column = shlex.split(field)
    table = pd.concat([tables[name] for name in source_names(field)])
    for condition in conditions:
        key, sign, value = _CONDITION.findall(condition)[0]
        texts = table[key].map(lambda cell: f"{cell:g}" if isinstance(cell, float) else str(cell))
        wanted = texts.str.contains(value, regex=False) if sign == "~" else texts.isin([value, *value.split(",")])
        table = table[~wanted if sign == "!=" else wanted]
    values = pd.Series([len(table)]) if column == "rows" else table[column].dropna()
    if values.empty:
        raise LookupError(f"{field!r} names no value")
    return values


def _shown(tables: Sources, field: str, form: str) -> str:
    values = select(tables, field)
    if not pd.api.types.is_numeric_dtype(values):
        return ", ".join(dict.fromkeys(map(str, values)))
    ends = dict.fromkeys(typeset(format_number(float(end), form)) for end in (values.min(), values.max()))
    return " to ".join(ends).replace(" % to", " to")


def is_true(tables: Sources, condition: str) -> bool:
    """Return True if all values of a field compare as a condition ``FIELD OPERATOR VALUE`` states."""
    *field, sign, value = shlex.split(condition)
    values = select(tables, shlex.join(field))
    wanted = float(value) if pd.api.types.is_numeric_dtype(values) else value
    return bool(_COMPARED[sign](values, wanted).all())


def source_names(field: str) -> list[str]:
    """Return the names of the tables that a field cites."""
    return shlex.split(field)[0].split("+")


def cited(tables: Sources, sentence: Sentence) -> str:
    """Return a sentence with its numbers; empty if its numbers were not run, or its conditions are not met."""
    try:
        if all(is_true(tables, condition) for condition in sentence.when):
            return _FIELD.sub(lambda match: _shown(tables, match[1], match[2] or "g"), sentence.text)
    except LookupError:
        pass
    return ""
