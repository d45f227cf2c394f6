"""The Dockerfile parses, names its base by digest, and the files that it copies are there and suffice for a wheel."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"ARG", "FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD", "ENV", "LABEL"}


def instructions():
    """Return the instructions of the Dockerfile and their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def copied_files():
    """Return the paths that are copied from the checkout."""
    sources = [
        argument.split()[:-1] for word, argument in instructions() if word == "COPY" and "--from" not in argument
    ]
    return [name for names in sources for name in names]


def test_it_parses():
    lines = instructions()
    assert {word for word, _ in lines} <= KNOWN
    assert [word for word, _ in lines[:2]] == ["ARG", "FROM"]
    for word, argument in lines:
        if word in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(part, str) for part in json.loads(argument))
    assert "PYTHON:3.12" in lines[1][1].upper()


def test_every_base_is_named_by_a_digest_without_a_default():
    assert ("ARG", "DIGEST") in instructions()
    assert all("@${DIGEST}" in argument for word, argument in instructions() if word == "FROM")
    assert "sha256" not in (ROOT / "Dockerfile").read_text("utf-8")


def test_dependencies_are_checked_by_hash_and_the_user_has_no_privileges():
    commands = " ".join(argument for word, argument in instructions() if word == "RUN")
    installs = [command for command in re.split(r"&&", commands) if " -r " in command]
    assert len(installs) == 2
    assert all("--require-hashes" in command for command in installs)
    last = dict(instructions()[-5:])
    assert last["USER"] not in ("root", "0")
    assert json.loads(last["ENTRYPOINT"]) == ["/opt/kmdr/bin/kmdr"]


def test_copied_files_exist_and_are_not_ignored():
    ignored = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if not line.startswith("#")]
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied_files())
    assert all((ROOT / name).exists() for name in copied_files())


@pytest.mark.slow
def test_a_wheel_can_be_built_from_the_copied_files(tmp_path):
    context = tmp_path / "context"
    for name in copied_files():
        source, target = ROOT / name, context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=context, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {"kmdr/__main__.py", "kmdr/_share/conf/config.yaml"} <= set(archive.namelist())
