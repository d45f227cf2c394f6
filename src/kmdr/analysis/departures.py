"""What of a study's rows is not as the study is configured: a changed protocol is no rerun of the paper's."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kmdr import reducers
from kmdr.analysis.rows import named_settings
from kmdr.base.text import canonical, override
from kmdr.config.protocols import choice
from kmdr.config.task import settings_of
from kmdr.datasets import registry
from kmdr.harness.experiment import Experiment

# Where a file of the user's own lies, and how much of it may be read, is no protocol.
_PLACES = ("name", "path", "labels", "copy", "max_gb", "title")
# Settings of k-means that have columns of their own.
OF_KMEANS = ("engine", "start", "n_init", "max_iter")


@dataclass(frozen=True)
class Departure:
    """How the rows of a study differ from what it asks for.

    Attributes
    ----------
    settings : tuple of str
        Each that is another, as ``n_init = 1, not 5``; empty where only repetitions are missing.
    overrides : tuple of str
        What to say on the command line to have such rows again.
    repetitions : int
        The least that any configuration has.
    asked : int
        How many that configuration is to have.
    absent : tuple of str
        Datasets and methods without any row, though they could be had.
    """

    settings: tuple[str, ...]
    overrides: tuple[str, ...]
    repetitions: int
    asked: int
    absent: tuple[str, ...] = ()

    def describe(self, study: str) -> str:
        """Return it in words, for the study's name."""
        count = f"{self.repetitions} of {self.asked} repetitions"
        without = f"without {', '.join(self.absent)}" if self.absent else ""
        if not self.settings:
            return f"{study}: {', '.join(filter(None, (count, without)))}"
        return f"{study}: {'; '.join(filter(None, (*self.settings, without)))} ({count})"


def departures(
    rows: pd.DataFrame,
    experiments: Callable[[str], Sequence[Experiment]],
    plan: Mapping[str, Any],
    missing: Collection[str] = (),
) -> dict[str, Departure]:
    """Compare the rows of each study with what it asks for.

    Parameters
    ----------
    rows : DataFrame
        As `kmdr.results.reader.rows_of` gives them; rows whose settings are not known are left out.
    experiments : callable
        Gives what a study asks for.
    plan : mapping
        ``plan.json``: fewer repetitions, methods or sizes of r that were planned are no departure.
    missing : collection of str
        Datasets that could not be had, which is told elsewhere.

    Returns
    -------
    dict
        By study, of those that differ in a setting, have fewer repetitions or lack a dataset or a method.
    """
    known = rows[rows["engine"] != ""]
    of_studies = {str(name): of_study for name, of_study in known.groupby("study", sort=True)}
    compared = {
        name: _departure(of_study, experiments(name), name, plan, missing) for name, of_study in of_studies.items()
    }
    return {name: departure for name, departure in compared.items() if departure is not None}


def _departure(
    rows: pd.DataFrame, asked: Sequence[Experiment], study: str, plan: Mapping[str, Any], missing: Collection[str]
) -> Departure | None:
    if not asked:
        return None
    settings: dict[str, None] = {}
    overrides: dict[str, None] = {}
    counts: list[tuple[int, int]] = []
    for _, trials in rows.groupby(["config_hash", "options"], sort=False):
        row = trials.iloc[0].to_dict()
        experiment = _nearest(row, asked)
        counts.append((int(trials["repeat"].nunique()), experiment.repeats))
        for told, command in _differences(row, experiment, asked):
            settings[told], overrides[command] = None, None
        wanted = _sizes(row, experiment)
        if not plan.get("thinned_grid") and (there := sorted(map(int, trials["r"].unique()))) != wanted:
            settings[f"r = {_listed(there)}, not {_listed(wanted)}"] = None
            overrides[f"r_grid={override(there)}"] = None
        if row["seed"] != experiment.seed:
            overrides[f"seed={row['seed']}"] = None
    repetitions, of = min(counts, key=lambda pair: pair[0] / pair[1])
    planned = plan.get("studies", {}).get(study, {})
    short = repetitions < min(of, planned.get("repeats_planned", of))
    absent = {} if planned.get("left_out") else _absent(rows, asked, missing)
    for group, names in absent.items():
        if names:
            kept = [e for e in asked if getattr(e, group) not in {*names, *missing}]
            overrides[f"study.{group}s=[{','.join(dict.fromkeys(_item(group, e) for e in kept))}]"] = None
    without = tuple(name for names in absent.values() for name in names)
    if not settings and not short and not without:
        return None
    if repetitions != of:
        overrides[f"repeats={repetitions}"] = None
    return Departure(tuple(settings), tuple(overrides), repetitions, of, without)


def _item(group: str, experiment: Experiment) -> str:
    """Return a dataset or reducer as a study's list has it: a name, or one with settings that are not the usual."""
    name = getattr(experiment, group)
    if group == "dataset":
        told = experiment.told_options(name)
    else:
        usual = choice("reducer", name)
        told = {key: value for key, value in experiment.params.items() if value != usual.get(key)}
    return override({name: told} if told else name)


def _absent(rows: pd.DataFrame, asked: Sequence[Experiment], missing: Collection[str]) -> dict[str, list[str]]:
    """Return datasets and reducers that were asked for and have no row."""
    kinds = rows[["dataset", "options", "reducer"]].drop_duplicates().to_dict("records")
    there = {"dataset": {_dataset(row) for row in kinds} | {*missing}, "reducer": {row["reducer"] for row in kinds}}
    return {
        group: list(dict.fromkeys(name for e in asked if (name := getattr(e, group)) not in names))
        for group, names in there.items()
    }


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) if len(sizes) <= 4 else f"{sizes[0]}, {sizes[1]}, …, {sizes[-1]}"


def _dataset(row: Mapping[Any, Any]) -> str:
    """Return what the registry calls the dataset of a row."""
    return str(named_settings(row).get("name", row["dataset"]))


def _params(experiment: Experiment) -> str:
    return canonical(reducers.recorded(experiment.reducer, experiment.params))


def _nearest(row: Mapping[Any, Any], asked: Sequence[Experiment]) -> Experiment:
    """Return what was asked for that a row is most like."""
    own, options = _dataset(row), json.loads(row["options"] or "{}")

    def likeness(experiment: Experiment) -> tuple[bool, ...]:
        told = experiment.told_options(str(row["dataset"]))
        return (
            experiment.reducer == row["reducer"],
            experiment.dataset == own,
            _params(experiment) == row["params"],
            told == options,
        )

    return max(asked, key=likeness)


def _sizes(row: Mapping[Any, Any], experiment: Experiment) -> list[int]:
    """Return the r of a configuration that was asked for."""
    if experiment.reducer != row["reducer"]:
        return list(experiment.r_grid)
    fixed = reducers.make_allowed(experiment.reducer, experiment.params).fixed_r(int(row["d"]), int(row["k"]))
    return list(experiment.r_grid) if fixed is None else [fixed]


def _differences(
    row: Mapping[Any, Any], experiment: Experiment, asked: Sequence[Experiment]
) -> Iterator[tuple[str, str]]:
    """Yield each setting of a row that is another than asked for, in words and as an override."""
    own = _dataset(row)
    names = list(dict.fromkeys(e.dataset for e in asked))
    if own not in names:
        yield f"dataset {own}, not {', '.join(names)}", f"study.datasets={override([own])}"
    if experiment.reducer != row["reducer"]:
        methods = list(dict.fromkeys(e.reducer for e in asked))
        yield f"reducer {row['reducer']}, not {', '.join(methods)}", f"study.reducers={override([row['reducer']])}"
    elif _params(experiment) != row["params"]:
        yield (
            f"{row['reducer']} with {row['params']}, not {_params(experiment)}",
            f"study.reducers=[{{{row['reducer']}:{override(named_settings({'options': row['params']}))}}}]",
        )
    compared = own == experiment.dataset and row["options"] != ""
    classes = registry.entry(experiment.dataset).k if experiment.dataset in registry.names() else 0
    expected = named_settings(
        {
            "k": experiment.k or (classes if own == experiment.dataset else 0) or row["k"],
            **settings_of({"kmeans": experiment.protocol.identity, "matching": experiment.matching}),
            "options": canonical(experiment.told_options(own) if compared else {}),
        }
    )
    there, options = named_settings(row), named_settings({"options": row["options"]})
    for key in dict.fromkeys([*there, *expected]):
        if key in _PLACES or there.get(key) == expected.get(key):
            continue
        words = f"{key} = {there.get(key, 'as usual')}, not {expected.get(key, 'as usual')}"
        if key in ("k", "matching"):
            yield words, f"{key}={override(there[key])}"
        elif key in OF_KMEANS or key not in options | experiment.options:
            yield words, f"kmeans.{key}={override(there.get(key, 'null'))}"
        else:
            yield words, f"study.datasets=[{{{own}:{override(options)}}}]"
