"""Generated sparse matrices with shape, density and classes of text collections that are not always available."""

from collections.abc import Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory
from kmdr.base.seeding import generator

_BLOCK = 16384
_OWN_TERMS = 400
_MIX = (0.45, 0.15)
_SPREAD = 0.5
_NUMBERS_A_TERM = 5


def text_like(
    n: int, seed: int = 0, *, d: int, k: int, terms: float, skew: float
) -> tuple[scipy.sparse.csr_array, NDArray[np.int64]]:
    """Return documents as mixtures of topics over terms that follow Zipf's law, weighted by tf-idf, of unit length.

    A document of class c draws 45 % of its words from the topic of c, 15 % from another document's topic, and the rest
    from the general distribution of all terms. Each topic has 400 terms. The lengths of documents are log-normal. The
    values are (1 + log count) log(n / documents with the term), scaled to rows of length 1.

    Parameters
    ----------
    n : int
        Number of documents. Each class has at least one.
    seed : int
        Seed of the data.
    d, k : int
        Number of terms and classes.
    terms : float
        Mean number of distinct terms per document, to about 10 %.
    skew : float
        The c-th class has a share of documents proportional to c^-skew; 0 makes all classes equally likely.
    """
    if seed < 0:
        raise UserError(f"option seed of a generated text is {seed}; it must be at least 0")
    if n < k:
        raise UserError(f"option n of a generated text is {n}; it must be at least k, which is {k}")
    # In memory at once: for each term its column, count, weight and squared weight; for each document two numbers.
    check_memory(f"{n} documents of {terms:g} terms", n * (2 + _NUMBERS_A_TERM * terms))
    name = f"text_like {d} {k} {terms} {skew}"
    classes = generator(seed, name, "classes")
    shares = np.arange(1.0, k + 1) ** -skew
    labels = np.r_[np.arange(k), classes.choice(k, n - k, p=shares / shares.sum())].astype(np.int64)
    classes.shuffle(labels)
    indptr = np.zeros(n + 1, np.int64)
    indices, counts = [], []
    for start, rows, columns, many in _documents(labels, d, k, terms, seed, name):
        indptr[start + 1 : start + 1 + len(rows)] = rows
        indices.append(columns)
        counts.append(many)
    np.cumsum(indptr, out=indptr)
    columns = np.concatenate(indices)
    indices.clear()
    data = 1 + np.log(np.concatenate(counts))
    counts.clear()
    # n + 1, so that a term in all documents has a positive weight.
    weight = np.log((n + 1) / np.maximum(np.bincount(columns, minlength=d), 1))
    data *= weight[columns]
    lengths = np.sqrt(np.add.reduceat(data**2, indptr[:-1]))
    data /= np.repeat(lengths, np.diff(indptr))
    if len(data) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return scipy.sparse.csr_array((data, columns, indptr), shape=(n, d)), labels


def _documents(
    labels: NDArray[np.int64], d: int, k: int, terms: float, seed: int, name: str
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]]:
    """Yield the first document, the distinct terms per document, the terms and their counts of successive blocks."""
    topics = generator(seed, name, "topics")
    order = topics.permutation(d)
    at_large = _cumulated(1 / (np.arange(d) + 3.0))
    topic_terms = np.stack([topics.choice(d, min(_OWN_TERMS, d), replace=False) for _ in range(k)])
    within = _cumulated(1 / (np.arange(topic_terms.shape[1]) + 2.0))
    # Words repeat, so a document has fewer terms than words. The power law was fitted at 65 and 160 of 50,000 terms.
    words = (terms / 1.507) ** (1 / 0.8665)
    for start in range(0, len(labels), _BLOCK):
        rng = generator(seed, name, "documents", start)
        block = labels[start : start + _BLOCK]
        length = np.maximum(2, words * np.exp(_SPREAD * rng.standard_normal(len(block)) - _SPREAD**2 / 2))
        length = length.astype(np.int64)
        document = np.repeat(np.arange(len(block)), length)
        source = rng.random(len(document))
        other = labels[rng.integers(len(labels), size=len(block))]
        topic = np.where(source < _MIX[0], block[document], other[document])
        place = rng.random(len(document))
        term = order[np.searchsorted(at_large, place, "right")]
        topical = source < sum(_MIX)
        term[topical] = topic_terms[topic[topical], np.searchsorted(within, place[topical], "right")]
        key, many = np.unique(document * d + term, return_counts=True)
        rows = np.bincount(key // d, minlength=len(block))
        yield start, rows, (key % d).astype(np.int32), many


def _cumulated(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper ends of intervals of [0, 1) with lengths proportional to the weights; the last is 1."""
    ends = np.cumsum(weights)
    ends /= ends[-1]
    ends[-1] = 1.0
    return ends
