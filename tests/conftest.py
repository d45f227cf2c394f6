"""Random numbers and statistical checks that several test files share.

Every test that takes ``rng`` gets a generator of its own, seeded by the test's name and ``KMDR_TEST_SEED`` (default 0).
Statistical checks are sized so that at a fresh seed each raises a false alarm with probability below 1e-6.
"""

import math
import os
import signal
import zlib

import numpy as np
import pytest
from hypothesis import settings
from scipy.stats import chi2
from threadpoolctl import threadpool_limits

from commands import WarmWorkers
from edits import changed_module
from kmdr import reducers
from kmdr.base import process
from kmdr.harness.compiled import compile_kernels, is_compiled
from kmdr.harness.engines import local as workers

# Time is never asserted: an example may take long on a machine that does other things as well.
settings.register_profile("kmdr", deadline=None)
settings.load_profile("kmdr")


def pytest_configure(config):
    """Compile all kernels once before several processes begin, each of which would do it by itself.

    Each of these gets one thread of BLAS and OpenMP, unless a test asks for more: together they use all cores.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; commands would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        threadpool_limits(limits=1)
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput") and not is_compiled():
        parts = [(name, "{}", sparse) for name in ["none", *reducers.names()] for sparse in (False, True)]
        compile_kernels(parts, os.cpu_count(), print)


@pytest.fixture
def rng(request):
    seed = int(os.environ.get("KMDR_TEST_SEED", "0"))
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.split("::")[-1].encode())])


@pytest.fixture(scope="session")
def assert_frequencies():
    """Pearson's chi-square test of counts against probabilities, at the nominal level 1e-8.

    Cells of an expectation below 500 are pooled, from the rarest up, until the pool reaches 500. At 1e-8 a cell is
    z = 5.7 deviations out, where the skewness of a Poisson count of mean 500 changes its normal tail by a factor
    exp(z³/(6√500)) ≈ 4, so the true level is below 1e-7.
    """

    def check(counts, p):
        counts, p = np.ravel(counts), np.ravel(p)
        assert counts.shape == p.shape
        assert abs(p.sum() - 1) < 1e-9
        order = np.argsort(p)
        counts, expected = counts[order], counts.sum() * p[order]
        while len(counts) > 1 and expected[0] < 500:
            counts = np.r_[counts[0] + counts[1], counts[2:]]
            expected = np.r_[expected[0] + expected[1], expected[2:]]
        assert len(counts) > 1, "too few draws"
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert statistic <= chi2.isf(1e-8, len(counts) - 1)

    return check


@pytest.fixture(scope="session")
def bernstein():
    """Half-width h with P(|mean of N − expectation| ≥ h) ≤ level, by Bernstein's inequality.

    Independent terms of variance ≤ v with |term − expectation| ≤ b:
    P ≤ 2 exp(−N h²/(2v + 2bh/3)); solved for h.
    """

    def half_width(N, v, b, level=1e-7):
        x = math.log(2 / level) / N
        return b * x / 3 + np.sqrt((b * x / 3) ** 2 + 2 * v * x)

    return half_width


@pytest.fixture(autouse=True)
def warm_workers(monkeypatch):
    """Spare each command that a test runs in its process the seconds in which a new interpreter imports the same."""
    monkeypatch.setattr(workers, "get_context", lambda _: WarmWorkers)


@pytest.fixture(autouse=True)
def unforeseen_errors(request, monkeypatch):
    """Fail a test whose commands stop by an error that nobody foresaw, whatever it makes of their exit status."""
    errors, write_log = [], process._write_log

    def collected(error, out):
        errors.append(error)
        return write_log(error, out)

    monkeypatch.setattr(process, "_write_log", collected)
    yield
    if errors and not request.node.get_closest_marker("unforeseen_error"):
        raise AssertionError("a command stopped by an unforeseen error") from errors[0]


@pytest.fixture
def edited():
    """Return a context in which a module has another text: a function from the text to the other."""
    return changed_module
