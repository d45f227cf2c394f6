"""Where the project's own files are, in a checkout and in an installed wheel."""

import os
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from kmdr.base.errors import UserError, shown
from kmdr.base.files import private_folder

_PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = _PACKAGE.parents[1]
# The folder, such as src or site-packages, from which the package is imported.
MODULES = _PACKAGE.parent
IN_CHECKOUT = (CHECKOUT / "conf" / "config.yaml").is_file()
_SHARE = CHECKOUT if IN_CHECKOUT else _PACKAGE / "_share"

# Default results folder, relative to the current folder.
RESULTS = "results/runs"
CONF = _SHARE / "conf"
REGISTRY = _SHARE / "datasets" / "registry.toml"


def with_home(text: str, what: str) -> Path:
    """Return the path that a text names; ``~`` and ``~NAME`` at its beginning stand for home folders.

    `pathlib.Path.expanduser` does not know ``./~x``, a name in the current folder, from ``~x``. An unknown home folder
    is refused; ``what`` names the text in the error, e.g. ``"out ="``.
    """
    expanded = text
    with suppress(ValueError):  # no user has a name with a byte 0
        expanded = os.path.expanduser(text)  # noqa: PTH111  which leaves an unknown home folder as it is
    if text.startswith("~") and expanded == text and not os.path.lexists(text):
        raise UserError(f"{what} {shown(text)} names an unknown home folder; give the whole path")
    return Path(expanded)


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=private_folder(folder.expanduser())):
            return True
    except (OSError, RuntimeError):  # RuntimeError if the home folder is unknown
        return False


def _library_folders() -> dict[str, tuple[Path, ...]]:
    """Return the default cache folders of numba and matplotlib, by the environment variable that overrides them."""
    home = {name: Path(os.environ.get(f"XDG_{name}_HOME") or f"~/.{name.lower()}") for name in ("CACHE", "CONFIG")}
    # Numba loads code from its folder. This file in the current folder, perhaps a stranger's, would choose that folder.
    untrusted = os.environ.get("PYTHONSAFEPATH") and Path(".numba_config.yaml").exists()
    return {
        "NUMBA_CACHE_DIR": () if untrusted else (_PACKAGE, home["CACHE"] / "numba"),
        "MPLCONFIGDIR": (home["CONFIG"] / "matplotlib",),
    }


def _safe_folder(name: str) -> Path | None:
    """Return a folder of the cache that this user owns and no other user can write to; None if that is impossible."""
    try:
        folder = private_folder(cache_folder() / name)
        status = folder.lstat()
    except (OSError, UserError):
        return None
    safe = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if safe and _is_writable(folder) else None


def place_library_caches() -> None:
    """Let numba and matplotlib use a folder of the cache if neither the package nor the home folder is writable.

    Call it before importing kmdr's modules: otherwise numba refuses to import kernels, and matplotlib warns.
    """
    for variable, folders in _library_folders().items():
        if not os.environ.get(variable) and not any(map(_is_writable, folders)):
            folder = _safe_folder("numba" if variable == "NUMBA_CACHE_DIR" else "matplotlib")
            if folder is None:
                continue  # see `check_library_caches`
            os.environ[variable] = str(folder)
            if variable == "NUMBA_CACHE_DIR" and "numba" in sys.modules:  # it has already read its variables
                sys.modules["numba"].config.CACHE_DIR = str(folder)


def check_library_caches() -> None:
    """Raise a UserError if there is no writable folder for compiled code."""
    if not os.environ.get("NUMBA_CACHE_DIR") and not any(map(_is_writable, _library_folders()["NUMBA_CACHE_DIR"])):
        raise UserError(
            "there is no folder for compiled code: neither kmdr's own nor the home folder is writable; set KMDR_CACHE "
            "to the path of a writable folder"
        )


@cache
def _kept_private(folder: Path) -> Path:
    """Make a folder private that earlier versions left readable to other users, and return it."""
    with suppress(OSError):
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def cache_folder() -> Path:
    """Return the folder of downloaded files and prepared matrices.

    It is ``KMDR_CACHE`` if that is set, in a checkout ``datasets/cache``, else the user's cache folder. An invalid
    path, or an unknown home folder, is refused.
    """
    named = os.environ.get("KMDR_CACHE")
    if named:
        try:
            return Path(named).expanduser().resolve()
        except (RuntimeError, OSError) as error:
            raise UserError(f"KMDR_CACHE = {shown(named)} is not a folder ({error}); give an absolute path") from error
    if IN_CHECKOUT:
        return _kept_private(CHECKOUT / "datasets" / "cache")
    import pooch  # slow to import

    folder = Path()
    with suppress(RuntimeError):  # not all versions raise it without a home folder
        folder = Path(pooch.os_cache("kmdr"))
    if not folder.is_absolute():
        raise UserError(
            "the home folder is not known, so there is no folder for data; set KMDR_CACHE to the path of one"
        )
    return _kept_private(folder)
