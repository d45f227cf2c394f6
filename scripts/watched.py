"""Folders and files that nothing may touch: every access to them is noticed, by inotify."""

import ctypes
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

_EVENTS = {
    0x1: "read", 0x2: "written", 0x4: "changed", 0x20: "opened", 0x40: "moved away", 0x80: "moved there",
    0x100: "made", 0x200: "removed", 0x400: "removed", 0x800: "moved",
}  # fmt: skip
_HEAD = struct.Struct("iIII")


def can_watch() -> bool:
    """Whether the system has inotify, and so this module works."""
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "inotify_init1")


class Watch:
    """Notice who opens, reads, writes, makes, moves or removes anything in a folder, which is there already."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        places = [folder, *folder.rglob("*")]
        self._number = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._places = {}
        for place in places:
            if not place.is_symlink():
                watch = libc.inotify_add_watch(self._number, os.fsencode(place), sum(_EVENTS))
                if watch < 0:
                    raise OSError(ctypes.get_errno(), f"{place} cannot be watched")
                self._places[watch] = place
        self.accesses()  # of making the list

    def accesses(self) -> list[str]:
        """Return what was done since the last call, and to what."""
        content = b""
        with suppress(BlockingIOError):
            while part := os.read(self._number, 1 << 16):
                content += part
        done, at = [], 0
        while at < len(content):
            watch, mask, _, length = _HEAD.unpack_from(content, at)
            name = content[at + _HEAD.size :][:length].rstrip(b"\0").decode("utf-8", "backslashreplace")
            verbs = [verb for bit, verb in _EVENTS.items() if mask & bit]
            if verbs:
                done.append(f"{self._places[watch] / name} {', '.join(verbs)}")
            at += _HEAD.size + length
        return list(dict.fromkeys(done))

    def close(self) -> None:
        """Watch no longer."""
        os.close(self._number)
