"""Modules that write files of the repository when they are run."""

import re
import subprocess
import sys

import pytest

from kmdr.base.paths import CHECKOUT

PACKAGE = CHECKOUT / "src" / "kmdr"
WRITERS = sorted(
    "kmdr." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if path.name != "__main__.py" and re.search(r'^if __name__ == "__main__"', path.read_text("utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("module", WRITERS)
def test_help_writes_nothing(module, tmp_path):
    watched = [CHECKOUT / "README.md", *CHECKOUT.glob("datasets/*.md"), *PACKAGE.glob("papers/*/frozen.json")]
    before = {path: path.stat().st_mtime_ns for path in watched}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:6]) == (0, "usage:"), done.stderr
    assert {path: path.stat().st_mtime_ns for path in watched} == before
