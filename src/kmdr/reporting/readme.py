"""The scorecard in the project's README; ``python -m kmdr.reporting.readme`` updates it from the committed report."""

import re
from pathlib import Path

from kmdr.base.paths import CONF

_BEGIN, _END = "<!-- scorecard: python -m kmdr.reporting.readme -->", "<!-- end of scorecard -->"
_PAGE = "results/reference/report/report.md"


def scorecard(report: str) -> str:
    """Return the scorecard of a report in Markdown, its links leading into that report."""
    section = re.search(r"^## Scorecard\n(.*?)^## ", report, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError("the report has no scorecard")
    return section[1].strip().replace("](#", f"]({_PAGE}#")


def renewed(readme: str, report: str) -> str:
    """Return a README with the scorecard between its two marks taken anew from a report."""
    head, _, rest = readme.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n\n{scorecard(report)}\n\n{_END}{tail}"


if __name__ == "__main__":
    root: Path = CONF.parent
    readme = root / "README.md"
    report = (root / _PAGE).read_text("utf-8")
    readme.write_text(renewed(readme.read_text("utf-8"), report), "utf-8")
