"""Where the project's own files are, in a checkout and in an installed wheel."""

import os
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from kmdr.base.errors import UserError, shown

_PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = _PACKAGE.parents[1]
IN_CHECKOUT = (CHECKOUT / "conf" / "config.yaml").is_file()
_SHARE = CHECKOUT if IN_CHECKOUT else _PACKAGE / "_share"

# Below the folder that a command is started in, unless it names another.
RESULTS = "results/runs"
CONF = _SHARE / "conf"
REGISTRY = _SHARE / "datasets" / "registry.toml"


def private_folder(folder: Path) -> Path:
    """Make a folder, and those above it that are lacking, for their owner alone; return it."""
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)
    return folder


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=private_folder(folder.expanduser())):
            return True
    except (OSError, RuntimeError):  # the latter where nobody knows the home folder
        return False


def _library_folders() -> dict[str, tuple[Path, ...]]:
    """Return where numba and matplotlib look for a folder to write to, by the variable that names another."""
    home = {name: Path(os.environ.get(f"XDG_{name}_HOME") or f"~/.{name.lower()}") for name in ("CACHE", "CONFIG")}
    # Numba loads code from its folder, which this file in the current folder, perhaps a stranger's, would choose.
    misled = os.environ.get("PYTHONSAFEPATH") and Path(".numba_config.yaml").exists()
    return {
        "NUMBA_CACHE_DIR": () if misled else (_PACKAGE, home["CACHE"] / "numba"),
        "MPLCONFIGDIR": (home["CONFIG"] / "matplotlib",),
    }


def _own_folder(name: str) -> Path | None:
    """Return a folder of the cache that is ours and that nobody else can write to; None if there cannot be one."""
    try:
        folder = private_folder(cache_folder() / name)
        status = folder.lstat()
    except (OSError, UserError):
        return None
    safe = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if safe and _is_writable(folder) else None


def place_library_caches() -> None:
    """Give numba and matplotlib a folder of the cache where neither the package nor the home folder is writable.

    To be called before kmdr's modules are: numba would refuse to import those with kernels, and matplotlib complain.
    """
    for variable, folders in _library_folders().items():
        if not os.environ.get(variable) and not any(map(_is_writable, folders)):
            folder = _own_folder("numba" if variable == "NUMBA_CACHE_DIR" else "matplotlib")
            if folder is None:
                continue  # see `check_library_caches`
            os.environ[variable] = str(folder)
            if variable == "NUMBA_CACHE_DIR" and "numba" in sys.modules:  # which has read its variables already
                sys.modules["numba"].config.CACHE_DIR = str(folder)


def check_library_caches() -> None:
    """Refuse to go on without a folder for compiled code.

    Raises
    ------
    UserError
    """
    if not os.environ.get("NUMBA_CACHE_DIR") and not any(map(_is_writable, _library_folders()["NUMBA_CACHE_DIR"])):
        raise UserError(
            "there is no folder for compiled code: neither that of kmdr nor one in the home folder can be written to; "
            "set KMDR_CACHE to the path of a folder of your own"
        )


@cache
def _kept_private(folder: Path) -> Path:
    """Close a folder of ours, which earlier versions left open, to other users; return it."""
    with suppress(OSError):
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def cache_folder() -> Path:
    """Folder of downloaded files and prepared matrices.

    ``KMDR_CACHE`` where it is set; in a checkout ``datasets/cache``; else the user's cache folder.

    Raises
    ------
    UserError
        When ``KMDR_CACHE`` is not a valid path, or is not set and the home folder is unknown.
    """
    named = os.environ.get("KMDR_CACHE")
    if named:
        try:
            return Path(named).expanduser().resolve()
        except (RuntimeError, OSError) as error:
            raise UserError(
                f"KMDR_CACHE = {shown(named)} is no folder ({error}); give the whole path of one"
            ) from error
    if IN_CHECKOUT:
        return _kept_private(CHECKOUT / "datasets" / "cache")
    import pooch  # which takes longer to import than all else here

    folder = Path()
    with suppress(RuntimeError):  # which not all versions raise without a home folder
        folder = Path(pooch.os_cache("kmdr"))
    if not folder.is_absolute():
        raise UserError("the home folder is not known, so there is none for data; set KMDR_CACHE to the path of one")
    return _kept_private(folder)
