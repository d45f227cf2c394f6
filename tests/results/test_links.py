"""No command opens, reads, changes or removes anything that a link in a results folder leads to."""

import importlib.util
import os
import shutil
import sys
from functools import wraps
from pathlib import Path

import pytest

from kmdr.base.files import sweep_abandoned
from kmdr.cli import commands as cli
from kmdr.results.paths import multiverse_folder, parts_of

_SPEC = importlib.util.spec_from_file_location("watched", Path(__file__).parents[2] / "scripts" / "watched.py")
watched = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(watched)

pytestmark = pytest.mark.skipif(not watched.can_watch(), reason="accesses are watched by inotify, which Linux has")

RUN = ("-m", "dataset=digits", "reducer=none,random_sign", "r_grid=[4]", "repeats=1", "keep_labels=true",
       "runner=sequential")  # fmt: skip
COMMANDS = (
    ("table", "DIR"), ("compare", "DIR", "HONEST"), ("compare", "HONEST", "DIR"), ("figures", "DIR"),
    ("report", "DIR"), ("check", "DIR"), ("check", "DIR", "--repair"), ("merge", "DIR", "-o", "OUT"),
    ("merge", "HONEST", "-o", "DIR"), ("merge", "HONEST", "DIR", "-o", "OUT"), ("verify", "DIR", "ROWS=1", "SEED=1"),
    ("export", "DIR", "--crate", "OUT"), ("metrics", "DIR"), (*RUN, "out=DIR"),
    ("submit", "DIR", "NAME=mine", "--out", "OUT"),
)  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A folder that has something at every place of the layout."""
    folder = tmp_path_factory.mktemp("honest") / "run"
    assert run([*RUN, f"out={folder}"]) == 0
    (folder / "facts").mkdir()
    (folder / "facts" / "lst17_spectra.csv").write_text("a\n1\n")
    for name in ("figures/custom.png", "figures/custom.csv", "tables/custom.md", "report/index.html", "error.log",
                 "report/.made_from", "verdicts.csv", "components.csv", "universes.json", "plan.json", "shards.json",
                 "configs/0123456789ab.json"):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    inner = shutil.copytree(folder, folder / "multiverse")
    shutil.copytree(inner, folder / "atlas")
    return folder


def run(arguments):
    """Run a command in this process and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["kmdr", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return ended.value.code


def link(folder, target, depth):
    """Put a link to its twin in the target in the place of everything that lies so deep in a folder."""
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        if len(within.parts) == depth and (path.is_dir() or path.is_file()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(target / within)


def all_of(folder):
    return {path: path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_no_command_touches_what_links_lead_to(honest, tmp_path, depth):
    outside, folder, out = (tmp_path / name for name in ("outside", "run", "out"))
    shutil.copytree(honest, outside)
    (outside / "labels" / ".victim.npz.0123456789abcdef0123456789abcdef.tmp").write_text("")
    before = all_of(outside)
    for command in COMMANDS:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(honest, folder)
        link(folder, outside, depth)
        watch = watched.Watch(outside)
        status = run([{"DIR": folder, "HONEST": honest, "OUT": out}.get(word, word.replace("DIR", str(folder)))
                      if word.isupper() or "=DIR" in word else word for word in map(str, command)])  # fmt: skip
        accesses = watch.accesses()
        watch.close()
        assert not accesses, (command, accesses)
        assert status in (0, 1, 2), command
    assert all_of(outside) == before


def test_what_was_left_behind_is_removed_but_not_through_links(tmp_path):
    name = ".rows.csv.0123456789abcdef0123456789abcdef.tmp"
    for place in (tmp_path / "outside", tmp_path / "run" / "labels" / "a" / "b"):
        place.mkdir(parents=True)
        (place / name).write_text("")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "outside")
    deep = tmp_path / "run" / "/".join("d" * 300)
    os.makedirs(deep)  # noqa: PTH103
    watch = watched.Watch(tmp_path / "outside")
    sweep_abandoned(tmp_path / "run")
    assert not watch.accesses()
    watch.close()
    assert (tmp_path / "outside" / name).exists()
    assert not (tmp_path / "run" / "labels" / "a" / "b" / name).exists()


@pytest.mark.parametrize("command", [command for command in COMMANDS if "DIR" in command], ids="-".join)
def test_no_command_follows_a_multiverse_that_becomes_a_link(command, honest, tmp_path, monkeypatch):
    outside, folder, out = (tmp_path / name for name in ("outside", "run", "out"))
    shutil.copytree(honest, folder)
    shutil.copytree(honest / "multiverse", outside)
    part = folder / "multiverse"

    def exchange_after(look):
        @wraps(look)
        def look_and_exchange(asked):
            known = look(asked)
            if part in (known if isinstance(known, list) else [known]) and not part.is_symlink():
                shutil.rmtree(part)
                part.symlink_to(outside)
            return known

        return look_and_exchange

    for look in (multiverse_folder, parts_of):
        exchanging = exchange_after(look)
        for module in list(sys.modules.values()):
            if getattr(module, look.__name__, None) is look:
                monkeypatch.setattr(module, look.__name__, exchanging)
    watch = watched.Watch(outside)
    status = run([{"DIR": str(folder), "HONEST": str(honest), "OUT": str(out)}.get(word, word) for word in command])
    accesses = watch.accesses()
    watch.close()
    assert not accesses
    assert status in (0, 1, 2)
