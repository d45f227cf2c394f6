"""The sentences and counts of the README that come from results.

``python -m kmdr.reporting.readme`` updates them from the committed report: the answer to the README's question, the
counts of each paper, and its findings. A finding that the report does not state is an error, because the results no
longer support its words.
"""

import re
from collections.abc import Callable, Collection, Mapping

from kmdr.base.paths import CHECKOUT
from kmdr.claims.catalogue import papers

_PAGE = "results/reference/report/report.md"
_REGION = re.compile(r"(<!-- (\w+): python -m kmdr\.reporting\.readme -->\n\n).*?(\n\n<!-- end of \2 -->)", re.DOTALL)


def scorecard(report: str) -> str:
    """Return a Markdown table with one row of counts per paper, from the scorecard of a report in Markdown."""
    section = re.search(r"^## Scorecard\n(.*?)^## ", report, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError("the report has no scorecard")
    lines = [
        "| paper | tables and figures | agree with the printed numbers | claims supported | mostly supported | "
        "not supported | undecided |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for paper, items, claims in re.findall(r"^\| \[(\w+)\]\(#\w+\) \| (.*?) \| (.*?) \|$", section[1], re.MULTILINE):
        in_full, in_part = items.count("[✓"), items.count("[◐")
        rerun = f"{in_full} rerun" + f", {in_part} in part" * bool(in_part)
        signs = re.findall(r"\) ([✓◐✗]) \d+ of \d+ ", items)
        words = [f"{signs.count(sign)} {word}" for sign, word in zip("✓◐✗", ("yes", "in part", "no"), strict=True)]
        agreed = ", ".join(word for word in words if word[0] != "0") or "not comparable"
        counts = " | ".join(str(claims.count(f"[{sign}")) for sign in "✓◕✗?")
        lines.append(f"| [{paper}]({_PAGE}#{paper}) | {rerun} | {agreed} | {counts} |")
    return "\n".join(lines)


def answer(report: str) -> str:
    """Return the answer to the question of the README, from the head of a report in Markdown."""
    return " ".join(re.findall(r"^> (.+)$", report.partition("\n## ")[0], re.MULTILINE))


def findings(report: str) -> str:
    """Return one Markdown list item per paper with its findings, from a report in Markdown.

    Raises
    ------
    ValueError
        If the report does not state every finding of a paper.
    """
    lines = []
    for paper in papers():
        head = re.search(rf'^## <a id="{paper.name}"></a>.*?\n\n.*?\n\n(.*?)^### ', report, re.MULTILINE | re.DOTALL)
        texts = head[1].strip().split("\n\n") if head else []
        if len(texts) != len(paper.summary.findings):
            raise ValueError(
                f"the report states {len(texts)} of {len(paper.summary.findings)} findings of {paper.name}; reword "
                "those in its paper.toml that the results no longer support"
            )
        short = paper.summary.short
        lines.append(f"* **{paper.name}** ({short[:1].lower()}{short[1:]}): {' '.join(texts)}")
    return "\n".join(lines)


_MAKE: Mapping[str, Callable[[str], str]] = {"scorecard": scorecard, "answer": answer, "findings": findings}


def renewed(readme: str, report: str, regions: Collection[str] = ()) -> str:
    """Return a README with its marked regions, or some of them, made from a report in Markdown."""

    def made(match: re.Match[str]) -> str:
        return match[1] + _MAKE[match[2]](report) + match[3] if match[2] in (regions or _MAKE) else match[0]

    return _REGION.sub(made, readme)


if __name__ == "__main__":
    readme = CHECKOUT / "README.md"
    readme.write_text(renewed(readme.read_text("utf-8"), (CHECKOUT / _PAGE).read_text("utf-8")), "utf-8")
