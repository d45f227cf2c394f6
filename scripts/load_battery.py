"""Load every dataset of a folder with one command each, and print how many load.

A dataset is a file whose format kmdr knows. If files NAME.labels0, NAME.labels0.gz and so on lie next to NAME.data or
NAME.data.gz, each is read as a labeling of its points.
"""

import argparse
import contextlib
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kmdr.datasets.command import run

_LABELS = re.compile(r"\.labels\d*(\.gz)?$")
_DATA = re.compile(r"\.data(\.gz)?$")
_DESCRIPTION = re.compile(r"(readme|licen[cs]e)\b", re.IGNORECASE)
_OTHER = {".md", ".rst", ".py", ".r", ".png", ".pdf", ".html", ""}


def commands(folder: Path) -> Iterator[list[str]]:
    """Yield the arguments of one command per dataset and labeling."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not path.is_file() or path.suffix.lower() in _OTHER or _LABELS.search(path.name):
            continue
        if _DESCRIPTION.match(path.name):
            continue
        stem = _DATA.sub("", path.name)
        if path.suffix == ".txt" and any(
            path.with_name(f"{path.stem}.data{suffix}").exists() for suffix in ("", ".gz")
        ):
            continue  # a description
        labelings = sorted(other for other in path.parent.glob("*.labels*") if _LABELS.sub("", other.name) == stem)
        for labels in (*map(str, labelings),) or ("",):
            yield [str(path), *([f"labels={labels}"] if labels else ["k=2"])]


def main() -> int:
    """Run ``kmdr data check`` on each dataset; return 1 if any does not load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings", nargs="*", help="settings for every dataset, such as encode=onehot missing=mean")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    for command in commands(given.folder):
        out, log = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(log):
            code = run("check", [*command, *given.settings])
        counts["loaded" if code == 0 else "refused"] += 1
        if code:
            refused = [line for line in out.getvalue().splitlines() if line.startswith("  refused")]
            print(" ".join(command), *(refused or log.getvalue().split("\n")[:2]))
    print(f"{counts['loaded']} of {counts.total()} load")
    return int(counts["refused"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
