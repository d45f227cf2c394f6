"""Verdicts under a reconstructed protocol: settings that a search found, or that a paper of the same group suggests.

A paper's ``paper.toml`` names the entry of the flips that run it with these settings. Their rows take the place of the
paper's studies; rows of the protocol as written are not mixed in. Verdicts under both protocols are corrected apart.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from kmdr.analysis.results import Results
from kmdr.claims.catalogue import Claim, Reconstruction, papers
from kmdr.claims.register import Flip
from kmdr.claims.verdicts import Verdict, verdict_on

_NO_SETTINGS = "These settings do not affect the data of this claim."


def reconstruction_of(claim: Claim) -> Reconstruction | None:
    """Return the reconstructed protocol of a claim's paper, if it has one."""
    return next((paper.reconstruction for paper in papers() if paper.name == claim.paper), None)


def reconstructed_rows(results: Results, flips: Sequence[Flip]) -> pd.DataFrame:
    """Return the rows of some flips under the names of the studies, datasets and reducers that they replace."""
    parts = []
    for flip in (flip for flip in flips if flip.study in results.studies):
        rows = results.rows(flip.study, mixed=True)
        rows = rows.assign(
            dataset=rows["dataset"].replace(dict(flip.datasets)), reducer=rows["reducer"].replace(dict(flip.reducers))
        )
        base = [name for name in flip.base if name in results.studies]
        known = results.rows(base, mixed=True).drop_duplicates(["dataset", "reducer"]) if base else rows.iloc[:0]
        studies = known.set_index(["dataset", "reducer"])["study"].to_dict()
        pairs = zip(rows["dataset"], rows["reducer"], strict=True)
        parts.append(rows.assign(study=[studies.get(pair, flip.base[0]) for pair in pairs]))
    return pd.concat(parts) if parts else results.all_rows.iloc[:0]


def reconstructed(claim: Claim, results: Results, flips: Sequence[Flip]) -> Verdict | None:
    """Return the uncorrected verdict on a claim under the reconstructed protocol of its paper, if there is one.

    Parameters
    ----------
    flips : sequence of Flip
        Of all studies.
    """
    protocol = reconstruction_of(claim)
    if protocol is None:
        return None
    results = results.with_facts(protocol.facts)
    if not claim.studies:
        verdict = verdict_on(claim, results, {})
        if {*claim.facts} & {*protocol.facts}:
            return verdict
        return replace(verdict, sentence=f"{_NO_SETTINGS} {verdict.sentence}")
    of_entry = [flip for flip in flips if flip.entry == protocol.entry and {*flip.base} & {*claim.studies}]
    missing = [flip.study for flip in of_entry if flip.study not in results.studies]
    if len(missing) == len(of_entry):
        todo = " && ".join(f"kmdr study={name}" for name in missing)
        return Verdict(claim, "not run", f"No rows of {', '.join(missing) or 'such a study'}.", command=todo)
    rows = reconstructed_rows(results, of_entry)
    base = {name for flip in of_entry for name in flip.base} | {*claim.studies}
    verdict = verdict_on(claim, results.replaced(rows, [*base, *(flip.study for flip in of_entry)]), {})
    return replace(verdict, command=" && ".join(f"kmdr study={flip.study}" for flip in of_entry))
