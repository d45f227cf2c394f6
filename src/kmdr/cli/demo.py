"""``kmdr demo``: a run on real data that needs no download, with its table and its picture, in seconds."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from kmdr.base.errors import UserError
from kmdr.base.text import announce
from kmdr.cli.jobs import run_jobs
from kmdr.harness.jobs import compose

_REDUCERS = ("none", "gaussian", "leverage", "variance")
# Of k-means scikit-learn's, for kmdr's own is compiled when it is first used, which takes longer than all else here.
_SETTINGS = (
    "dataset=digits", "r_grid=[5,10,20,40]", "repeats=5", "timing_repeats=2", "kmeans.engine=sklearn",
    "runner=sequential",
)  # fmt: skip


def run(arguments: Sequence[str]) -> int:
    """``kmdr demo [OUT=results/demo]``: digits, four methods at four r: a table and a picture in seconds."""
    out = "results/demo"
    for text in arguments:
        key, equals, out = text.partition("=")
        if key.upper() != "OUT" or not equals:
            raise UserError(f"'kmdr demo' takes OUT=DIR alone, but was given {text!r}; leave it out")
    here = f"out={out}"
    words = ["-m", *_SETTINGS, f"reducer={','.join(_REDUCERS)}", here]
    announce(f"This is: kmdr {shlex.join(words)}")
    status = run_jobs([compose(*_SETTINGS, f"reducer={name}", here) for name in _REDUCERS])
    from kmdr.figures.panels import figures_for_folder

    folder = Path(out).expanduser()
    picture = next(path for path in figures_for_folder(folder) if path.suffix == ".png")
    announce(f"\n{picture.resolve()}: the same as a picture")
    announce(f"Next: kmdr report {shlex.quote(out)}; kmdr --help; your data: dataset=file dataset.path=my.csv")
    return status
