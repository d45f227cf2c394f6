"""Threads for kmdr's own kernels: every row once, one thread of BLAS each, and results that do not depend on them."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from kmdr.base.threads import pinned, process_row_blocks
from kmdr.clustering.kmeans import lloyd


@given(n=st.integers(0, 50), threads=st.integers(1, 4))
def test_each_row_is_processed_once(n, threads):
    seen = []
    with pinned(threads):
        process_row_blocks(n, lambda rows: seen.extend(range(n)[rows]))
    assert sorted(seen) == list(range(n))


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_work_has_one_thread_of_blas(n):
    counts, workers = [], set()

    def work(rows):
        counts.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        workers.add(threading.get_ident())
        barrier.wait(60)

    parts = min(n, 2)
    barrier = threading.Barrier(parts)  # no thread may do the work of two
    with pinned(2):
        process_row_blocks(n, work)
    assert set(counts) == {1}
    assert len(workers) == parts


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6), threads=st.integers(2, 3))
def test_starts_give_the_same_partition_on_any_number_of_threads(seed, count, threads):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((40, 3))
    starts = np.array([rng.choice(40, 4, replace=False) for _ in range(count)])
    alone = lloyd(C, starts, 30)
    with pinned(threads):
        together = lloyd(C, starts, 30)
    assert np.array_equal(alone.labels, together.labels)
    assert alone.inertia == together.inertia
    assert alone.n_iter == together.n_iter
