"""The verdict counts of the README; ``python -m kmdr.reporting.readme`` updates them from the committed report."""

import re

from kmdr.base.paths import CHECKOUT

_BEGIN, _END = "<!-- scorecard: python -m kmdr.reporting.readme -->", "<!-- end of scorecard -->"
_PAGE = "results/reference/report/report.md"


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


def renewed(readme: str, report: str) -> str:
    """Return a README with the scorecard of a report between the two marks."""
    head, _, rest = readme.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n\n{scorecard(report)}\n\n{_END}{tail}"


if __name__ == "__main__":
    readme = CHECKOUT / "README.md"
    readme.write_text(renewed(readme.read_text("utf-8"), (CHECKOUT / _PAGE).read_text("utf-8")), "utf-8")
