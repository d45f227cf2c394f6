"""The verdicts of a report as CSV tables: one row per claim, per statement, and per value of a margin."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kmdr.analysis.statistics import Component
from kmdr.claims.implementations import times_by_other_code
from kmdr.claims.verdicts import GROUPS, evidence
from kmdr.figures.escape import spreadsheet_csv
from kmdr.reporting import seeds
from kmdr.reporting.forest import changes_at
from kmdr.reporting.model import Report
from kmdr.reporting.summaries import describe_other_times


def verdict_tables(report: Report) -> dict[Path, bytes]:
    """Return ``verdicts.csv``, ``components.csv`` and ``margins.csv``.

    The last has one row per value of a margin that kmdr chose, with the verdict that it would give. A report without
    claims has none of them.
    """
    if not report.verdicts:
        return {}
    tables = {"verdicts": _verdicts(report), "components": _components(report), "margins": _margins(report)}
    made = {Path(f"{name}.csv"): spreadsheet_csv(pd.DataFrame(rows)) for name, rows in tables.items()}
    return made if report.seeds is None else made | seeds.files(report.seeds)


def with_seeds(report: Report, earlier: pd.DataFrame | None) -> Report:
    """Return a report that compares its verdicts with the verdicts of an earlier seed, if there are any."""
    if earlier is None:
        return report
    now = seeds.central(pd.DataFrame(_verdicts(report)), pd.DataFrame(_components(report)))
    return replace(report, seeds=seeds.side_by_side(earlier, now))


def _verdicts(report: Report) -> list[dict[str, Any]]:
    quotes = {id_: text for paper in report.papers for id_, text in paper.quotes.items()}
    universes = {id_: text for section in report.multiverses.values() for id_, text in section.holds.items()}
    return [
        {
            "claim": verdict.claim.id,
            "verdict": verdict.outcome,
            "statements_supported": verdict.count(verdict.components) if verdict.kinds else "",
            "scope": verdict.scope,
            "reconstructed_protocol": verdict.reconstructed.outcome if verdict.reconstructed else "",
            "reconstructed_statements": verdict.reconstructed.tally if verdict.reconstructed else "",
            "central_supported": verdict.count(verdict.central) if verdict.kinds else "",
            **{kind: verdict.kinds[kind].outcome if kind in verdict.kinds else "" for kind in GROUPS},
            "sentence": verdict.claim.sentence,
            "where": verdict.claim.where,
            "quote": quotes.get(verdict.claim.id, ""),
            "explanation": verdict.sentence,
            "p_for": verdict.p_for,
            "p_against": verdict.p_against,
            "deciding_component": verdict.weakest.label if verdict.weakest else "",
            "effect": verdict.weakest.effect if verdict.weakest else np.nan,
            **(_interval(verdict.weakest) if verdict.weakest else dict.fromkeys(("low", "high"), np.nan)),
            "unit": verdict.weakest.unit if verdict.weakest else "",
            "times_rest_on": verdict.basis.word if verdict.basis else "",
            "other_implementations": "; ".join(describe_other_times(verdict)),
            "repetitions": verdict.needed.component.n if verdict.needed.component else "",
            "repetitions_needed": verdict.needed.repetitions or "",
            "seconds_needed": verdict.seconds_needed,
            "margins_of_ours": "; ".join(f"{swing.margin.what}: {swing.margin:g}" for swing in verdict.swings),
            "verdict_changes_at": "; ".join(changes_at(swing) for swing in verdict.swings),
            "universes": universes.get(verdict.claim.id, ""),
            "rows": " ".join(f"{name}:{count}" for name, count in verdict.rows.items()),
            "rows_digest": verdict.rows_digest,
            "command": verdict.command,
        }
        for verdict in report.verdicts
    ]


def _interval(component: Component) -> dict[str, float]:
    """Return the ends of an interval; NaN if too few runs give one."""
    ends = {"low": component.low, "high": component.high}
    return dict.fromkeys(ends, np.nan) if all(map(math.isinf, ends.values())) else ends


def _components(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "claim": verdict.claim.id,
            **{
                name: value
                for name, value in component._asdict().items()
                if name not in ("margin", "against", "bounds")
            },
            **_interval(component),
            "margin_of_ours": float(component.margin) if component.margin else "",
            "statement_verdict": "" if why else verdict.statement(component),
            **times_by_other_code(verdict, component),
            "decides": f"no, {why}" if why else "side" if component.part in verdict.claim.side else "yes",
        }
        for verdict in report.verdicts
        for component, why in evidence(verdict)
    ]


def _margins(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "claim": verdict.claim.id,
            "what": swing.margin.what,
            "ours": float(swing.margin),
            "margin": value,
            "verdict": outcome,
        }
        for verdict in report.verdicts
        for swing in verdict.swings
        for value, outcome in zip(swing.values, swing.outcomes, strict=True)
    ]
