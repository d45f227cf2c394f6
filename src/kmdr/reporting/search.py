"""The index of the search box: words to find, with the address of what they name."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from kmdr.base.text import counted
from kmdr.claims.verdicts import Verdict
from kmdr.figures.panels import dataset_label
from kmdr.reporting.causes import failures
from kmdr.reporting.model import Report, Reproduction
from kmdr.reporting.names import shared_names, with_kind

# What rests on other implementations or machines, in words that a reader may type.
_WORDS = {
    "hardware": "hardware machine processor computer", "implementation": "implementation code library speed",
    "methods": "order of the methods", "methods in part": "order of the methods", "not measured": "",
}  # fmt: skip


class Entry(NamedTuple):
    """A hit: its kind, its text, its address, and further words that find it."""

    kind: str
    text: str
    address: str
    words: str = ""


def entries(report: Report, views: Sequence[tuple[str, str]]) -> list[Entry]:
    """Return the index of a report; ``views`` are the addresses and titles of its views."""
    datasets = {study["name"]: study["datasets"] for study in report.studies}

    def words(studies: Sequence[str]) -> str:
        return " ".join(dict.fromkeys(dataset_label(name) for study in studies for name in datasets.get(study, ())))

    described = {
        f"paper-{paper.name}": f"{paper.name} {paper.authors} {paper.title} {paper.venue}" for paper in report.papers
    }
    every = [
        *(
            Entry("paper" if id_ in described else "view", title, f"#{id_}", described.get(id_, ""))
            for id_, title in views
        ),
        *_choices(report),
        *(_claim(verdict, words(verdict.claim.studies)) for verdict in report.verdicts),
        *(_item(made, words(made.item.studies)) for made in report.items),
        *(
            Entry("open choice", point.question, f"#open-{point.id}", f"{point.chosen} {point.other}")
            for point, _, _ in report.register
        ),
        *(
            Entry("study", f"{study['name']}: {study['title']}", f"#study-{study['name']}", words([study["name"]]))
            for study in report.studies
        ),
    ]
    names = shared_names(report)
    return [entry._replace(text=with_kind(entry.text, names)) for entry in every]


def _choices(report: Report) -> Iterator[Entry]:
    """Yield the datasets and methods of the view of answers, and the causes of failures."""
    names = dict.fromkeys(str(view["dataset"]) for view in report.explored.get("views", ()))
    for name in names:
        yield Entry("dataset", f"{dataset_label(name)}: best method", f"#answers?dataset={name}", name)
    methods = {name for view in report.explored.get("views", ()) for name in view["reducers"]} - {"none"}
    for method in sorted(methods):
        yield Entry("method", f"{method} on all datasets", f"#by-method?method={quote(method)}")
    for cause, verdicts in failures(report.verdicts).items():
        text = f"{cause.title}: {counted(len(verdicts), 'claim') if verdicts else 'no claim, and why'}"
        yield Entry(
            "cause", text, f"#failures-{cause.id}", f"fails failing failed failure not supported {cause.meaning}"
        )


def _claim(verdict: Verdict, words: str) -> Entry:
    claim, basis = verdict.claim, verdict.basis
    rests = _WORDS[basis.word] if basis else ""
    text = f"{claim.id}: {claim.sentence} ({verdict.outcome})"
    return Entry("claim", text, f"#{claim.id}", " ".join([claim.where, words, *verdict.kinds, rests]))


def _item(made: Reproduction, words: str) -> Entry:
    text = f"{made.item.paper}, {made.item.label}. {made.item.title} ({made.state})"
    return Entry(made.item.kind, text, f"#{made.item.id}", words)
