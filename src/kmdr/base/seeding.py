"""Random number generators, addressed by name; all random numbers of the project come from them.

A generator is a function of the root seed and of stable names (dataset, reducer, r, repetition, purpose), never of a
position in a loop, a worker or a clock. A row is therefore the same whatever other rows were requested, in any order.
"""

import hashlib
import json

import numpy as np


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator of one purpose: PCG64, seeded by the root seed with the SHA-256 of the names as spawn key.

    The names are e.g. ``("usps", "random_sign", 20, 3, "reduce")``. Types matter: ``1`` and ``"1"`` address different
    generators.
    """
    digest = hashlib.sha256(json.dumps(names, ensure_ascii=True).encode()).digest()
    key = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
