"""Modules and scripts that write or remove files when they are run answer ``--help`` instead."""

import re
import subprocess
import sys

import pytest

from forked import programs
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
        [programs() / "python", "-m", module, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:6]) == (0, "usage:"), done.stderr
    assert {path: path.stat().st_mtime_ns for path in watched} == before


@pytest.mark.parametrize("script", sorted((CHECKOUT / "scripts").glob("*.py")), ids=lambda script: script.name)
def test_a_script_reads_its_command_line_with_argparse(script):
    """``clean.py --help`` removed a folder of this name, ``docs_pages.py --help`` made one, others drew or crashed."""
    text = script.read_text("utf-8")
    if '__name__ == "__main__"' in text:
        assert "argparse.ArgumentParser(" in text


def test_the_removal_of_folders_explains_itself(tmp_path):
    (tmp_path / "--help").mkdir()
    clean = [sys.executable, CHECKOUT / "scripts" / "clean.py", "--help"]
    done = subprocess.run(clean, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage:")
    assert (tmp_path / "--help").is_dir()
