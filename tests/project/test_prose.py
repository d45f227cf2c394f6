"""What people read avoids the wording that `prose` lists; it is an aid, which no reader of the whole page replaces."""

from pathlib import Path

import pytest

from prose import files, findings

ROOT = Path(__file__).parents[2]
PLACES = (
    "src/kmdr", "scripts", "conf", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_wording_is_plain(place):
    assert not [finding for path in files([ROOT / place]) for finding in findings(path)]


def test_private_words_and_names_are_found(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('"""Return what was told."""\n\n\ndef under_rows(found: int) -> int:\n    return found\n')
    assert len(findings(path)) == 3
    page = tmp_path / "a.md"
    page.write_text("The rows are left out.\n")
    assert len(findings(page)) == 1
