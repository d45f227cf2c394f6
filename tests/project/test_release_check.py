"""The check of a release refuses archives with other than the tracked files, and exits as documented."""

import importlib
import sys
import tarfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
release_check = importlib.import_module("release_check")
TRACKED = ("LICENSE", "conf/config.yaml", "datasets/registry.toml", "src/kmdr/__init__.py", "src/kmdr/papers/a/b.csv")
WHEEL = (
    "kmdr/__init__.py", "kmdr/papers/a/b.csv", "kmdr/_share/conf/config.yaml", "kmdr/_share/datasets/registry.toml",
    "kmdr-1.0.dist-info/METADATA",
)  # fmt: skip
OUTCOMES = (release_check.PASSED, release_check.FAILED, release_check.SKIPPED)
PRIVATE = (".env", ".netrc", "a/.pypirc", "results/x/.local.json", "id_ed25519", "b/server.pem", ".git/config", "x.key",
           ".mypy_cache/a", ".env.local", "src/__pycache__/a.pyc")  # fmt: skip


def test_complete_archives_pass():
    assert release_check.archive_faults(dict.fromkeys((*TRACKED, "PKG-INFO"), 1), TRACKED) == []
    assert release_check.wheel_faults(WHEEL, TRACKED) == []


@given(st.sampled_from(TRACKED), st.sampled_from(WHEEL[:-1]))
def test_a_missing_file_is_named(tracked, packaged):
    sizes = {name: 1 for name in TRACKED if name != tracked}
    assert release_check.archive_faults(sizes, TRACKED) == [f"{tracked} is missing"]
    names = [name for name in WHEEL if name != packaged]
    assert release_check.wheel_faults(names, TRACKED) == [f"{packaged} is missing"]


@given(st.text("abc/._", min_size=1).filter(lambda name: name not in TRACKED))
def test_a_file_that_is_not_tracked_is_named(name):
    faults = release_check.archive_faults({**dict.fromkeys(TRACKED, 1), name: 1}, TRACKED)
    assert f"{name} is not tracked by git" in faults
    assert release_check.wheel_faults([*WHEEL, f"kmdr/x{name}"], TRACKED) == [f"kmdr/x{name} does not belong there"]


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_file_is_named_even_if_it_is_tracked(name):
    tracked = (*TRACKED, name)
    assert release_check.archive_faults(dict.fromkeys(tracked, 1), tracked) == [f"{name} may be private"]


def test_a_big_file_is_named():
    sizes = dict.fromkeys(TRACKED, release_check.MOST_FILE)
    assert release_check.archive_faults(sizes, TRACKED) == []
    sizes["LICENSE"] += 1
    (fault,) = release_check.archive_faults(sizes, TRACKED)
    assert fault.startswith("LICENSE has ")


def test_a_link_in_an_archive_fails(tmp_path):
    member = tarfile.TarInfo("kmdr-1.0/LICENSE")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.addfile(member)
    with pytest.raises(release_check.FailedError, match="neither a file nor a folder"):
        release_check.check_source_archive(tmp_path / "a.tar.gz", ["LICENSE"])


def test_the_exit_status_is_that_of_the_documentation():
    for outcomes in product(OUTCOMES, repeat=3):
        expected = 1 if release_check.FAILED in outcomes else 3 if release_check.SKIPPED in outcomes else 0
        assert release_check.exit_status(outcomes) == expected


def test_a_tool_that_cannot_be_installed_and_a_missing_python_are_skipped(tmp_path, monkeypatch):
    def refuse(*_):
        raise release_check.FailedError("pip install x: exit status 1\n    ERROR: No matching distribution")

    monkeypatch.setattr(release_check, "install", refuse)
    kind, reason = release_check.outcome(lambda: release_check.install_tool(tmp_path / "python", "twine"))
    assert (kind, reason) == (release_check.SKIPPED, "twine cannot be installed: ERROR: No matching distribution")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path))
    kind, reason = release_check.outcome(lambda: release_check.find_python("3.999"))
    assert kind == release_check.SKIPPED
    assert "no Python 3.999" in reason


def test_no_tracked_file_counts_as_private_or_big():
    tracked = release_check.run(["git", "ls-files", "-z"], ROOT).strip("\0").split("\0")
    sizes = {name: (ROOT / name).stat().st_size for name in tracked if (ROOT / name).is_file()}
    assert release_check.archive_faults(sizes, list(sizes)) == []
