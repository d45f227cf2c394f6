"""Large text files of a results folder read the same whether they are compressed or not, in any combination."""

import hashlib
import lzma
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmdr.base.files import DamagedError
from kmdr.base.provenance import environment
from kmdr.base.text import short_hash
from kmdr.cli.arguments import COMMANDS
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.reporting.contents import fingerprint
from kmdr.results import compress as module
from kmdr.results.check import faults, run
from kmdr.results.checksums import is_current, write_checked, write_table
from kmdr.results.folder import files_at, has_file, pack_file, read_file, remove_file, write_file
from kmdr.results.json_files import asked_of, universes_of
from kmdr.results.manifests import read_configs
from kmdr.results.packed import Unpacked, pack
from kmdr.results.paths import multiverse_folder
from kmdr.results.reader import facts_of
from kmdr.results.store import Store
from kmdr.results.table import rows_of
from rows import trial

FILES = (
    "configs.jsonl",
    "asked.json",
    "universes.json",
    "facts/a.csv",
    "facts/b.csv",
    "multiverse/universes.json",
    "multiverse/configs.jsonl",
)
MADE_FROM = "0123456789ab"
TASKS = [Task("s", "toy", "5" * 64, "", name, "{}", 3, (2, 5), repeat, 0, Protocol(1, 9), False)
         for name in ("random_sign", "svd") for repeat in range(2)]  # fmt: skip
ASKED = {"s": sorted({task.config_hash for task in TASKS})}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    manifest = environment()
    for store in (Store(folder), Store(folder / "multiverse")):
        store.add_environment(manifest)
        store.add_configs(task.config for task in TASKS)
        for task in TASKS:
            store.add(task, [trial(task, r, 0.1 + 0.01 * r + 0.1 * task.repeat, short_hash(manifest)) for r in (2, 5)])
        store.merge()
    write_checked(folder, "asked.json", ASKED)
    universes = {"bmd09": [{"options": ["a"], "configs": {}}]}
    for name in ("universes.json", "multiverse/universes.json"):
        write_checked(folder, name, universes)
    for name in ("a", "b"):
        write_table(folder, f"facts/{name}.csv", b"x,y\n1,two\n3,four\n", MADE_FROM)
    assert [name for name in FILES if not (folder / name).is_file()] == []
    return folder


def contents(folder):
    facts = {name: fact.to_csv() for name, fact in facts_of(folder).items()}
    current = [is_current(folder, f"facts/{name}.csv", MADE_FROM) for name in ("a", "b")]
    crate = [path.relative_to(folder) for path in files_at(folder, folder / "facts")]
    home = multiverse_folder(folder).relative_to(folder)
    read = [rows_of(folder).to_csv(), read_configs(folder), asked_of(folder), universes_of(folder)]
    return [*read, facts, current, crate, home, fingerprint(folder)]


@settings(max_examples=10, deadline=None)
@given(chosen=st.sets(st.sampled_from(FILES)))
def test_any_files_may_be_compressed(whole, tmp_path_factory, chosen):
    copy = tmp_path_factory.mktemp("copy") / "x"
    shutil.copytree(whole, copy)
    for name in chosen:
        assert pack_file(copy, copy / name).exists()
        assert not (copy / name).exists()
    assert contents(copy) == contents(whole)
    assert faults(copy) == []
    for name in FILES:
        assert has_file(copy, name) == has_file(whole, name)
        assert read_file(copy, name) == read_file(whole, name)


def test_a_writer_replaces_the_compressed_file(whole, tmp_path):
    copy = tmp_path / "x"
    shutil.copytree(whole, copy)
    for name in FILES[3:5]:
        before = read_file(copy, name)
        pack_file(copy, copy / name)
        write_table(copy, name, before, MADE_FROM)  # the same content: nothing is written
        assert not (copy / name).exists()
        write_table(copy, name, b"x\n1\n", MADE_FROM)
        assert (copy / name).exists()
        assert not (copy / f"{name}.xz").exists()
    pack_file(copy, copy / "asked.json")
    Store(copy).change("asked.json", lambda known: {**known, "t": []})
    assert asked_of(copy) == {**ASKED, "t": []}
    assert not (copy / "asked.json.xz").exists()


def test_the_plain_file_is_read_if_there_are_both_and_both_are_removed(tmp_path):
    (tmp_path / "asked.json.xz").write_bytes(pack(b"old"))
    (tmp_path / "asked.json").write_bytes(b"new")
    assert read_file(tmp_path, "asked.json") == b"new"
    remove_file(tmp_path, "asked.json")
    assert not any(tmp_path.iterdir())


def test_other_files_are_not_read_compressed(tmp_path):
    for name in ("plan.json", "rows.csv", "tables/a.csv", "facts/a.from", "a/b/asked.json"):
        write_file(tmp_path, f"{name}.xz", pack(b"x"))
        assert read_file(tmp_path, name) is None
        assert not has_file(tmp_path, name)


def test_the_command_compresses_large_files_once(whole, tmp_path, capsys):
    copy = tmp_path / "x"
    shutil.copytree(whole, copy)
    fact = b"x\n" + b"".join(b"%d\n" % i for i in range(2000))
    for part in (copy, copy / "multiverse"):
        write_table(part, "facts/large.csv", fact, MADE_FROM)
    before = contents(copy)
    assert module.main([str(copy)]) == 0
    expected = [copy / f"{part}facts/large.csv.xz" for part in ("", "multiverse/")]
    assert capsys.readouterr().out.split() == [*map(str, expected)]
    for file in expected:
        assert lzma.decompress(file.read_bytes()) == fact
    assert contents(copy) == before
    assert module.main([str(copy)]) == 0
    assert capsys.readouterr().out == ""
    assert module.main([str(tmp_path)]) == 1
    assert "name a folder of results" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-5],
        lambda content: b"",
        lambda content: content + b"x",
        lambda content: content + content,
        lambda content: content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
        lambda content: b"plain",
        lambda content: lzma.compress(lzma.decompress(content), lzma.FORMAT_ALONE),  # which has no checksum
    ],
)
@pytest.mark.parametrize("name", ["configs.jsonl", "asked.json", "facts/a.csv"])
def test_a_damaged_compressed_file_is_one_sentence_and_repaired(whole, tmp_path, damage, name, capsys):
    copy = tmp_path / "x"
    shutil.copytree(whole, copy)
    file = pack_file(copy, copy / name)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DamagedError, match=rf"{file.name} is damaged"):
        read_file(copy, name)
    assert run(copy) == 1
    assert f"{file.name} is damaged" in capsys.readouterr().out
    run(copy, repairs=True)
    assert not file.exists()


def test_a_bomb_is_refused_without_taking_memory(tmp_path):
    (tmp_path / "facts").mkdir()
    block, packer = bytes(1 << 20), lzma.LZMACompressor(check=lzma.CHECK_SHA256, preset=0)
    bomb = b"".join([*(packer.compress(block) for _ in range(160)), packer.flush()])
    for name in ("configs.jsonl", "asked.json", "facts/a.csv"):
        (tmp_path / f"{name}.xz").write_bytes(bomb)
        with pytest.raises(DamagedError, match="more than"):
            read_file(tmp_path, name)
    assert "more than" in str(facts_of(tmp_path)["a"])


def test_a_compressed_file_that_is_not_read_is_a_fault(whole, tmp_path, capsys):
    copy = tmp_path / "x"
    shutil.copytree(whole, copy)
    before = contents(copy)
    for name in ("configs.jsonl", "facts/a.csv", "multiverse/configs.jsonl"):
        (copy / f"{name}.xz").write_bytes(pack(b"other"))
    assert run(copy) == 1
    assert capsys.readouterr().out.count("is not read, because") == 3
    run(copy, repairs=True)
    assert faults(copy) == []
    assert not [*copy.rglob("*.xz")]
    assert contents(copy) == before


def test_messages_name_the_file_of_a_relative_folder_once(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole, "x")
    fact = Path("x/facts/large.csv")
    fact.write_bytes(b"x\n" * 3000)
    Path("x/facts/large.csv.xz").mkdir()
    assert module.main(["x"]) == 1
    assert "kmdr: error: x/facts/large.csv.xz cannot be written" in capsys.readouterr().err
    with pytest.raises(DamagedError, match=r"^x/facts/large.csv cannot be read \(6000 bytes"):
        read_file(Path("x"), fact, 10)
    for name in ("facts", Path("x/facts")):
        with pytest.raises(DamagedError, match=r"^x/facts cannot be read"):
            read_file(Path("x"), name)


def test_a_file_in_the_place_of_a_folder_is_one_sentence(tmp_path, capsys):
    file = tmp_path / "x.npy"
    file.write_bytes(b"")
    assert module.main([str(file)]) == 1
    assert f"{file} is not a folder; name a folder of results" in capsys.readouterr().err
    with pytest.raises(DamagedError, match="is not a folder"):
        run(file)


def test_a_link_in_the_place_of_a_compressed_file_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(pack(b"{}"))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "asked.json.xz").symlink_to(secret)
    with pytest.raises(DamagedError, match="a link"):
        read_file(tmp_path / "x", "asked.json")


@given(content=st.binary(max_size=2000), size=st.integers(1, 300))
@settings(max_examples=10, deadline=None)
def test_decompressed_bytes_can_be_read_in_pieces_and_again(content, size, tmp_path_factory):
    path = tmp_path_factory.mktemp("u") / "x.xz"
    path.write_bytes(pack(content))
    with path.open("rb") as file:
        source = Unpacked(file, path, len(content))
        for _ in range(2):
            assert b"".join(iter(lambda: source.read(size), b"")) == content
            source.seek(0)
        assert hashlib.file_digest(source, "sha256").hexdigest() == hashlib.sha256(content).hexdigest()


def test_a_report_is_the_same(whole, tmp_path):
    pages = []
    for is_packed in (False, True):
        copy = tmp_path / str(is_packed) / "x"
        shutil.copytree(whole, copy)
        for name in FILES if is_packed else ():
            assert pack_file(copy, copy / name).exists()
            assert not (copy / name).exists()
        COMMANDS["report"]([str(copy)])
        pages.append((copy / "report" / "index.html").read_bytes())
    assert pages[0] == pages[1]
