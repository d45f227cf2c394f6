"""Differences between a study's rows and its configuration: rows of a changed protocol do not reproduce the paper."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kmdr import reducers
from kmdr.analysis.rows import named_settings
from kmdr.base.text import canonical, override
from kmdr.config.protocols import choice
from kmdr.config.task import KMEANS_COLUMNS, settings_of
from kmdr.datasets import registry
from kmdr.harness.experiment import Experiment
from kmdr.results.json_files import planned_studies
from kmdr.results.typed_rows import to_text

# Settings that do not belong to the protocol: where a custom file is, and how much of it may be read.
_PLACES = ("name", "path", "labels", "copy", "max_gb", "title")
_SEED = 0  # the default of ``conf/config.yaml``


@dataclass(frozen=True)
class Departure:
    """Differences between the rows of a study and its configuration.

    Attributes
    ----------
    settings : tuple of str
        Changed settings, such as ``n_init = 1, not 5``; empty if only repetitions are missing.
    overrides : tuple of str
        Command-line settings that reproduce such rows.
    repetitions : int
        Number of repetitions of the configuration and r with the smallest share of them.
    asked : int
        Number of repetitions that this configuration asks for.
    absent : tuple of str
        Available datasets and methods without any row.
    """

    settings: tuple[str, ...]
    overrides: tuple[str, ...]
    repetitions: int
    asked: int
    absent: tuple[str, ...] = ()

    def describe(self, study: str) -> str:
        """Return the differences in words, after the study's name."""
        count = f"{self.repetitions} of {self.asked} repetitions"
        without = f"without {', '.join(self.absent)}" if self.absent else ""
        if not self.settings:
            return f"{study}: {', '.join(filter(None, (count, without)))}"
        return f"{study}: {'; '.join(filter(None, (*self.settings, without)))} ({count})"


def seed_settings(rows: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the setting of each study that gives its rows their root seed, unless the seed is the default or mixed."""
    by_study = rows[["study", "seed"]].drop_duplicates().astype({"study": str}).groupby("study")["seed"]
    seeds = {str(study): {int(seed) for seed in values} for study, values in by_study}
    return {study: (f"seed={seed}",) for study, (seed, *others) in seeds.items() if seed != _SEED and not others}


def departures(
    rows: pd.DataFrame,
    experiments: Callable[[str], Sequence[Experiment]],
    plan: Mapping[str, Any],
    missing: Collection[str] = (),
) -> dict[str, Departure]:
    """Return the studies whose rows differ in a setting or lack repetitions, datasets or methods.

    Parameters
    ----------
    rows : DataFrame
        From `kmdr.results.table.rows_of`, its text perhaps as categories; rows without recorded settings are ignored.
    experiments : callable
        Returns the experiments of a study, by its name.
    plan : mapping
        ``plan.json``; repetitions, methods and r that the plan omits do not count as differences.
    missing : collection of str
        Unavailable datasets, which the report lists elsewhere.
    """
    known = rows[rows["engine"] != ""]
    planned = planned_studies(plan)
    otherwise = {} if planned else plan  # a study that a plan of others lacks was run by itself, in full
    compared = {
        str(study): _departure(of_study, experiments(str(study)), planned.get(str(study), otherwise), missing)
        for study, of_study in known.groupby("study", sort=True)
    }
    return {name: departure for name, departure in compared.items() if departure is not None}


def _departure(
    rows: pd.DataFrame, asked: Sequence[Experiment], planned: Mapping[str, Any], missing: Collection[str]
) -> Departure | None:
    if not asked:
        return None
    settings: dict[str, None] = {}
    overrides: dict[str, None] = {}
    counts: list[tuple[int, int]] = []
    config = ["config_hash", "options"]
    firsts = to_text(rows.drop_duplicates(config)).to_dict("records")
    # Both are in the order in which the configurations first occur.
    for row, (_, trials) in zip(firsts, rows[[*config, "r", "repeat"]].groupby(config, sort=False), strict=True):
        experiment = _nearest(row, asked)
        # Of each r: a later run with fewer r adds repetitions at these alone.
        counts.append((int(trials.groupby("r")["repeat"].nunique().min()), experiment.repeats))
        for text, command in _differences(row, experiment, asked):
            settings[text], overrides[command] = None, None
        wanted = _sizes(row, experiment)
        if not planned.get("thinned_grid") and (present := sorted(map(int, trials["r"].unique()))) != wanted:
            settings[f"r = {_listed(present)}, not {_listed(wanted)}"] = None
            overrides[f"r_grid={override(present)}"] = None
        if row["seed"] != experiment.seed:
            overrides[f"seed={row['seed']}"] = None
    repetitions, expected = min(counts, key=lambda pair: pair[0] / pair[1])
    short = repetitions < min(expected, planned.get("repeats_planned", expected))
    absent = {} if planned.get("left_out") else _absent(rows, asked, missing)
    for group, names in absent.items():
        if names:
            kept = [e for e in asked if _name(group, e, asked) not in {*names, *missing}]
            overrides[f"study.{group}s=[{','.join(dict.fromkeys(_item(group, e) for e in kept))}]"] = None
    without = tuple(name for names in absent.values() for name in names)
    if not settings and not short and not without:
        return None
    if repetitions != expected:
        overrides[f"repeats={repetitions}"] = None
    return Departure(tuple(settings), tuple(overrides), repetitions, expected, without)


def _item(group: str, experiment: Experiment) -> str:
    """Return a dataset or reducer as listed in a study: its name, with the settings that are not the default."""
    name = getattr(experiment, group)
    settings = experiment.stated_options(name) if group == "dataset" else _arguments(experiment)
    return override({name: settings} if settings else name)


def _arguments(experiment: Experiment) -> Mapping[str, Any]:
    """Return the parameters of a reducer that are not the default, or the arguments of a class."""
    if "." in experiment.reducer:
        return experiment.params
    default = choice("reducer", experiment.reducer)
    return {key: value for key, value in experiment.params.items() if value != default.get(key)}


def _has_variants(reducer: str, asked: Sequence[Experiment]) -> bool:
    """Return True if a study asks for a reducer with several parameters."""
    return len({canonical(e.params) for e in asked if e.reducer == reducer}) > 1


def _name(group: str, experiment: Experiment, asked: Sequence[Experiment]) -> str:
    """Return the name of a dataset or reducer, with the parameters of a reducer that the study has with others, too."""
    name = str(getattr(experiment, group))
    if group == "dataset" or not _has_variants(name, asked):
        return name
    arguments = ", ".join(f"{key} = {value}" for key, value in _arguments(experiment).items())
    return f"{name} ({arguments or 'default'})"


def _absent(rows: pd.DataFrame, asked: Sequence[Experiment], missing: Collection[str]) -> dict[str, list[str]]:
    """Return the requested datasets and reducers without any row."""
    kinds = rows[["dataset", "options", "reducer", "params"]].drop_duplicates().to_dict("records")
    methods = set()
    for row in kinds:
        method = str(row["reducer"])
        methods.add(_name("reducer", _nearest(row, asked), asked) if _has_variants(method, asked) else method)
    known = {"dataset": {_dataset(row) for row in kinds} | {*missing}, "reducer": methods}
    return {
        group: list(dict.fromkeys(name for e in asked if (name := _name(group, e, asked)) not in names))
        for group, names in known.items()
    }


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) if len(sizes) <= 4 else f"{sizes[0]}, {sizes[1]}, …, {sizes[-1]}"


def _dataset(row: Mapping[Any, Any]) -> str:
    """Return the registered name of a row's dataset."""
    return str(named_settings(row).get("name", row["dataset"]))


def _params(experiment: Experiment) -> str:
    return canonical(reducers.recorded(experiment.reducer, experiment.params))


def _nearest(row: Mapping[Any, Any], asked: Sequence[Experiment]) -> Experiment:
    """Return the requested experiment that is most similar to a row."""
    dataset, options = _dataset(row), json.loads(row["options"] or "{}")

    def likeness(experiment: Experiment) -> tuple[bool, ...]:
        return (
            experiment.reducer == row["reducer"],
            experiment.dataset == dataset,
            _params(experiment) == row["params"],
            experiment.stated_options(str(row["dataset"])) == options,
        )

    return max(asked, key=likeness)


def _sizes(row: Mapping[Any, Any], experiment: Experiment) -> list[int]:
    """Return the requested r of a configuration."""
    if experiment.reducer != row["reducer"]:
        return list(experiment.r_grid)
    fixed = reducers.make_allowed(experiment.reducer, experiment.params).fixed_r(int(row["d"]), int(row["k"]))
    return list(experiment.r_grid) if fixed is None else [fixed]


def _differences(
    row: Mapping[Any, Any], experiment: Experiment, asked: Sequence[Experiment]
) -> Iterator[tuple[str, str]]:
    """Yield each setting of a row that differs from the request, in words and as an override."""
    dataset = _dataset(row)
    names = list(dict.fromkeys(e.dataset for e in asked))
    if dataset not in names:
        yield f"dataset {dataset}, not {', '.join(names)}", f"study.datasets={override([dataset])}"
    if experiment.reducer != row["reducer"]:
        methods = list(dict.fromkeys(e.reducer for e in asked))
        yield f"reducer {row['reducer']}, not {', '.join(methods)}", f"study.reducers={override([row['reducer']])}"
    elif _params(experiment) != row["params"]:
        yield (
            f"{row['reducer']} with {row['params']}, not {_params(experiment)}",
            f"study.reducers=[{{{row['reducer']}:{override(named_settings({'options': row['params']}))}}}]",
        )
    same_dataset = dataset == experiment.dataset
    classes = registry.entry(experiment.dataset).k if experiment.dataset in registry.names() else 0
    expected = named_settings(
        {
            "k": experiment.k or (classes if same_dataset else 0) or row["k"],
            **settings_of({"kmeans": experiment.protocol.identity, "matching": experiment.matching}),
            "options": canonical(experiment.stated_options(dataset) if same_dataset and row["options"] != "" else {}),
        }
    )
    actual, options = named_settings(row), named_settings({"options": row["options"]})
    for key in dict.fromkeys([*actual, *expected]):
        if key in _PLACES or actual.get(key) == expected.get(key):
            continue
        words = f"{key} = {actual.get(key, 'default')}, not {expected.get(key, 'default')}"
        if key in ("k", "matching"):
            yield words, f"{key}={override(actual[key])}"
        elif key in KMEANS_COLUMNS or key not in options | experiment.options:
            yield words, f"kmeans.{key}={override(actual.get(key, 'null'))}"
        else:
            yield words, f"study.datasets=[{{{dataset}:{override(options)}}}]"
