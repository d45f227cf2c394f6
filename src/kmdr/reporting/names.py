"""Names that a dataset and a venue share, such as NIPS: headings and search results state which is meant."""

import re
from collections.abc import Collection

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
