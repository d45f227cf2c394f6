"""Where the project's own files are, in a checkout and in an installed wheel."""

import os
from pathlib import Path

import pooch

from kmdr.errors import UserError, shown

_PACKAGE = Path(__file__).resolve().parent
CHECKOUT = _PACKAGE.parents[1]
IN_CHECKOUT = (CHECKOUT / "conf" / "config.yaml").is_file()
_SHARE = CHECKOUT if IN_CHECKOUT else _PACKAGE / "_share"

CONF = _SHARE / "conf"
REGISTRY = _SHARE / "datasets" / "registry.toml"


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
    return CHECKOUT / "datasets" / "cache" if IN_CHECKOUT else Path(pooch.os_cache("kmdr"))
