"""Names that a dataset and a venue share, such as NIPS, so that texts mark the dataset, and the sources of claims."""

import re
from collections.abc import Collection, Sequence

from kmdr.base.text import counted
from kmdr.claims.catalogue import Claim
from kmdr.figures.panels import dataset_label
from kmdr.reporting.model import Report


def shared_names(report: Report) -> set[str]:
    """Return the names of datasets that are also the venue of a paper."""
    venues = {paper.venue.split()[0] for paper in report.papers if paper.venue.strip()}
    return venues & {dataset_label(name) for study in report.studies for name in study["datasets"]}


def with_kind(text: str, names: Collection[str]) -> str:
    """Return a text in which the first mention of each name as a dataset is marked; a venue is followed by its year.

    Examples
    --------
    >>> with_kind("The words of NIPS, NIPS 2009", {"NIPS"})
    'The words of NIPS (dataset), NIPS 2009'
    """
    for name in sorted(names):
        text = re.sub(rf"(?<![\w(]){re.escape(name)}(?![\w)]| \d{{4}}| \(dataset)", f"{name} (dataset)", text, count=1)
    return text


_PUBLISHED_ROWS = "published rows"  # the place of a claim that is about a paper's data files, not about its text


def claim_sources(claims: Sequence[Claim]) -> str:
    """Return how many claims are sentences of papers, and how many state in our words what published rows say."""
    ours = [claim for claim in claims if claim.where.startswith(_PUBLISHED_ROWS)]
    theirs = [claim for claim in claims if claim not in ours]
    parts = []
    if theirs:
        parts.append(f"{counted(len(theirs), 'claim')} of {counted(len({claim.paper for claim in theirs}), 'paper')}")
    if ours:
        names = ", ".join(dict.fromkeys(claim.paper for claim in ours))
        parts.append(f"{counted(len(ours), 'claim')} in our words on the {_PUBLISHED_ROWS} of {names}")
    return " and ".join(parts)
