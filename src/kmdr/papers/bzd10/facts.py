"""Facts of bzd10: the times of three ways to multiply by a random sign matrix (§5.2)."""

from collections.abc import Callable, Sequence

import numba
import numpy as np
import pandas as pd

from kmdr.analysis.results import Results
from kmdr.base.seeding import generator
from kmdr.base.threads import pinned
from kmdr.base.timing import Stopwatch
from kmdr.claims.catalogue import fact
from kmdr.datasets import Dataset
from kmdr.linalg import Dense, draw_signs
from kmdr.linalg.signs import mailman_factor, multiply_by_mail, sign_matrix

from .protocol import TABLE2_SIGNS

D, T = 4096, 100  # features of ORL 64×64, and Table 2's largest t
POINTS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
# A product of 3000 points takes up to a third of a second and one of 10,000 a second: twelve timings, not thirty.
REPEATS, FEW, LONG = 30, 12, 3000


@numba.njit(cache=True, nogil=True)
def _multiply_columns(A: Dense, bits: Dense, C: Dense) -> None:
    """Write A·R column by column of R, generating each column when it is needed."""
    d = A.shape[1]
    column = np.empty(d)
    for j in range(bits.shape[1]):
        for i in range(d):
            column[i] = 2.0 * (bits[i // 64, j] >> np.uint64(i % 64) & np.uint64(1)) - 1.0
        C[:, j] = A @ column


def _ways(A: Dense, bits: Dense) -> dict[str, Callable[[], object]]:
    """Return the three products: R as a stored matrix, its columns generated on the fly, and the mailman algorithm.

    R is prepared here for each: as a matrix, as bits, and as the factors of the mailman algorithm, which "computes
    (after preprocessing R)" a product (§3.1).
    """
    n, d = A.shape
    t = bits.shape[1]
    stored, C, factor = sign_matrix(bits, d), np.empty((n, t)), mailman_factor(A, bits, t)
    return {
        "MM1": lambda: A @ stored,
        "MM2": lambda: _multiply_columns(A, bits, C),
        "mailman": lambda: multiply_by_mail(A, factor, 1.0),
    }


@fact("bzd10_products", [], studies=[TABLE2_SIGNS], slow=True)
def products(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return the seconds of A·R for n = 1 … 10,000 rows of 4096 features and t = 100, by each way, on one thread.

    Thirty repetitions, twelve from 3000 rows on, the ways in turn within each, after a warm-up for fewer rows. R is
    drawn and prepared before the clock starts.
    """
    del datasets, results
    lines = []
    with pinned(1):
        for n in POINTS:
            rng = generator(0, "bzd10_products", n)
            A = rng.standard_normal((n, D))
            ways = _ways(A, draw_signs(D, T, rng))
            for repeat in range(*((-1, REPEATS) if n < LONG else (0, FEW))):
                for name, multiply in ways.items():
                    with Stopwatch() as watch:
                        multiply()
                    if repeat >= 0:
                        lines.append((n, name, repeat, watch.seconds))
    return pd.DataFrame(lines, columns=["n", "way", "repeat", "seconds"])


FACTS = (products,)
