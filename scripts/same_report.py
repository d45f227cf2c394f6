"""Check that two checkouts make the same report of the committed rows: ``same_report.py BEFORE [AFTER]``.

Each makes the report of its own copy of ``results/reference``, without local data, so that facts stay as committed.
Numbers, tables and verdicts are compared byte for byte, pictures pixel by pixel, and the Markdown pages line by line.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("figures/*.csv", "figures/*.png", "tables/*", "facts/*", "verdicts.csv", "components.csv")
PAGES = "report/*.md"
SHOWN_LINES = 200


def make(checkout: Path, folder: Path) -> None:
    """Copy the committed rows and facts into a folder, and make their report by the code of a checkout."""
    made = shutil.ignore_patterns("figures", "tables", "report", "verdicts.csv", "components.csv")
    shutil.copytree(ROOT / "results" / "reference", folder, ignore=made)
    nothing = folder.with_name(f"{folder.name}_cache")
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "KMDR_CACHE": str(nothing), "KMDR_DATA": ""}
    subprocess.run([sys.executable, "-m", "kmdr", "report", str(folder)], env=environment, cwd=checkout, check=True)


def same(before: Path, after: Path) -> bool:
    """Whether two files hold the same: a picture its points, any other file its bytes."""
    if before.suffix == ".png":
        with Image.open(before) as first, Image.open(after) as second:
            return np.array_equal(np.asarray(first.convert("RGB")), np.asarray(second.convert("RGB")))
    return before.read_bytes() == after.read_bytes()


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each file that is not the same in both folders."""
    for kind in KINDS:
        names = sorted({path.relative_to(folder) for folder in (before, after) for path in folder.glob(kind)})
        unequal = [
            name
            for name in names
            if not ((before / name).is_file() and (after / name).is_file() and same(before / name, after / name))
        ]
        yield from (f"differs: {name}" for name in unequal)
        print(f"{kind}: {len(names) - len(unequal)} of {len(names)} the same")


def main() -> int:
    """Return 0 when all but the Markdown pages, whose changes are shown, is the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout")
    parser.add_argument("after", type=Path, nargs="?", default=ROOT, help="another; by default this one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / name for name in ("before", "after")]
        for checkout, folder in zip((arguments.before, arguments.after), folders, strict=True):
            make(checkout.resolve(), folder)
        unequal = list(differences(*folders))
        before, after = (
            [line for page in sorted(folder.glob(PAGES)) for line in page.read_text("utf-8").splitlines()]
            for folder in folders
        )
    changes = unified_diff(before, after, "before", "after", lineterm="", n=0)
    print(*unequal, *islice(changes, SHOWN_LINES), sep="\n")
    return int(bool(unequal))


if __name__ == "__main__":
    sys.exit(main())
