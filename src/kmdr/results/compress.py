"""``python -m kmdr.results.compress DIR``: compress the large text files of a results folder.

Configurations, universes, the record of what was asked, and facts are compressed, also in the multiverse and the atlas
of the folder. Every command reads them as before; programs other than kmdr read ``NAME.xz``. To compress again changes
nothing. A run into the folder writes the files that it changes without compression.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kmdr.base.errors import UserError
from kmdr.results.paths import parts_of, require_results
from kmdr.results.store import Store

# Compressing smaller files saves less than a block of a disk.
_LEAST_BYTES = 4097


def compress_texts(folder: Path) -> list[Path]:
    """Compress the large text files of a results folder other than its rows, and return their new paths.

    Raise `UserError` if it is not a results folder.
    """
    require_results(folder)
    return [file for part in parts_of(folder) for file in Store(part).pack(_LEAST_BYTES)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compress the folder that the command line names, and print the new files."""
    parser = argparse.ArgumentParser(prog="python -m kmdr.results.compress", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder of results")
    try:
        for file in compress_texts(parser.parse_args(arguments).folder):
            print(file)
    except UserError as error:
        print(f"kmdr: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
