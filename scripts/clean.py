"""Remove folders of results, unless a run works in one of them: ``clean.py results/runs results/quick``."""

import argparse
import fcntl
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path


def main() -> int:
    """Remove all, unless one is in use; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    folders = parser.parse_args().folders
    with ExitStack() as locks:
        for folder in folders:
            if (folder / ".lock").is_file():
                lock = locks.enter_context((folder / ".lock").open("r+"))
                try:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # all of it: a run holds bytes
                except BlockingIOError:
                    print(
                        f"{folder} is in use by a run; stop it or wait for its end; nothing was removed",
                        file=sys.stderr,
                    )
                    return 1
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
