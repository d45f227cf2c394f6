"""Effects and traits of an invented atlas, in which the traits of a dataset decide which method is good."""

from hashlib import sha256

import numpy as np
import pandas as pd

from kmdr.atlas.traits import TRAITS
from kmdr.results.checksums import write_table
from rows import HASH, write_rows

MULTIPLES = (0.5, 1, 2, 5, 10, 20, 50)
GRID_METHODS = ("random_sign", "leverage", "variance")


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
                good = {"random_sign": 1.0, "leverage": 0.2 if concentrated else 2.0}.get(
                    method, 2.0 if concentrated else 0.2
                )
                r = int(np.ceil(multiple * k))
                if method == "variance" and multiple == 50:
                    line(method, r, multiple, np.nan, np.nan, "too large")
                else:
                    line(method, r, multiple, good * base + noise * rng.standard_normal(), speedup)
    return pd.DataFrame(lines), pd.DataFrame(traits)


def traits_of(rows):
    """Return invented traits of the data of some rows of the atlas, one line per dataset and form."""
    lines = []
    for (dataset, options), group in rows.groupby(["dataset", "options"], sort=False):
        n, d, k = (int(group[name].iloc[0]) for name in "ndk")
        rng = np.random.default_rng([n, d, k])
        values = {name: rng.uniform(0.1, 1) for name in TRAITS} | {"n": n, "d": d, "k": k, "aspect": d / n}
        lines.append({"dataset": dataset, "options": options, **values})
    return pd.DataFrame(lines)


def write_atlas(folder, rows):
    """Write rows of the atlas and invented traits of its data as a folder of results."""
    folder.mkdir(exist_ok=True)
    digests = [sha256(text.encode()).hexdigest() for text in rows["dataset"] + rows["options"]]
    write_rows(folder, rows, machine=HASH, data_sha256=digests)
    content = traits_of(rows).to_csv(index=False).encode()
    write_table(folder, "facts/traits.csv", content, "made up")
    return folder
