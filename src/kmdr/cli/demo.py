"""``kmdr demo``: a run on real data that needs no download, with its table and its picture, in seconds."""

import shlex
from pathlib import Path

from kmdr.base.text import announce, two_columns, wrapped
from kmdr.cli.jobs import run_jobs
from kmdr.harness.jobs import compose

_REDUCERS = ("none", "gaussian", "leverage", "variance")
# scikit-learn's k-means, because compiling kmdr's own at its first use takes longer than everything else here.
_SETTINGS = (
    "dataset=digits", "r_grid=[5,10,20,40]", "repeats=5", "timing_repeats=2", "kmeans.engine=sklearn",
    "runner=sequential",
)  # fmt: skip


def run(out: Path) -> int:
    """Run four methods on digits, and print a table and the name of a picture."""
    from kmdr.figures.panels import figures_for_folder

    folder = f"out={out}"
    words = ["-m", *_SETTINGS, f"reducer={','.join(_REDUCERS)}", folder]
    announce(wrapped("Four methods on pictures of handwritten digits, five times each. The same as:"))
    announce(f"kmdr {shlex.join(words)}")
    status = run_jobs([compose(*_SETTINGS, f"reducer={name}", folder) for name in _REDUCERS])
    picture = next(path for path in figures_for_folder(out) if path.suffix == ".png")
    announce(f"\nPlot saved to {picture}")
    announce("\nNext:")
    steps = (
        (f"kmdr report {shlex.quote(str(out))}", "the same as a page, with figures of each quantity"),
        ("kmdr data check my.csv", "how your own data would be read, and the command that runs it"),
        ("kmdr", "more first steps"),
    )
    announce("\n".join(two_columns(steps, "  ")))
    return status
