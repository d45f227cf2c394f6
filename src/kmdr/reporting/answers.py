"""Which method is best: trials by experiment, and the methods that may be the best.

An experiment is one dataset in one setting (k, k-means, matching, options, data), whatever studies ran it. All its
methods start a repetition from the same centres, so they are compared in pairs; a trial that several studies share
counts once. Trials of different experiments are never pooled.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kmdr.analysis.comparison import Quantity, Sample, Trials, matched, trials_of
from kmdr.analysis.rows import SETTING_COLUMNS, code_notes, mixed_settings, ok_rows, settings_of
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import above, median_above
from kmdr.base.errors import UserError
from kmdr.figures.panels import methods_of, quantity_label
from kmdr.figures.style import Method
from kmdr.metrics import metrics
from kmdr.reducers import make_allowed

# By name, what is divided by its value for k-means on all features in the same repetition.
RELATIVE: Mapping[str, str] = {"relative_objective": "objective", "relative_seconds": "total_seconds"}
# In the order of the page's lists, which call them by these names.
QUANTITIES: Mapping[str, Quantity] = {
    "relative_objective": Quantity("F ÷ F of all features", ".4f", less=True),
    "accuracy": Quantity("accuracy P", ".3f"),
    "nmi": Quantity("NMI", ".3f"),
    "ari": Quantity("ARI", ".3f"),
    "total_seconds": Quantity("total time (s)", ".4g", less=True, time=True),
    "relative_seconds": Quantity("time ÷ time of all features", ".4g", less=True, time=True),
    "reduction_seconds": Quantity("reduction time (s)", ".4g", less=True, time=True),
    "cluster_seconds": Quantity("clustering time (s)", ".4g", less=True, time=True),
    "objective": Quantity("normalised objective F", ".4g", less=True),
    "objective_ratio": Quantity("F ÷ smallest F found", ".4f", less=True),
    "n_iter": Quantity("Lloyd iterations", ".4g", less=True),
}
_EXPERIMENT = ["dataset", *SETTING_COLUMNS]


@dataclass(frozen=True)
class Experiment:
    """The trials of all methods on one dataset in one setting.

    Attributes
    ----------
    setting : tuple
        Values of `SETTING_COLUMNS`.
    studies : dict of str to set of (reducer, params)
        The studies that ran it, each with its methods.
    trials : mapping of (reducer, params) to mapping of int to Trials
        By r.
    flat : set of (reducer, params)
        Methods that do not depend on r, and ran at a single one where others of their study ran at several.
    stand_in, notes : str
        The stand-in for the data, and sentences on rows of several code versions.
    """

    dataset: str
    setting: tuple[object, ...]
    studies: Mapping[str, set[Method]]
    trials: Mapping[Method, Mapping[int, Trials]]
    flat: set[Method]
    stand_in: str
    notes: str

    @property
    def grid(self) -> list[int]:
        """Return the r that were run by the methods that depend on r."""
        several = {r for method, by_r in self.trials.items() if method not in self.flat for r in by_r}
        return sorted(several or {r for by_r in self.trials.values() for r in by_r})

    def trials_at(self, r: int) -> dict[Method, Trials]:
        """Return the trials of each method at an r, or its only ones if it does not depend on r."""
        return {
            method: next(iter(by_r.values())) if method in self.flat else by_r[r]
            for method, by_r in self.trials.items()
            if method in self.flat or r in by_r
        }


def all_quantities() -> dict[str, Quantity]:
    """Return the built-in quantities and the custom metrics by name."""
    custom = {
        name: Quantity(quantity_label(name)[1], ".4g", metric.better == "lower")
        for name, metric in metrics().items()
        if name not in QUANTITIES
    }
    return {**QUANTITIES, **custom}


def experiments_of(rows: pd.DataFrame) -> list[Experiment]:
    """Return the experiments of a folder, sorted by dataset and setting.

    ``rows`` are all rows, including failed ones; text may be categories. A method that a study ran in several settings
    without recording them is omitted, as in figures.
    """
    rows = rows.assign(**settings_of(rows))
    names = ["study", *_EXPERIMENT, "reducer", "params"]
    if refused := mixed_settings(rows, names):
        rows = rows[~pd.MultiIndex.from_frame(rows[names].astype(str)).isin(list(refused))]
    measured = {name: quantity for name, quantity in all_quantities().items() if name not in RELATIVE}
    trials: dict[tuple[object, ...], dict[Method, dict[int, Trials]]] = {}
    # Without study and configuration, so that a trial which several studies share counts once.
    for line, of_line in trials_of(rows.assign(study="", config_hash=""), measured).items():
        if of_line.n:
            of_experiment = trials.setdefault((line.dataset, *line.setting), {})
            of_experiment.setdefault((line.reducer, line.params), {})[line.r] = of_line
    return [
        Experiment(
            str(key[0]),
            key[1:],
            {str(study): set(methods_of(of_study)) for study, of_study in ok_rows(group).groupby("study", sort=True)},
            _with_relative(trials[key]),
            _flat_methods(group),
            "; ".join(sorted({str(text) for text in group["stand_in"].dropna().unique() if text})),
            " ".join(f"{note}." for note in code_notes(group)),
        )
        for key, group in rows.groupby(_EXPERIMENT, sort=True)
        if key in trials
    ]


def contenders(trials: Mapping[Method, Trials], name: str, quantity: Quantity) -> set[Method]:
    """Return the methods that may be the best by a quantity: those that no other one is shown to beat.

    Each pair is compared by a one-sided paired test (of times, the sign test of their ratios) at 5 % divided by the
    number of other methods. A truly best method is in as many comparisons as there are others, so it is returned with a
    probability of at least 95 %.
    """
    samples = {method: of_method.samples[name] for method, of_method in trials.items()}
    samples = {method: sample for method, sample in samples.items() if len(sample.values)}
    if quantity.less is None:
        return set(samples)
    centre = np.median if quantity.time else np.mean
    ordered = sorted(samples, key=lambda method: float(centre(samples[method].values)), reverse=not quantity.less)
    level = LEVEL / max(1, len(samples) - 1)
    return {
        method
        for place, method in enumerate(ordered)
        if not any(_beats(samples[better], samples[method], quantity, level) for better in ordered[:place])
    }


def _beats(better: Sample, other: Sample, quantity: Quantity, level: float) -> bool:
    """Return True if the repetitions that two samples share show that the first is better."""
    x, y = (sample.values for sample in matched(better, other))
    if len(x) < 2:
        return False
    if quantity.time:
        return median_above("", y / x, 1.0).p_for <= level
    return above("", y - x if quantity.less else x - y, scale=float(max(abs(x).max(), abs(y).max()))).p_for <= level


def _with_relative(trials: Mapping[Method, Mapping[int, Trials]]) -> dict[Method, dict[int, Trials]]:
    """Return trials with F and time relative to k-means on all features, of the repetitions that were run with both."""
    whole = next((trial for (name, _), by_r in trials.items() if name == "none" for trial in by_r.values()), None)

    def relative(trial: Trials, name: str) -> Sample:
        old, new = matched((whole or trial).samples[name], trial.samples[name])
        is_kept = (old.values > 0) & (whole is not None)
        return Sample(new.repetitions[is_kept], new.values[is_kept] / old.values[is_kept])

    return {
        method: {
            r: trial._replace(
                samples={**trial.samples, **{name: relative(trial, base) for name, base in RELATIVE.items()}}
            )
            for r, trial in by_r.items()
        }
        for method, by_r in trials.items()
    }


def depends_on_r(name: str, params: str) -> bool:
    """Return True unless the reducer gives one number of dimensions whatever r is asked for."""
    try:
        return "." in name or make_allowed(name, json.loads(params or "{}")).fixed_r(1, 1) is None
    except (UserError, ValueError, TypeError, RecursionError):  # of a plugin that is not installed, or not kmdr's text
        return True


def restrict_to_shared_r(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values that means over r may be compared by: at the r of a dataset that all of its methods have.

    The columns are ``dataset method r varies``. Methods that do not vary with r are kept as they are.
    """
    curves = values[values["varies"]]
    at_r, on_dataset = curves.groupby(["dataset", "r"])["method"], curves.groupby("dataset")["method"]
    shared = at_r.transform("nunique") == on_dataset.transform("nunique")
    return values[shared.reindex(values.index, fill_value=True)]


def _flat_methods(rows: pd.DataFrame) -> set[Method]:
    """Return the methods that do not depend on r; failed trials count, for they show at which r it was planned."""
    counts = rows.groupby(["study", "reducer", "params"])["r"].nunique()
    is_curve = counts.groupby(["reducer", "params"]).max() > 1
    has_grid = counts.drop(index="none", level="reducer", errors="ignore").groupby("study").max() > 1
    return {
        (str(name), str(params))
        for study, name, params in counts.index
        if name == "none"
        or (has_grid[study] and not is_curve[name, params] and not depends_on_r(str(name), str(params)))
    }
