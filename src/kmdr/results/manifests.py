"""Configurations and environments that rows name by hash, the log of runs, and the paths of the user's files."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kmdr.base.files import DamagedError
from kmdr.base.provenance import machine
from kmdr.base.text import canonical, short_hash
from kmdr.results.checksums import with_json_checksum, without_json_checksum
from kmdr.results.folder import file_status, list_files, read_file, require_file
from kmdr.results.json_files import read_json
from kmdr.results.paths import CONFIGS, LOCAL, LOG


def json_files(folder: Path, name: str) -> list[Path]:
    """Return the JSON files directly in a subfolder."""
    return [path for path in list_files(folder, name) if path.parent == folder / name and path.suffix == ".json"]


def config_line(key: str, config: Mapping[str, Any]) -> bytes:
    """Return the line of ``configs.jsonl`` for a configuration and its hash."""
    return canonical({"config_hash": key, **config}).encode()


def read_configs(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[Path, str]]:
    """Return the configurations of a folder by hash, and a sentence for each damaged file.

    Older versions wrote one file per configuration, ``configs/<hash>.json``.
    """
    configs: dict[str, dict[str, Any]] = {}
    damaged: dict[Path, str] = {}
    try:
        for path in json_files(folder, "configs"):
            try:
                configs[path.stem] = _read_hashed(folder, path)
            except DamagedError as error:
                damaged[path] = str(error)
    except DamagedError as error:
        damaged[folder / "configs"] = str(error)
    table = folder / CONFIGS
    try:
        lines = (read_file(folder, table) or b"").splitlines()
    except DamagedError as error:
        damaged[table], lines = str(error), []
    for number, line in enumerate(lines, 1):
        try:
            config = json.loads(line)
            key = config.pop("config_hash")
            intact = short_hash(config) == key and config_line(key, config) == line
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            intact = False
        if intact:
            configs[key] = config
        else:
            damaged[table] = f"{table} is damaged: line {number} differs from the hash in it"
    return configs, damaged


def described(folder: Path, kind: str, key: str) -> dict[str, Any]:
    """Return the configuration (``kind`` "configs") or environment ("environments") that a hash in a row stands for.

    Raise `DamagedError` if the key is not a hash, or its description is missing or has another hash.
    """
    if not re.fullmatch("[0-9a-f]{12}", key):
        raise DamagedError(
            f"{key[:40]!r} in {kind} of {folder} is not a hash of 12 digits; the row that has it is damaged"
        )
    if kind == "environments":
        return _read_hashed(folder, folder / kind / f"{key}.json")
    configs, damaged = read_configs(folder)
    if key not in configs:
        raise DamagedError(
            "; ".join(damaged.values())
            or f"{folder / CONFIGS} has no configuration {key}, which rows name; the run that made them writes it again"
        )
    return configs[key]


def _read_hashed(folder: Path, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(require_file(folder, path))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or short_hash(content) != path.stem:
        raise DamagedError(f"{path} is damaged: its content differs from the hash in its name")
    return content


def log_line(entry: Mapping[str, Any]) -> str:
    """Return the line of ``runs.jsonl`` for a run."""
    return json.dumps(with_json_checksum(entry), ensure_ascii=False)


def log_lines(folder: Path) -> list[str]:
    """Return the lines of ``runs.jsonl``, one per run; raise `DamagedError` if a line differs from its checksum."""
    path = folder / LOG
    try:
        lines = (read_file(folder, path) or b"").decode().splitlines()
        for line in lines:
            without_json_checksum(line)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: a line differs from its checksum") from error
    return lines


def files_by_machine(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the user's files by machine and content hash; nothing unless only this user could write the file."""
    try:
        status = file_status(folder, LOCAL)
        if status is None or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return {}
        return read_json(folder, LOCAL)
    except DamagedError:  # the next run writes it again
        return {}


def local_paths(folder: Path, data_sha256: str) -> list[dict[str, Any]]:
    """Return the options that name the files of a dataset on this machine, latest run first."""
    return files_by_machine(folder).get(machine(), {}).get(data_sha256, [])
