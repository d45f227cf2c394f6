"""Where a prepared dataset lies, and the fingerprint of everything that its content depends on.

Loaders and readers, which take a second to import, are imported only if a fingerprint depends on them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError
from kmdr.base.identity import code_hash, name_of
from kmdr.base.paths import cache_folder
from kmdr.base.plugins import origin_of
from kmdr.datasets.acquire.find import sha256_of
from kmdr.datasets.dataset_options import files_of
from kmdr.datasets.registry import Entry, entry, names
from kmdr.datasets.verification import file_state, read_meta

# Part of every fingerprint. To be raised when the output of a loader or the files of a prepared folder change.
_LAYOUT = 3
# A user's file, or all parts of a matrix together, are identified by their hash up to this size, larger ones by size,
# inode and times of change.
_HASHED_BYTES = 2**26


def prepared_folder(e: Entry, settings: Mapping[str, Any]) -> Path:
    """Return the folder of a dataset with these options; that of another plugin's dataset of that name is another."""
    given = {} if dict(settings) == dict(e.options) else dict(settings)
    key: Any = {"package": e.package, "options": given} if e.package else given
    return cache_folder() / "prepared" / f"{e.name}{f'-{_json_hash(key)[:12]}' if key else ''}"


def fingerprint_of(e: Entry, settings: Mapping[str, Any]) -> str:
    """Return a hash of everything that the content of a dataset with these options depends on."""
    determines = [_LAYOUT, e.name, e.n, e.d, e.k, e.format, e.content_sha256, e.stand_in, dict(e.fixed), dict(settings)]
    determines += [e.nonnegative, [[source.part, source.format, source.sha256] for source in e.sources]]
    # With a content hash in the registry, the matrix is the same whatever code loads it.
    pinned = bool(e.content_sha256) and (e.needs_path or settings == dict(e.options))
    determines += [] if pinned else [e.plugin, _loader_code(e)]
    determines += [_file_identity(Path(path), settings.get("format", "")) for path in files_of(settings)]
    return _json_hash(determines)


def is_outdated(folder: Path) -> bool:
    """Return whether the dataset of a prepared folder is unknown, or its files, options or loader have changed."""
    try:
        name, meta = dataset_of(folder), read_meta(folder)
        return name not in names() or fingerprint_of(entry(name), meta["options"]) != meta["registry"]
    except (UserError, OSError, LookupError, TypeError):
        return True


def dataset_of(folder: Path) -> str:
    """Return the name of the dataset of a prepared folder."""
    return re.sub(r"-[0-9a-f]{12}$", "", folder.name)


def _loader_code(e: Entry) -> list[list[str]]:
    """Return hash and origin of each loader that may turn the files of a dataset into its matrix."""
    from kmdr.datasets import validation
    from kmdr.datasets.sources.loaders import all_loaders

    known = all_loaders()
    loaders = {known[name] for name in (e.format, *(s.format for s in e.sources)) if name in known}
    return sorted([code_hash(name_of(loader), validation.__name__), origin_of(loader.__module__)] for loader in loaders)


def _file_identity(path: Path, kind: str = "", large: bool = False) -> Any:
    if path.is_dir():
        from kmdr.datasets.formats.readers import files_in, folder_kind

        files = files_in(path, kind)
        large = folder_kind(path, kind) != "images" and sum(sum(file_state(file)[:1]) for file in files) > _HASHED_BYTES
        return [[str(file.relative_to(path)), _file_identity(file, large=large)] for file in files]
    state = file_state(path)
    try:
        return sha256_of(path) if state and not large and state[0] <= _HASHED_BYTES else state
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); choose a readable file") from error


def _json_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
