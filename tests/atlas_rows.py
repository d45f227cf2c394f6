"""Made-up rows of the atlas: losses and times that follow simple laws, with gaps as real data have them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from kmdr.atlas import ranking
from kmdr.atlas.ranking import ALL_FORMS, Condition, Ranking
from rows import make_rows

# By name: reducer, parameters, loss at r = k (it falls as 1/r), and the time as a share of that of all features.
METHODS: Mapping[str, tuple[str, str, float, float]] = {
    "none": ("none", "{}", 0.0, 1.0),
    "svd": ("svd", '{"centred":false,"rank":"r","solver":"kmdr"}', 0.02, 0.6),
    "leverage": ("leverage", '{"centred":false,"merged":false,"rescaled":true,"solver":"kmdr"}', 0.3, 0.4),
    "random signs": ("random_sign", "{}", 0.2, 0.2),
    "Gaussian": ("gaussian", "{}", 0.2, 0.3),
    "variance": ("variance", "{}", 0.5, 0.1),
}
# By registered name: points, features, clusters.
DATASETS: Mapping[str, tuple[int, int, int]] = {
    "usps": (9298, 256, 10), "coil20": (1440, 1024, 20), "tdt2": (9394, 36771, 30), "colon": (62, 2000, 2),
    "isolet": (1560, 617, 26), "allaml": (72, 7129, 2), "nips": (1500, 12419, 3), "basehock": (1993, 4862, 2),
    "coil20_128x128": (1440, 16384, 20),
}  # fmt: skip
FORMS: Mapping[str, str] = {"raw": "{}", "unit rows": '{"rows":"unit"}'}


def atlas_rows(
    datasets: Sequence[str] = tuple(DATASETS)[:8],
    methods: Sequence[str] = tuple(METHODS),
    forms: Sequence[str] = ("raw",),
    repeats: int = 4,
    seed: int = 0,
    multiples: Sequence[float] = (0.5, 1, 2, 5, 10, 20, 50, 100),
) -> pd.DataFrame:
    """Return rows of some methods on some datasets, each r below d; repetition 0 is timed serially.

    The noise of a repetition is common to all methods, so that paired differences are precise.
    """
    parts = []
    for i, name in enumerate(datasets):
        n, d, k = DATASETS[name]
        grid = sorted({int(np.ceil(m * k)) for m in multiples if np.ceil(m * k) < d})
        for j, form in enumerate(forms):
            rng = np.random.default_rng([seed, i, j])
            common, own = 0.3 + 0.02 * rng.random(repeats), rng.normal(size=(len(METHODS), len(grid) + 1, repeats))
            for number, method in enumerate(METHODS):
                if method not in methods:
                    continue
                reducer, params, loss, share = METHODS[method]
                sizes = [d] if method == "none" else grid
                noise = dict(zip(sizes, own[number], strict=False))

                def objective(r: int, repeat: int, loss=loss, noise=noise, common=common, k=k) -> float:
                    return (
                        common[repeat] * (1 + loss * k / r * (1 + 0.1 * noise[r][repeat])) if loss else common[repeat]
                    )

                def accuracy(r: int, repeat: int, loss=loss, noise=noise, k=k) -> float:
                    return float(0.7 + 0.01 * repeat - 0.2 * loss * k / r * (1 + 0.1 * noise[r][repeat]))

                made = make_rows(
                    "atlas", name, reducer, sizes, repeats, objective=objective, accuracy=accuracy,
                    seconds=lambda r, repeat, share=share, n=n, d=d: n * d * 1e-6 * share * (1 + 0.01 * repeat),
                    params=params, options=FORMS[form], n=n, d=d, k=k, config_hash=f"{name}-{form}-{method}",
                    data_sha256=f"{name}-{form}", machine="m",
                )  # fmt: skip
                parts.append(made.assign(concurrency=np.where(made["repeat"] == 0, 1, 2)))
    return pd.concat(parts, ignore_index=True)


def rank(
    effects: pd.DataFrame, quantity: str, condition: Condition, form: str = ALL_FORMS, third_parties: Sequence[str] = ()
) -> Ranking | None:
    """Return the ranking of the methods in some effects."""
    lines, sources = ranking.chosen_lines(effects, condition), ranking.sources_of(effects)
    return ranking.rank(lines, quantity, condition, form, sources, third_parties)
