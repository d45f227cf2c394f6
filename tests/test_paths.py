"""Where libraries keep what they compile and look up, on an installation that cannot be written to."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest

from kmdr import paths

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


def test_without_a_home_a_temporary_folder_of_ones_own_is_taken_and_taken_again(tmp_path):
    paths.place_library_caches()
    folder = tmp_path / f"kmdr-{os.getuid()}"
    assert [os.environ[name] for name in VARIABLES] == [str(folder)] * 2
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spoil", ["open to others", "a link"])
def test_a_folder_that_others_may_have_filled_is_not_taken(spoil, tmp_path):
    folder, elsewhere = tmp_path / f"kmdr-{os.getuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if spoil == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    paths.place_library_caches()
    for name in VARIABLES:
        assert os.path.realpath(os.environ[name]) not in {str(folder), str(elsewhere)}
        assert Path(os.environ[name]).stat().st_mode & 0o777 == 0o700


def test_what_can_be_written_to_or_was_set_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", "mine")
    paths.place_library_caches()
    assert [os.environ[name] for name in VARIABLES] == ["", "mine"]
    assert not (tmp_path / f"kmdr-{os.getuid()}").exists()


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
    done = there(f'exec "$0" -c "{program}"', sys.executable)
    assert done.stdout == f"compare {tmp_path / f'kmdr-{os.getuid()}'}\n", done.stderr
    notice = "Matplotlib is building the font cache; this may take a moment.\n"  # which it gives after five seconds
    assert done.stderr in ("", notice)
