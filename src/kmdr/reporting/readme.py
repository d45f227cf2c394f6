"""The sentences and counts of the README and of the paper on kmdr that come from results.

``python -m kmdr.reporting.readme`` updates them from the committed folder of results: the answer to the README's
question, the first findings of the atlas, and one row per paper with the counts of its verdicts and a finding. A
finding that the report does not state is an error, because the results no longer support its words.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from kmdr.base.paths import CHECKOUT
from kmdr.claims.catalogue import papers
from kmdr.claims.summary import Sentence
from kmdr.reporting.names import claim_sources

_REFERENCE = CHECKOUT / "results" / "reference"
_REGION = re.compile(r"(<!-- (\w+): python -m kmdr\.reporting\.readme -->\n\n).*?(<!-- end of \2 -->)", re.DOTALL)
PAGES = (CHECKOUT / "README.md", CHECKOUT / "docs" / "paper" / "paper.md")
_MOST_FINDINGS = 6  # of the atlas
_OUTCOMES = ("supported", "mostly supported", "not supported", "undecided")


def report_text(folder: Path) -> str:
    """Return the words of all Markdown pages of a report, without escapes."""
    pages = " ".join(page.read_text("utf-8") for page in sorted((folder / "report").rglob("*.md")))
    return " ".join(re.sub(r"\\([^\w\s])|\\(_)", r"\1\2", pages).split())


def stated(sentence: Sentence, report: str) -> str:
    """Return a finding with its numbers, as the report states it; empty text if it does not."""
    pieces = re.split(r"\{.*?\}", " ".join(sentence.text.split()))
    match = re.search(r"[^{}]{1,80}?".join(map(re.escape, pieces)) + r"(?=\s|$)", report)
    return match[0] if match else ""


def answer(folder: Path) -> str:
    """Return the answer to the question of the README; raise `ValueError` if the report does not state a part of it."""
    report, outcomes = report_text(folder), _verdicts(folder)
    parts = [finding for paper in papers() for finding in paper.summary.findings if finding.answer]
    of_all = Counter(outcomes.values())
    judged = [claim for paper in papers() for claim in paper.claims if claim.id in outcomes]
    claims = f"Of {claim_sources(judged)}: {', '.join(f'{of_all[outcome]} {outcome}' for outcome in _OUTCOMES)}."
    return _escaped(" ".join([*(_required(finding, report) for finding in parts), claims]))


def _required(finding: Sentence, report: str) -> str:
    text = stated(finding, report)
    if not text:
        raise ValueError(
            f"the report does not state {finding.text!r}; reword it in its paper.toml, because the results no longer "
            "support it"
        )
    return text


def _escaped(text: str) -> str:
    return text.replace("_", r"\_").replace("|", r"\|")


def _verdicts(folder: Path, protocol: str = "verdict") -> dict[str, str]:
    """Return the verdict on each claim that has one under a protocol, which is a column of ``verdicts.csv``."""
    verdicts = pd.read_csv(folder / "verdicts.csv").set_index("claim")[protocol].dropna()
    return {str(claim): str(outcome) for claim, outcome in verdicts.items()}


def _counts_by_paper(outcomes: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the counts of verdicts of each paper that has any."""
    of_papers = {paper.name: [outcomes[c.id] for c in paper.claims if c.id in outcomes] for paper in papers()}
    return {name: [str(some.count(outcome)) for outcome in _OUTCOMES] for name, some in of_papers.items() if some}


def counts_table(folder: Path) -> str:
    """Return a Markdown table with the counts of verdicts of each paper, which is cited by its name."""
    lines = [f"| paper | {' | '.join(_OUTCOMES)} |", f"|---|{'---:|' * len(_OUTCOMES)}"]
    lines += [f"| @{name} | {' | '.join(cells)} |" for name, cells in _counts_by_paper(_verdicts(folder)).items()]
    return "\n".join(lines)


def scorecard(folder: Path) -> str:
    """Return a Markdown table with the counts of verdicts and a finding of each paper.

    The counts are under the protocol as written; the finding is followed by those under a reconstructed one.
    """
    outcomes = _counts_by_paper(_verdicts(folder))
    reconstructed = _counts_by_paper(_verdicts(folder, "reconstructed_protocol"))
    report = report_text(folder)
    lines = [f"| paper, as written | {' | '.join(_OUTCOMES)} | finding |", f"|---|{'---:|' * len(_OUTCOMES)}---|"]
    for paper in papers():
        target = (folder / "report" / f"{paper.name}.md").relative_to(CHECKOUT)
        short = paper.summary.short
        head = f"[{paper.name}]({target}): {short[:1].lower()}{short[1:]}"
        cells = [head, *outcomes[paper.name], first_finding(paper.summary.findings, report)]
        if paper.name in reconstructed:
            counts = zip(reconstructed[paper.name], _OUTCOMES, strict=True)
            cells[-1] += f" Reconstructed protocol: {', '.join(f'{n} {outcome}' for n, outcome in counts if n != '0')}."
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def first_finding(findings: Sequence[Sentence], report: str) -> str:
    """Return the first sentence of a paper's first finding that is not part of the answer."""
    texts = [text for finding in findings if (text := _required(finding, report)) and not finding.answer]
    return _escaped(re.split(r"(?<=\.) (?=[A-Z])", texts[0])[0]) if texts else ""


def atlas(folder: Path) -> str:
    """Return the first findings of the atlas as a Markdown list."""
    page = folder / "report" / "which-method.md"
    text = page.read_text("utf-8") if page.is_file() else ""
    findings = re.findall(r"^\* .*$", text.partition("## Summary")[2].partition("\n## ")[0], re.MULTILINE)
    return "\n".join(findings[:_MOST_FINDINGS]) or "No results of the atlas are committed yet; `kmdr atlas` runs it."


_MAKE: Mapping[str, Callable[[Path], str]] = {
    "answer": answer, "scorecard": scorecard, "counts": counts_table, "atlas": atlas,
}  # fmt: skip


def renewed(readme: str) -> str:
    """Return a page with its marked regions made from the committed results."""
    return _REGION.sub(lambda match: f"{match[1]}{_MAKE[match[2]](_REFERENCE)}\n\n{match[3]}", readme)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help instead of writing
    for page in PAGES:
        page.write_text(renewed(page.read_text("utf-8")), "utf-8")
