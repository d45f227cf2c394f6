"""Every random number of the project comes from here, addressed by name.

A generator is a function of the root seed and of stable names (dataset, reducer, r, repetition, purpose), never of a
position in a loop, a worker or a clock. A row is therefore the same whatever else was asked for, in whatever order.
"""

import hashlib
import json

import numpy as np


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator of one purpose.

    Parameters
    ----------
    seed : int
        Root seed, at least 0.
    *names : str or int
        What the numbers are for, e.g. ``("usps", "random_sign", 20, 3, "reduce")``. Names are told apart by type too:
        ``1`` and ``"1"`` address different generators.

    Returns
    -------
    numpy.random.Generator
        PCG64, seeded by a ``SeedSequence`` whose spawn key is the SHA-256 of the names.
    """
    digest = hashlib.sha256(json.dumps(names, ensure_ascii=True).encode()).digest()
    key = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
