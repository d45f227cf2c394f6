"""The handwritten digits of scikit-learn, which need no download."""

import numpy as np
from numpy.typing import NDArray


def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 1797 images of 8 x 8 grey levels from 0 to 16, each row by row, by `sklearn.datasets.load_digits`.

    References
    ----------
    Kaynak, Methods of combining multiple classifiers and their applications to handwritten digit recognition, MSc
    thesis, Bogazici University, 1995; test part of the UCI data set 80.
    """
    from sklearn.datasets import load_digits

    A, labels = load_digits(return_X_y=True)
    return np.asarray(A, dtype=np.float64), np.asarray(labels, dtype=np.int64)
