"""Sparsified k-means: each point keeps few of its coordinates, and k-means uses only these."""

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn import get_config

from kmdr.base.errors import ArgumentError
from kmdr.clustering.kmeans import Clustering, Protocol
from kmdr.clustering.masked_kmeans import masked_lloyd, random_subsets
from kmdr.linalg import Dense, Matrix, padded, random_signs, rotated_entries
from kmdr.reducers.base import Reducer, check_limit, register


@register("sparsified")
class Sparsified(Reducer):
    """Precondition by H·D, keep r entries of each row (lst17 PD), of d', and scale them by √(d'/r).

    Pourkamali-Anaraki and Becker 2017. The kept entries are drawn for each row separately, uniformly without
    replacement. C is CSR, n×d' with r stored entries per row, and an entry that is not stored is unknown, not 0:
    k-means compares a point with a centre on the point's own entries, and a centre's coordinate is the mean over the
    points of its cluster that kept it. Law: E‖c_i‖² = ‖a_i‖².

    As a transformer the kept entries depend on a row's position in X. ``set_output(transform="pandas")`` gives a frame
    of sparse columns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> C = Sparsified(n_components=2, random_state=0).fit_transform(load_iris().data)
    >>> C.shape, C.nnz
    ((150, 4), 300)
    """

    own_kmeans = True

    def check(self, n: int, d: int, k: int, r: int) -> None:
        del n, k
        check_limit(r, padded(d), self.name, "rotated coordinates of this matrix")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del k
        return np.asarray(random_signs((1, A.shape[1]), rng)[0])

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> tuple[Dense, int, int]:
        """Return the signs, r, and the seed of the kept entries."""
        del A
        return state, r, int(rng.integers(2**63))

    def apply(self, A: Matrix, drawn: tuple[Dense, int, int]) -> sp.csr_array:
        """Return the kept entries of each row, scaled."""
        signs, r, seed = drawn
        n, width = A.shape[0], padded(A.shape[1])
        kept = random_subsets(n, width, r, np.random.default_rng(seed))
        values = rotated_entries(A, signs, kept)
        values *= np.sqrt(width / r)
        indptr = np.arange(0, n * r + 1, r, dtype=np.int32 if n * r < 2**31 else np.int64)
        return sp.csr_array((values.ravel(), kept.ravel(), indptr), shape=(n, width))

    def cluster(self, C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
        del k, rng
        return masked_lloyd(C, starts, protocol.max_iter)

    def transform(self, X: Any) -> Any:
        """Return the kept entries of the rows of X, n×d' in CSR, or the frame that ``set_output`` asks for.

        Raises
        ------
        ArgumentError
            If the requested container has no sparse columns.
        """
        C = self._image(X)
        container = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if container == "default":
            return C
        if container != "pandas":
            raise ArgumentError(f"transform output {container!r} has no sparse columns; use 'pandas' or 'default'")
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame.sparse.from_spmatrix(C, index=index, columns=self.get_feature_names_out())  # type: ignore[attr-defined]

    @property
    def _n_features_out(self) -> int:
        return padded(int(self.n_features_in_))
