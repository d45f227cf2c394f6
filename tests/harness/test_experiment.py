"""Experiments: settings that rows cannot record are refused before any work, and trials read all others unchanged."""

import json
import math
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kmdr.base.errors import UserError
from kmdr.config.compose import compose_configs
from kmdr.config.task import settings_of
from kmdr.datasets import from_arrays
from kmdr.harness.experiment import Experiment
from kmdr.results.row_check import value_fault

FAST_ICA = "sklearn.decomposition.FastICA"  # its argument fun_args is a mapping
MINI_BATCH = "sklearn.cluster.MiniBatchKMeans"
KEYS = st.text(max_size=3) | st.integers(-3, 3) | st.booleans()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)


@st.composite
def arguments(draw):
    """Draw a value as a YAML file or a command line may give it: of any type, long or deeply nested."""
    values = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
    value = draw(values)
    for _ in range(draw(st.sampled_from([0, 0, 0, 14, 15, 20]))):
        value = [value]
    return draw(st.sampled_from([value, value, value, "x" * 20_000]))


@cache
def composed():
    (config,) = compose_configs("dataset=digits", "reducer=none", "repeats=1")
    return config


def tasks_of(**changes):
    """Return the tasks of an experiment whose groups of settings have some changes."""
    config = deepcopy(composed())
    config |= {name: config[name] | change for name, change in changes.items()}
    data = from_arrays(np.arange(24.0).reshape(8, 3) % 5, [0, 1] * 4, name="digits")
    return Experiment.from_config(config | {"r_grid": [2]}).tasks(data, None)


def is_readable(task):
    columns = settings_of(task.config) | {"params": task.params, "options": task.options}
    return not any(value_fault(name, str(text)) for name, text in columns.items())


@given(arguments())
@example(math.nan)
@example(-math.inf)
@example({1: 2, "1": 3})
@example({1: 2})
@example(b"a")
@example("\ud800")
def test_arguments_of_a_class_are_refused_or_recorded_as_they_are(value):
    """A run computed all rows with ``reducer.args.alpha=nan``, and then omitted them as damaged."""
    reducer = {"name": "outside", "path": FAST_ICA, "args": {"fun_args": value}}
    engine = {"engine": MINI_BATCH, "args": {"init": value}}
    for changes in ({"reducer": reducer}, {"kmeans": engine}):
        try:
            (task,) = tasks_of(**changes)
        except UserError:
            continue
        assert is_readable(task)
        read = json.loads(task.params), task.protocol.arguments
        assert read == (({"fun_args": value}, {}) if "reducer" in changes else ({}, {"init": value}))


@pytest.mark.parametrize("value", [1, -0.5, 10**30, True, None, "ä\n", [], {"a": [{"b": None}]}])
def test_arguments_of_a_class_that_rows_can_record_are_accepted(value):
    (task,) = tasks_of(reducer={"name": "outside", "path": FAST_ICA, "args": {"fun_args": value}})
    assert json.loads(task.params) == {"fun_args": value}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_label_of_noise_that_is_not_finite_is_stated_as_text(number):
    """The rows of ``dataset.noise=nan``, which takes points without a label for noise, were omitted as damaged."""
    (task,) = tasks_of(dataset={"noise": number})
    assert is_readable(task)
    assert json.loads(task.options)["noise"] == str(number)
