"""Where libraries keep what they compile and look up, on an installation that cannot be written to."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest

from kmdr import datasets
from kmdr.base import paths
from kmdr.base.errors import UserError

VARIABLES = ("NUMBA_CACHE_DIR", "MPLCONFIGDIR")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No home folder, and a package that cannot be written to: what lies below a file, not even root can make."""
    file = tmp_path / "file"
    file.touch()
    for name in (*VARIABLES, "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "")  # and as it was afterwards
    monkeypatch.setenv("HOME", str(file / "home"))
    monkeypatch.setattr(paths, "_PACKAGE", file / "kmdr")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)


@pytest.mark.parametrize("named", ["by KMDR_CACHE", "by the checkout"])
def test_without_a_home_libraries_keep_what_they_make_in_the_cache_for_its_owner_alone(named, monkeypatch, tmp_path):
    cache = tmp_path / "checkout" / "datasets" / "cache"
    monkeypatch.delenv("KMDR_CACHE", raising=False)
    if named == "by KMDR_CACHE":
        cache = tmp_path / "new" / "cache"
        monkeypatch.setenv("KMDR_CACHE", str(cache))
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(paths, "IN_CHECKOUT", True)
    for _ in range(2):
        paths.place_library_caches()
        paths.check_library_caches()
        assert [os.environ[name] for name in VARIABLES] == [str(cache / "numba"), str(cache / "matplotlib")]
    assert {path.stat().st_mode & 0o777 for path in (cache.parent, *cache.parent.rglob("*"))} == {0o700}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("kmdr-")]


@pytest.mark.parametrize("spoil", ["open to others", "a link", "a file"])
def test_no_code_is_loaded_from_a_folder_that_others_may_have_filled_and_nothing_is_left(spoil, monkeypatch, tmp_path):
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    for folder in (cache, elsewhere):
        folder.mkdir(mode=0o700)
    if spoil == "a link":
        (cache / "numba").symlink_to(elsewhere)
    elif spoil == "a file":
        (cache / "numba").touch()
    else:
        (cache / "numba").mkdir()
        (cache / "numba").chmod(0o777)
    monkeypatch.setenv("KMDR_CACHE", str(cache))
    monkeypatch.setattr(paths, "IN_CHECKOUT", False)
    before = sorted(tmp_path.rglob("*"))
    paths.place_library_caches()
    assert not os.environ["NUMBA_CACHE_DIR"]
    assert sorted(tmp_path.rglob("*")) in (before, sorted([*before, cache / "matplotlib"]))
    with pytest.raises(UserError, match="set KMDR_CACHE to the path of a writable folder"):
        paths.check_library_caches()


def test_without_a_home_or_a_cache_only_what_needs_one_complains_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "IN_CHECKOUT", False)
    monkeypatch.setattr(Path, "expanduser", lambda path: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.delenv("KMDR_CACHE", raising=False)
    before = sorted(tmp_path.rglob("*"))
    paths.place_library_caches()
    assert sorted(tmp_path.rglob("*")) == before
    for needs_a_cache in (paths.check_library_caches, paths.cache_folder):
        with pytest.raises(UserError, match="set KMDR_CACHE") as error:
            needs_a_cache()
        assert "\n" not in str(error.value)


def test_a_cache_that_an_earlier_version_left_open_is_closed_to_others_unless_the_user_named_it(monkeypatch, tmp_path):
    ours, theirs = tmp_path / "datasets" / "cache", tmp_path / "named"
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paths, "IN_CHECKOUT", True)
    for folder in (ours, theirs):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    monkeypatch.delenv("KMDR_CACHE", raising=False)
    assert paths.cache_folder() == ours
    monkeypatch.setenv("KMDR_CACHE", str(theirs))
    assert paths.cache_folder() == theirs
    assert [folder.stat().st_mode & 0o777 for folder in (ours, theirs)] == [0o700, 0o755]


def test_a_configuration_of_numba_in_the_current_folder_does_not_choose_where_code_is_loaded_from(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # as a command sets it
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    paths.place_library_caches()
    assert os.environ["NUMBA_CACHE_DIR"] == ""
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: evil")
    paths.place_library_caches()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "cache" / "numba")


def test_whatever_lies_in_the_cache_is_readable_by_its_owner_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "new" / "cache"))
    before = os.umask(0o022)
    try:
        folder = datasets.prepare("digits")
        datasets.open_prepared(folder)
    finally:
        os.umask(before)
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {path.name for path in made} >= {"cache", "prepared", "meta.json", "A.npy"}
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in made if path.stat().st_mode & 0o077} == {}


def test_what_can_be_written_to_or_was_set_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", "mine")
    paths.place_library_caches()
    assert [os.environ[name] for name in VARIABLES] == ["", "mine"]
    assert not list(tmp_path.glob("kmdr-*"))


@pytest.mark.slow
def test_the_library_is_imported_from_where_nothing_can_be_written(tmp_path):
    package = paths.CHECKOUT / "src"
    bound = f"mount --bind {package} {package} && mount -o remount,ro,bind {package}"
    namespace = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-c"]

    def there(command, *arguments):
        environment = {name: os.environ[name] for name in ("PATH", "HOME")} | {"PYTHONPATH": str(package)}
        return subprocess.run(
            [*namespace, f"{bound} && {command}", *arguments],
            check=False, env=environment | {"TMPDIR": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip

    if shutil.which("unshare") is None or there("true").returncode:
        pytest.skip("a folder cannot be made read-only here: that needs unshare and the right to mount")
    # Numba has read the variables when it is imported first.
    program = "import numba, kmdr, os; print(kmdr.compare.__name__, os.environ['NUMBA_CACHE_DIR'])"
    cache = tmp_path / "cache"
    done = there(f'KMDR_CACHE={cache} exec "$0" -c "{program}"', sys.executable)
    assert done.stdout == f"compare {cache / 'numba'}\n", done.stderr
    notice = "Matplotlib is building the font cache; this may take a moment.\n"  # which it gives after five seconds
    assert done.stderr in ("", notice)


@pytest.mark.parametrize("name", ["~nobody-here", "~nobody-here/x", "~nobody-here\0"])
def test_an_unknown_home_is_named_unless_it_is_a_file_here(name, monkeypatch, tmp_path):
    """It stopped commands with a traceback, and a folder ``./~x`` had no name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^out = '~nobody-here.*' names an unknown home folder; give the whole path$"):
        paths.with_home(name, "out =")
    assert paths.with_home(f"./{name}", "out =") == Path(name)
    if "\0" not in name:
        Path(name).mkdir(parents=True)
        assert paths.with_home(name, "out =") == Path(name)


def test_the_home_folder_stands_at_the_beginning_only():
    home = Path(os.environ["HOME"])
    assert [paths.with_home(text, "") for text in ("~", "~/a b", "a/~", "./~/x", "")] == [
        home, home / "a b", Path("a/~"), Path("~/x"), Path(),
    ]  # fmt: skip
