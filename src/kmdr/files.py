"""Files that appear complete or not at all."""

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file aside, flush it to disk and rename it, so that its name never shows a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """Return what a JSON file says; nothing where there is no such file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


def sweep_asides(path: Path) -> None:
    """Remove what killed writers of a file left beside it; for a caller that is its only writer at the time."""
    for aside in path.parent.glob(f".{path.name}.*.tmp"):
        aside.unlink(missing_ok=True)


def sweep_abandoned(folder: Path) -> None:
    """Remove what writers that were killed left in a folder; those of processes that still run are left alone."""
    for aside in folder.glob(".*.tmp"):
        pid = aside.name.removesuffix(".tmp").rpartition(".")[2]
        if pid.isdecimal() and not _runs(int(pid)):
            aside.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
