"""The cells of Table 2, each compared with the runs of the procedure behind it; the table and claim 6 show the same."""

from typing import NamedTuple

import numpy as np

from kmdr.analysis.results import Results
from kmdr.analysis.rows import REPETITION
from kmdr.claims.best_of import runs
from kmdr.claims.draws import Draw, judge_best, judge_computed, judge_run
from kmdr.claims.reported import Number
from kmdr.figures.panels import dataset_label

from .protocol import BEST_OF, ENOUGH, NIPS, ONE_RUN, ORL, TABLE2, TABLE2_NIPS_R


class Cell(NamedTuple):
    """One cell of Table 2.

    Attributes
    ----------
    draw : Draw
        The reported value against ours.
    typical : float
        Mean P of single runs.
    runs : int
        Number of them.
    """

    draw: Draw
    typical: float
    runs: int


def compare_cell(results: Results, number: Number) -> Cell:
    """Compare a cell of Table 2 with one run on ORL, at t = 130, or on NIPS, at r = 60, with its procedure.

    On ORL, P is taken as normal. On NIPS, A and AV_k are one run; ASD and AR are the best of 100 by F. Where r was not
    run, the nearest one is used.

    Raises
    ------
    NotRunError
        If the method was not run.
    """
    on_orl = number.dataset == "orl"
    rows = runs(results, ORL if on_orl else NIPS, number.dataset, number.method).drop_duplicates(["r", *REPETITION])
    wanted = ENOUGH if on_orl else TABLE2_NIPS_R
    rows = rows[rows["r"] == min(sorted(set(rows["r"])), key=lambda r: abs(r - wanted))]
    label = f"{dataset_label(number.dataset)}: P of {TABLE2[number.method]}, reported − ours"
    P = rows["accuracy"].to_numpy(dtype=float)
    if np.ptp(P) == 0:
        draw = judge_computed(label, number, float(P[0]))
    elif on_orl:
        draw = judge_run(label, number, P)
    else:
        draw = judge_best(label, number, rows["objective"], P, 1 if number.method in ONE_RUN else BEST_OF)
    return Cell(draw, float(P.mean()), len(P))
