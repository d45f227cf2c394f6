"""Where the project's own files are, in a checkout and in an installed wheel."""

import os
import stat
import sys
import tempfile
from pathlib import Path

from kmdr.errors import UserError, shown

_PACKAGE = Path(__file__).resolve().parent
CHECKOUT = _PACKAGE.parents[1]
IN_CHECKOUT = (CHECKOUT / "conf" / "config.yaml").is_file()
_SHARE = CHECKOUT if IN_CHECKOUT else _PACKAGE / "_share"

# Below the folder that a command is started in, unless it names another.
RESULTS = "results/runs"
CONF = _SHARE / "conf"
REGISTRY = _SHARE / "datasets" / "registry.toml"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _own_temporary_folder() -> Path:
    """Return a folder that nobody else can write to, always the same where that can be: code is loaded from it."""
    folder = Path(tempfile.gettempdir(), f"kmdr-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="kmdr-"))


def place_library_caches() -> None:
    """Give numba and matplotlib a temporary folder where they can write neither to the package nor to the home folder.

    To be called before kmdr's modules are: numba would refuse to import those with kernels, and matplotlib complain.
    """
    home = {name: Path(os.environ.get(f"XDG_{name}_HOME") or f"~/.{name.lower()}") for name in ("CACHE", "CONFIG")}
    places = {
        "NUMBA_CACHE_DIR": (_PACKAGE, home["CACHE"] / "numba"),
        "MPLCONFIGDIR": (home["CONFIG"] / "matplotlib",),
    }
    for variable, folders in places.items():
        if not os.environ.get(variable) and not any(_is_writable(folder.expanduser()) for folder in folders):
            os.environ[variable] = place = str(_own_temporary_folder())
            if variable == "NUMBA_CACHE_DIR" and "numba" in sys.modules:  # which has read its variables already
                sys.modules["numba"].config.CACHE_DIR = place


def cache_folder() -> Path:
    """Folder of downloaded files and prepared matrices.

    ``KMDR_CACHE`` where it is set; in a checkout ``datasets/cache``; else the user's cache folder.

    Raises
    ------
    UserError
        When ``KMDR_CACHE`` names no folder that there could be.
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
        return CHECKOUT / "datasets" / "cache"
    import pooch  # which takes longer to import than all else here

    return Path(pooch.os_cache("kmdr"))
