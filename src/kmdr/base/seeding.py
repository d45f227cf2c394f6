"""Random number generators, addressed by name; all random numbers of the project come from them.

A generator is a function of the root seed and of stable names (dataset, reducer, r, repetition, purpose), never of a
position in a loop, a worker or a clock. A row is therefore the same whatever other rows were requested, in any order.
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
        The purpose of the numbers, e.g. ``("usps", "random_sign", 20, 3, "reduce")``. Types matter: ``1`` and ``"1"``
        address different generators.

    Returns
    -------
    numpy.random.Generator
        PCG64, seeded by a ``SeedSequence`` whose spawn key is the SHA-256 of the names.
    """
    digest = hashlib.sha256(json.dumps(names, ensure_ascii=True).encode()).digest()
    key = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
