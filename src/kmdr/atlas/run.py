"""Run the atlas: rounds of more and more repetitions, until the intervals are narrow or the time is over."""

import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import pandas as pd

from kmdr import datasets, reducers
from kmdr.analysis.results import Results
from kmdr.atlas import tables
from kmdr.atlas.design import ALL_FEATURES, STUDY, TIMES, Design, Form, Method, Rule, design, key_of, sizes
from kmdr.atlas.effects import KEY, effects, names_of, with_engines
from kmdr.atlas.traits import traits
from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.outside import import_errors
from kmdr.base.text import counted, tell
from kmdr.config.protocols import Config, choice
from kmdr.datasets import UnavailableError, registry
from kmdr.harness.jobs import Job, run_jobs
from kmdr.harness.plan import Limits, duration_text
from kmdr.results.checksums import write_table
from kmdr.results.folder import has_file
from kmdr.results.reader import fact_texts
from kmdr.results.table import has_rows

_SETTINGS = {
    "matching": "best", "seed": 0, "refresh": False, "verify": "once", "keep_labels": False, "k": None,
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One method on one dataset in one form, at the r that it can provide.

    ``left_out`` has each r that the method cannot provide, with the reason.
    """

    dataset: str
    form: str
    method: str
    r_grid: tuple[int, ...]
    left_out: tuple[tuple[int, str], ...]


def cells(plan: Design, available: Sequence[str], *, thin: bool = False) -> list[Cell]:
    """Return the runs of the atlas on some datasets, k-means on all features first; thinned, a part of them."""
    chosen_cells = []
    for dataset in available:
        entry = registry.entry(dataset)
        part = thin or plan.large.includes(entry)
        for number, (name, form) in enumerate(plan.forms.items()):
            if not form.suits(entry.domain) or (thin and number):
                continue
            multiples = form.multiples or (plan.large.multiples if part else plan.multiples)
            chosen_cells += [
                _cell(dataset, name, method_name, method, sizes(entry.k, entry.d, multiples))
                for method_name, method in plan.methods.items()
                if method.some or (form.methods == "all" and not part)
            ]
    return chosen_cells


def _cell(dataset: str, form: str, name: str, method: Method, r_of: Mapping[float, int]) -> Cell:
    entry, left_out, grid = registry.entry(dataset), [], []
    reducer = None if method.reducer == "outside" else reducers.make_allowed(*reducers.named(method.config))
    fixed = reducer.fixed_r(entry.d, entry.k) if reducer else None
    for multiple, r in r_of.items() if fixed is None else [(1, fixed)]:
        try:
            if reducer:
                reducer.check(entry.n, entry.d, entry.k, r)
            elif r > min(entry.n, entry.d):
                raise UserError(f"r = {r} is more than the {min(entry.n, entry.d)} components of this matrix")
        except UserError as error:
            left_out.append((r, str(error)))
        else:
            if multiple > method.most and fixed is None:
                left_out.append((r, f"takes too long above {method.most:g} k"))
            else:
                grid.append(r)
    return Cell(dataset, form, name, tuple(grid), tuple(left_out))


def _config(plan: Design, cell: Cell, study: str, r_grid: Sequence[int], repeats: int, timed: int, out: Path) -> Config:
    form: Form = plan.forms[cell.form]
    method: Method = plan.methods[cell.method]
    entry = registry.entry(cell.dataset)
    return {
        **_SETTINGS,
        "dataset": {**choice("dataset", cell.dataset), **form.options},
        "reducer": method.config,
        "kmeans": {**plan.kmeans_of(entry.n, entry.d, entry.k), **method.kmeans},
        "runner": choice("runner", "loky"),
        "study": {"name": study},
        "r_grid": list(r_grid),
        "repeats": repeats,
        "timing_repeats": timed,
        "out": str(out),
    }


def available(names: Sequence[str]) -> list[str]:
    """Return the datasets that are available, and say which are not."""
    absent = {}
    for name in names:
        try:
            datasets.prepare(name)
        except UnavailableError as error:
            absent[name] = error
    if len(absent) == 1:
        tell(f"kmdr: warning: {next(iter(absent.values()))}")
    elif absent:
        tell(
            f"kmdr: note: without {counted(len(absent), 'dataset')} that are not available: {', '.join(absent)}; "
            "see 'kmdr data where'"
        )
    return [name for name in names if name not in absent]


def write_facts(plan: Design, todo: Sequence[Cell], out: Path) -> None:
    """Write the traits of each matrix, and the r that methods cannot provide with the reasons.

    Lines of earlier runs on other datasets or with other methods are kept.
    """
    traits_of = []
    for dataset, form in dict.fromkeys((cell.dataset, cell.form) for cell in todo):
        data = datasets.load(dataset, dict(plan.forms[form].options))
        domain = registry.entry(dataset).domain
        traits_of.append({"dataset": dataset, "domain": domain, "form": form, **traits(data.A, data.k)})
    left_out = [
        {"dataset": cell.dataset, "form": cell.form, "method": cell.method, "r": r, "reason": reason}
        for cell in todo
        for r, reason in cell.left_out
    ]
    # A table without lines needs its columns, or it cannot be read.
    omitted = pd.DataFrame(left_out, columns=["dataset", "form", "method", "r", "reason"])
    for name, table, key in (
        ("traits", pd.DataFrame(traits_of), ["dataset", "form"]),
        ("left_out", omitted, ["dataset", "form", "method"]),
    ):
        replaced = {tuple(getattr(cell, column) for column in key) for cell in todo}
        earlier = _earlier_lines(out, f"facts/{name}.csv", [*table])
        kept = earlier[pd.Series([tuple(line) not in replaced for line in earlier[key].to_numpy()], dtype=bool)]
        write_table(out, f"facts/{name}.csv", tables.csv_bytes(kept) + tables.csv_bytes(table).partition(b"\n")[2])


def _earlier_lines(out: Path, name: str, columns: list[str]) -> pd.DataFrame:
    """Return the lines of a fact as text; none if it is absent, damaged or has other columns."""
    with suppress(DamagedError):
        if has_file(out, name) and [*(fact := fact_texts(out, out / name))] == columns:
            return fact
    return pd.DataFrame(columns=columns, dtype=object)


def _rounds(rule: Rule) -> Iterator[int]:
    repeats = rule.least
    while repeats < rule.most:
        yield repeats
        repeats = min(2 * repeats, rule.most)
    yield rule.most


def with_method(plan: Design, name: str) -> Design:
    """Return a design with one method, next to k-means on all features.

    The name is that of a method of the atlas or of a reducer, or the import path of a class. Raise `UserError` if no
    reducer has this name, or if it is the name of k-means on all features.
    """
    if name == ALL_FEATURES:
        raise UserError(f"METHOD = {name} is k-means on all features, which is run next to any method; name another")
    method = plan.methods.get(name) or (Method("outside", {"path": name}) if "." in name else Method(name))
    key = key_of(method)
    label = names_of(pd.DataFrame([key], columns=["reducer", "params"]))[key]
    return replace(plan, methods={ALL_FEATURES: plan.methods[ALL_FEATURES], label: method})


def command_of(rows: pd.DataFrame) -> str:
    """Return the commands that run the methods of some rows of an atlas again.

    They name no method if the rows have all that every atlas runs, or one with parameters that no command sets.
    """
    plan = design()
    runs = with_engines(rows)
    names: list[str] = []
    for (reducer, params), name in sorted(names_of(runs).items(), key=itemgetter(1)):
        if name in plan.methods:
            names += [name] * (name != ALL_FEATURES)
        elif _is_default(reducer, params):
            names.append(reducer)
        else:
            return "kmdr atlas"
    if not names or {name for name, method in plan.methods.items() if method.some} - {ALL_FEATURES} <= {*names}:
        return "kmdr atlas"
    return " && ".join(shlex.join(["kmdr", "atlas", "--method", name]) for name in names)


def _is_default(reducer: str, params: str) -> bool:
    """Return whether ``--method reducer`` has these parameters; classes that rows name are not imported."""
    if "," in reducer or "." in reducer:
        return "," not in reducer and params in ("", "{}")
    return reducer in reducers.names() and key_of(Method(reducer)) == (reducer, params)


def run_atlas(out: Path, budget: float | None, chosen: Sequence[str] = (), method: str | None = None) -> int:
    """Run the atlas into a folder; return the exit status.

    With a budget, a thinned atlas: the methods that all forms of the data have, at three r, on the data as they are.
    Rows that the folder has are not computed again, so that the whole atlas continues a thinned one. ``budget`` is in
    seconds of wall time, ``chosen`` are the datasets if not all of the collection, and ``method`` is the only one, see
    `with_method`.
    """
    plan, start = design() if method is None else with_method(design(), method), time.time()
    if method is not None:  # before data are prepared, which may take hours
        for some in plan.methods.values():
            with import_errors(method):
                reducers.make(*reducers.named(some.config))
    thin = budget is not None
    names = available([name for name in plan.datasets if not chosen or name in chosen])
    if not names:
        raise UserError("no dataset of the atlas is available; 'kmdr data where' says where their files go")
    todo = cells(plan, names, thin=thin)
    until = math.inf if budget is None else start + budget
    status = 0
    asked: dict[Cell, Sequence[int]] = {cell: cell.r_grid for cell in todo if cell.r_grid}

    def run(study: str, grids: Mapping[Cell, Sequence[int]], repeats: int, timed: int = 0) -> int:
        configs = [_config(plan, cell, study, grid, repeats, timed, out) for cell, grid in grids.items()]
        left = None if math.isinf(until) else max(until - time.time(), 0.0)
        return run_jobs([Job.from_configs(configs)], Limits(budget=left), whole=False)

    timed = {cell: grid for cell in todo if (grid := _timed_grid(plan, cell))}
    for repeats in [plan.repeats.least] if thin else _rounds(plan.repeats):
        count = sum(len(grid) for grid in asked.values())
        tell(
            f"kmdr: note: atlas: {counted(count, 'cell')} of {counted(len(names), 'dataset')}, "
            f"{counted(repeats, 'repetition')} each"
        )
        status = max(status, run(STUDY, asked, repeats))
        if not has_rows(out):
            raise UserError("the budget was over before any trial of the atlas; give more, e.g. --budget 10m")
        if repeats == plan.repeats.least:
            status = max(status, run(TIMES, timed, plan.timed.repeats, plan.timed.repeats))
            write_facts(plan, todo, out)
        asked = _wide(plan, asked, out)
        if not asked:
            break
    tables.write(out)
    tell(f"kmdr: note: atlas: {duration_text(time.time() - start)}")
    return status


def _timed_grid(plan: Design, cell: Cell) -> list[int]:
    entry = registry.entry(cell.dataset)
    if cell.form != next(iter(plan.forms)):
        return []
    r_of = set(sizes(entry.k, entry.d, plan.timed.multiples).values())
    return [r for r in cell.r_grid if r in r_of or len(cell.r_grid) == 1]


def _wide(plan: Design, asked: Mapping[Cell, Sequence[int]], out: Path) -> dict[Cell, Sequence[int]]:
    """Return the cells, with their r, whose intervals are wider than the rule says; all features go along."""
    names = {key_of(method): name for name, method in plan.methods.items()}  # whatever else was run into the folder
    chosen_cells = wide_lines(effects(Results.from_folder(out).rows(STUDY, mixed=True), names), plan.repeats.width)
    left = {
        cell: more
        for cell, grid in asked.items()
        if (more := [r for r in grid if (cell.dataset, cell.form, cell.method, r) in chosen_cells])
    }
    with_wide = {(cell.dataset, cell.form) for cell in left}
    full = [c for c in asked if c.method == ALL_FEATURES and (c.dataset, c.form) in with_wide]
    return {**{cell: cell.r_grid for cell in full}, **left}


def wide_lines(lines: pd.DataFrame, widths: Mapping[str, float]) -> set[tuple[str, str, str, int]]:
    """Return dataset, form, method and r of the effects with an interval wider than allowed, or with a single pair.

    ``lines`` are from `kmdr.atlas.effects.effects`; ``widths`` has the widest 95 % interval by quantity.
    """
    is_wide = lines["runs"] == 1
    for name, most in widths.items():
        is_wide |= lines[f"{name}_high"] - lines[f"{name}_low"] > most
    return set(lines.loc[is_wide & (lines["method"] != ALL_FEATURES), KEY].itertuples(index=False, name=None))
