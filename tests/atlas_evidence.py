"""Effects and traits of an invented atlas, in which the traits of a dataset decide which method is good."""

import numpy as np
import pandas as pd

from kmdr.atlas.traits import TRAITS

MULTIPLES = (0.5, 1, 2, 5, 10, 20, 50)
GRID_METHODS = ("random signs", "leverage", "variance")


def invented(rng, datasets=18, noise=0.0, follows_traits=True):
    """Return effects and traits of some datasets: flat ones, on which sampling is good, and concentrated ones.

    Every method is the faster the smaller r is, and loses the more. With ``follows_traits=False`` the kind of a dataset
    has nothing to do with its traits.
    """
    lines, traits = [], []
    for number in range(datasets):
        concentrated = bool(number % 2)
        n, d, k = 500 + 10 * number, 3000 + 50 * number, 5 + number % 3
        shown = concentrated if follows_traits else bool(rng.integers(2))
        values = dict.fromkeys(TRAITS, 0.5) | {"n": n, "d": d, "k": k, "aspect": d / n, "density": 0.1 if shown else 1}
        values |= {"coherence": 900.0 if shown else 3.0, "leverage_gini": 0.95 if shown else 0.3, "stable_rank": 3.0}
        traits.append({"dataset": f"data{number:02}", "form": "raw", **values})

        def line(method, r, multiple, loss, speedup, failed="", values=values, number=number, shown=concentrated):
            found = {"dataset": f"data{number:02}", "form": "raw", "domain": "text" if shown else "image"}
            found |= {"method": method, "r": r, "multiple": multiple, "runs": 5, "failed": failed}
            found |= {"loss": loss, "loss_low": loss - 0.01, "loss_high": loss + 0.01, "accuracy": -loss / 2}
            found |= {"seconds": 1 / speedup, "seconds_none": 1.0, "speedup": speedup}
            lines.append(found | {name: int(values[name]) for name in "ndk"})

        line("none", d, np.nan, 0.0, 1.0)
        line("svd rank k", k, np.nan, 0.01 + noise * rng.random(), 1.5)
        for multiple in MULTIPLES:
            speedup = 50 / multiple
            base = 0.3 / np.sqrt(multiple)
            for method in GRID_METHODS:
                good = {"random signs": 1.0, "leverage": 0.2 if concentrated else 2.0}.get(
                    method, 2.0 if concentrated else 0.2
                )
                r = int(np.ceil(multiple * k))
                if method == "variance" and multiple == 50:
                    line(method, r, multiple, np.nan, np.nan, "too large")
                else:
                    line(method, r, multiple, good * base + noise * rng.standard_normal(), speedup)
    return pd.DataFrame(lines), pd.DataFrame(traits)
