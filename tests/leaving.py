"""Calls that leave processes behind. The module imports little, as each new worker imports it."""

import os
import signal
import time

from kmdr.base import limits


def leave_process(file, orphan, ending):
    """Fork a process that outlives the call and ignores all signals that can be ignored."""
    limits.begin()
    pid = os.fork()
    if pid == 0:
        if orphan:
            os.setsid()
        if not orphan or os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            file.with_suffix(".new").write_text(str(os.getpid()))
            file.with_suffix(".new").rename(file)
            time.sleep(600)
        os._exit(0)
    while not file.exists():
        time.sleep(0.01)
    if orphan:
        os.waitpid(pid, 0)
    if ending == "exit":
        os._exit(0)
    if ending == "stay":
        time.sleep(600)
    return ending


def eat_as_orphan():
    limits.begin()
    if os.fork() == 0:
        if os.fork() == 0:
            kept = []
            while True:
                kept.append(bytearray(b"1" * (8 << 20)))
                time.sleep(0.005)
        os._exit(0)
    os.wait()
    time.sleep(600)
