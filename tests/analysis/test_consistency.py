"""Table, figures, explorer, "Your runs" and claims against means computed by pandas alone, on made-up folders.

A folder mixes what a real one may mix: seeds, settings, data of one name, k, parameters, machines, failed trials, and
trials timed alone or in parallel, run twice, or written by a version without the column ``options``.
"""

import json
from functools import partial
from hashlib import sha256
from itertools import product

import numpy as np
import pandas as pd
import pytest

import kmdr
from kmdr.analysis.comparison import compared, trials_of, with_ratio
from kmdr.analysis.departures import departures
from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import differing_settings, quantity_rows, settings_text, statistic, summarise
from kmdr.base.errors import UserError
from kmdr.claims.catalogue import claims, items
from kmdr.claims.effects import mean_by_repetition, paired
from kmdr.claims.verdicts import verdict_on
from kmdr.cli.arguments import COMMANDS, FORMATS
from kmdr.figures import panels
from kmdr.figures.comparison import table_of
from kmdr.figures.panels import figures_for_folder, named_by_setting
from kmdr.harness.experiment import experiments
from kmdr.reporting.answers import experiments_of
from kmdr.reporting.build import _unread
from kmdr.reporting.parts import Context, make_item
from kmdr.reporting.study_runs import study_runs
from kmdr.results.schema import COLUMNS
from kmdr.results.table import rows_of
from kmdr.results.typed_rows import to_categories
from rows import hashed, make_results, make_rows, write_rows
from states import sketched

SEEDS = range(20)
CELL = ["study", "dataset", "reducer", "params", "r"]
SETTING = ["k", "n_init", "kmeans", "true_options", "data_sha256"]
TITLES = {"objective_ratio": "F/F_best", "accuracy": "P", "total_seconds": "seconds"}
OPTIONS = ("{}", '{"columns":["a","b"]}', '{"columns":["a","c"]}', '{"columns":["a, c"]}', '{"scale":{"a":2}}')


def key(*parts, digits=12):
    return sha256(repr(parts).encode()).hexdigest()[:digits]


def make_folder(folder, seed):
    """Write a folder and return its rows, with the options that its older rows do not name as ``true_options``."""
    rng = np.random.default_rng(seed)
    plain = seed % 4 == 0  # one setting each, so that nothing is refused
    rows = []
    for study, dataset in product(("custom", "other"), ("alpha", "beta")):
        some = 1 if plain else int(rng.integers(1, 4))
        for _ in range(some):
            k, n_init = (2, 5) if plain else (int(rng.choice([2, 2, 3])), int(rng.choice([1, 5])))
            options = OPTIONS[0 if plain else rng.integers(len(OPTIONS))]
            data = key(dataset, options, plain or rng.integers(2), digits=64)
            kmeans = "{}" if plain or rng.random() < 0.7 else '{"args":"{\\"tol\\":[1,2]}"}'
            for root in rng.choice([0, 1, 7], rng.integers(1, 4), replace=False):
                for reducer, params in (
                    ("none", "{}"), ("svd", '{"rank":"k"}'), ("random_sign", "{}"), ("random_sign", '{"sparse":[1,2]}')
                ):  # fmt: skip
                    if rng.random() < 0.2:
                        continue
                    grid = (9,) if reducer == "none" else (3, 5)
                    config = key(dataset, data, reducer, params, k, n_init, kmeans, int(root))
                    for r, repeat in product(grid, range(rng.integers(1, 5))):
                        trial = np.random.default_rng(int(key(config, r, repeat), 16))  # whatever the study
                        F = round(trial.uniform(0.1, 0.9), 12)
                        quality = {"objective": F, "accuracy": round(trial.random(), 12), "nmi": 0.5, "ari": 0.1}
                        ok = rng.random() < 0.9
                        for _ in range(1 + (rng.random() < 0.1)):  # one in ten was run twice
                            alone = rng.random() < 0.5
                            seconds = round(rng.uniform(0.1, 2), 9) if alone or rng.random() < 0.7 else ""
                            parts = {"prepare_seconds": 0, "reduce_seconds": 0, "cluster_seconds": seconds}
                            times = {**parts, "total_seconds": seconds}
                            rows.append(
                                {
                                    "study": study, "dataset": dataset, "reducer": reducer, "params": params, "n": 20,
                                    "d": 9, "nnz": 180, "k": k, "r": r, "repeat": repeat, "seed": int(root),
                                    "engine": "kmdr", "start": "sample", "n_init": n_init, "max_iter": 30,
                                    "kmeans": kmeans, "matching": "best", "true_options": options,
                                    "options": "" if rng.random() < 0.1 else options,
                                    **(quality if ok else {}), **(times if ok else {}),
                                    "status": "ok" if ok else "failed", "concurrency": 1 if alone else 2, "threads": 1,
                                    "config_hash": config, "data_sha256": data, "code_version": "1.0",
                                    "code_hash": "a" * 12, "env_hash": "e" * 12,
                                    "machine": str(rng.choice(["", "b" * 12, "c" * 12], p=[0.1, 0.7, 0.2])),
                                }
                            )  # fmt: skip
    table = pd.DataFrame(rows)
    table["config_hash"] = hashed(table)["config_hash"]
    # Every data have a row that names their options.
    first = ~table.duplicated(["dataset", "data_sha256"])
    table.loc[first, "options"] = table.loc[first, "true_options"]
    best = table.groupby(["dataset", "k", "data_sha256"])["objective"].transform("min")
    table["objective_ratio"] = table["objective"] / best
    table = table.sample(frac=1, random_state=seed, ignore_index=True)
    table.reindex(columns=COLUMNS).to_csv(folder / "rows.csv", index=False)
    last = table[table["study"] == "custom"]["config_hash"].unique()[-3:]
    (folder / "asked.json").write_text(json.dumps({"custom": sorted(last)} if seed % 2 else {}))
    return table.assign(total_seconds=pd.to_numeric(table["total_seconds"]))


def counted(table, quantity, unit, serial=False):
    """The trials that count for a quantity; a unit is within what the time rule holds, or only serial times count."""
    table = table[(table["status"] == "ok") & table[quantity].notna()]
    if quantity == "total_seconds":
        table = table[table["concurrency"] == 1] if serial else table
        parts = []
        for _, part in table.groupby(unit):
            alone = part[part["concurrency"] == 1]
            fair = alone if len(alone) else part
            numbers = fair["machine"].value_counts()
            parts.append(fair[fair["machine"] == min(numbers[numbers == numbers.max()].index)])
        table = pd.concat(parts) if parts else table
    return table.groupby([*CELL, *SETTING, "seed", "repeat"], as_index=False)[quantity].mean()


def means(table, quantity, unit=("study", "dataset", *SETTING), serial=False):
    """The number of trials and the mean, or median of times, of each cell: a list for each method, one per setting."""
    cells = {}
    for cell, values in counted(table, quantity, [*unit], serial).groupby([*CELL, *SETTING])[quantity]:
        cells.setdefault(cell[: len(CELL)], []).append((len(values), values.agg(statistic(quantity))))
    return {cell: sorted(several) for cell, several in cells.items()}


def gathered(lines):
    cells = {}
    for *cell, n, mean in lines:
        if n and not np.isnan(mean):
            cells.setdefault(tuple(cell), []).append((int(n), mean))
    return {cell: sorted(several) for cell, several in cells.items()}


def assert_same(ours, expected, rel=1e-9):
    assert ours.keys() == expected.keys()
    for cell, several in expected.items():
        assert len(ours[cell]) == len(several), cell
        assert np.array(ours[cell]) == pytest.approx(np.array(several), rel=rel), cell


def has_several(table):
    """Whether a mean over some method's rows on a dataset would pool settings."""
    distinct = table[["dataset", "reducer", "params", *SETTING]].drop_duplicates()
    return distinct.duplicated(["dataset", "reducer", "params"]).any()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_consumer_takes_its_means_over_the_same_rows(tmp_path, seed):
    table = make_folder(tmp_path, seed)
    rows = rows_of(tmp_path)
    frame, of_line = compared(with_ratio(rows)), trials_of(with_ratio(rows))
    serial = {quantity: means(table, quantity, serial=True) for quantity in (*TITLES, "objective")}
    for quantity, title in TITLES.items():
        # A line's n is of its trials, so that of a quantity is asked of the trials themselves.
        expected = serial[quantity]
        assert_same(
            gathered(
                (
                    line.study,
                    line.dataset,
                    line.reducer,
                    line.params,
                    line.r,
                    len(values),
                    getattr(np, statistic(quantity))(values),
                )
                for line, trials in of_line.items()
                for _, values in [trials.samples["ratio" if quantity == "objective_ratio" else quantity]]
                if len(values)
            ),
            expected,
        )
        shown = gathered((*line, 1, mean) for *line, mean in frame[[*CELL, title]].itertuples(index=False))
        assert_same(shown, {c: sorted((1, m) for _, m in several) for c, several in expected.items()})
    ok = table[table["status"] == "ok"].drop_duplicates([*CELL, *SETTING, "seed", "repeat"])
    assert sorted(n for n in frame["n"] if n) == sorted(ok.groupby([*CELL, *SETTING]).size())

    results = Results.from_folder(tmp_path)
    experiments = experiments_of(results.every_row)
    pooled = table.assign(study="")  # the explorer gathers the studies that ran the same settings
    for quantity in ("objective", "accuracy", "objective_ratio", "total_seconds"):
        ours = gathered(
            ("", experiment.dataset, *method, r, len(values), getattr(np, statistic(quantity))(values))
            for experiment in experiments
            for method, by_r in experiment.trials.items()
            for r, trials in by_r.items()
            for values in [trials.samples[quantity].values]
            if len(values)
        )
        assert_same(ours, means(pooled, quantity, serial=True))

    renamed, names = named_by_setting(rows)
    for study, of_study in renamed.groupby("study"):
        for quantity in ("objective", "accuracy", "total_seconds"):
            lines = summarise(of_study, quantity)
            old = [names[name][0] if name in names else name for name in lines["dataset"]]
            cells = lines.assign(study=study, dataset=old)[[*CELL, "count", statistic(quantity)]]
            assert_same(
                gathered(cells.itertuples(index=False)),
                means(table[table["study"] == study], quantity),
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mean_over_several_settings_is_refused(tmp_path, seed):
    table = make_folder(tmp_path, seed)
    for study, rows in rows_of(tmp_path).groupby("study"):
        of_study = table[table["study"] == study]
        several = has_several(of_study) or (of_study.groupby("dataset")["k"].nunique() > 1).any()
        for quantity in ("objective", "total_seconds"):
            if several:
                with pytest.raises(UserError, match="expected one"):
                    summarise(rows, quantity)
                continue
            lines = summarise(rows, quantity)[[*CELL[1:], "count", statistic(quantity)]].itertuples(index=False)
            assert_same(gathered((study, *line) for line in lines), means(of_study, quantity, ("study", "dataset")))


@pytest.mark.parametrize("seed", SEEDS)
def test_claims_read_one_value_per_trial_or_refuse(tmp_path, seed):
    table = make_folder(tmp_path, seed)
    results, asked = Results.from_folder(tmp_path), json.loads((tmp_path / "asked.json").read_text())
    for study in ("custom", "other"):
        rows = table[(table["study"] == study) & (table["status"] == "ok")]
        rows = rows[rows["config_hash"].isin(asked.get(study, rows["config_hash"]))]
        if rows.empty:
            continue
        if has_several(rows):
            for read in (results.rows, lambda name: results.wide(name, "objective")):
                with pytest.raises(NotRunError, match=r"settings \(.* = .*; .*\); expected one"):
                    read(study)
            assert len(results.rows(study, mixed=True)) == len(rows)
            continue
        assert len(results.rows(study)) == len(rows)
        for quantity in ("objective", "total_seconds"):
            values = counted(rows, quantity, ["study", "dataset"])
            timed = rows[(rows["concurrency"] == 1) & rows[quantity].notna()]["dataset"].unique()
            if quantity == "total_seconds":
                values = values[values["dataset"].isin(timed)]
            if values.empty:
                continue
            wide = results.wide(study, quantity)
            assert wide.index.names == ["dataset", "r", "seed", "repeat"]
            sizes = values.groupby(["dataset", "reducer"])["r"].nunique()
            cells = values.groupby(["dataset", "reducer", "r", "seed", "repeat"])[quantity].mean()
            there = 0
            for (dataset, reducer, r, *repetition), value in cells.items():
                fixed = sizes[dataset, reducer] == 1
                at = wide.index.to_frame()
                at = (at["dataset"] == dataset) & (at[["seed", "repeat"]] == repetition).all(axis=1)
                of_trial = wide.loc[at if fixed else at & (wide.index.get_level_values("r") == r), reducer]
                if not fixed or len(of_trial):  # without another method there may be no line of this repetition
                    assert len(of_trial)
                    assert of_trial.to_numpy() == pytest.approx(value)
                    there += len(of_trial)
            assert wide.notna().sum().sum() == there


@pytest.mark.parametrize("seed", SEEDS)
def test_text_as_categories_changes_nothing(tmp_path, seed):
    make_folder(tmp_path, seed)
    text = rows_of(tmp_path)

    def outcomes(rows):
        results = Results(rows)
        for studies, quantity in product((*results.studies, tuple(sorted(results.studies))), ("objective", "accuracy")):
            for read in (results.rows, partial(results.wide, quantity=quantity)):
                try:
                    yield read(studies)
                except NotRunError as reason:
                    yield str(reason)
        yield results.rows("custom", columns=["objective"], mixed=True)
        yield repr(departures(rows, experiments, {}, ()))
        yield repr(experiments_of(rows))

    columns = ["dataset", "reducer", "params", "objective"]
    for plain, compact in zip(outcomes(text), outcomes(to_categories(text)), strict=True):
        if isinstance(plain, str):
            assert compact == plain
        else:
            pd.testing.assert_frame_equal(compact, plain, check_exact=True)
    assert list(Results(text).rows("custom", columns=["objective"], mixed=True)) == columns


@pytest.mark.parametrize("seed", [0, 1, 3, 6])
def test_figures_and_own_runs_draw_the_same_means(tmp_path, monkeypatch, seed):
    table = make_folder(tmp_path, seed)
    rows = rows_of(tmp_path)
    _, names = named_by_setting(rows)
    drawn = {}
    monkeypatch.setattr(panels, "PER_FIGURE", 20)
    with sketched():
        written = figures_for_folder(tmp_path, ())
        runs = study_runs(rows, {"custom": "custom", "other": "other"}, ())
    for path in written:
        if path.suffix == ".csv":
            drawn[path.stem] = pd.read_csv(path)
    assert set(drawn) == {"custom", "other"}
    for study, numbers in drawn.items():
        for quantity in ("total_seconds", "objective", "accuracy"):
            lines = numbers[numbers["quantity"] == quantity]
            old = [names[name][0] if name in names else name for name in lines["dataset"]]
            cells = lines.assign(study=study, dataset=old)[[*CELL, "count", statistic(quantity)]].itertuples(
                index=False
            )
            assert_same(gathered(cells), means(table[table["study"] == study], quantity, serial=True))
    assert [run.study for run in runs] == ["custom", "other"]
    for run in runs:
        frame, of_study = run.table.frame, table[table["study"] == run.study]
        for quantity, title in TITLES.items():
            ours = sorted(mean for mean in frame.get(title, []) if not np.isnan(mean))
            expected = sorted(m for several in means(of_study, quantity, serial=True).values() for _, m in several)
            assert ours == pytest.approx(expected)


def test_a_plot_of_two_data_of_one_name_is_refused():
    A = np.random.default_rng(0).normal(size=(30, 6))
    rows = [
        kmdr.compare(A + i * (np.arange(30) < 9)[:, None], ["none"], k=2, r_grid=[2], seed=i).rows for i in range(2)
    ]
    assert kmdr.plot(rows[0]).axes
    with pytest.raises(UserError, match=r"none on dataset 'A' has rows of 2 settings \(data = \w{8}; data = \w{8}\)"):
        kmdr.plot(pd.concat(rows))


def test_a_time_taken_twice_is_one_repetition(tmp_path):
    table = make_folder(tmp_path, 0)
    once = table[(table["status"] == "ok") & (table["concurrency"] == 1)].head(1)
    twice = pd.concat([once, once.assign(total_seconds=once["total_seconds"] + 1)])
    values = quantity_rows(twice, "total_seconds")["value"]
    assert values.tolist() == pytest.approx([once["total_seconds"].item() + 0.5])


def test_options_that_are_lists_or_objects_are_shown_and_compared(tmp_path, capsys):
    sides = []
    for name, options in (("A", OPTIONS), ("B", OPTIONS[:2])):
        (tmp_path / name).mkdir()
        parts = [
            make_rows(
                "custom", "d", method, r, 3, accuracy=lambda r, i: 0.5 + 0.1 * i + 0.001 * r, options=text, n_init=5,
                data_sha256=str(number) * 64,
            )
            for number, text in enumerate(options)
            for method, r in (("none", 9), ("svd", 2))
        ]  # fmt: skip
        rows = pd.concat(parts, ignore_index=True)
        sides.append(write_rows(tmp_path / name, rows, data_sha256=rows["data_sha256"]))
    for kind in FORMATS:
        COMMANDS["table"]([str(sides[0]), f"FORMAT={kind}"])
        COMMANDS["compare"]([*map(str, sides), f"FORMAT={kind}"])
    assert "a, b" in capsys.readouterr().out
    shown = table_of(compared(with_ratio(rows_of(sides[0])))).frame
    assert len(shown) == 2 * len(OPTIONS) == len(shown.drop_duplicates(["method", *shown.columns[2:-4]]))
    told = differing_settings(rows_of(sides[0]).drop_duplicates("options"))
    assert len({settings_text(settings) for settings in told}) == len(OPTIONS)


def test_several_settings_become_gaps_of_figures_and_claims(tmp_path):
    """The same figure and claim are made of the rows of one setting, of two seeds."""

    def made(n_init):
        rows = [
            make_rows(
                "bzmd15_fig1", data, method, grid, 3, seed=seed, n_init=n_init if seed else 5,
                config_hash=key(method, seed), params="{}",
                objective=lambda r, i: 0.5 + 0.01 * i + 0.1 / r, accuracy=lambda r, i: 0.5 + 0.01 * i,
            )
            for data in ("synth", "usps")
            for method, grid in (("none", [256]), ("random_sign", (5, 20)))
            for seed in (0, 1)
        ]  # fmt: skip
        results = make_results(rows)
        claim = next(claim for claim in claims() if claim.id == "bzmd15-1")
        item = next(item for item in items() if item.id == "bzmd15_fig1")
        return make_item(item, Context(results, {}, {}, ())), verdict_on(claim, results, {})

    figure, verdict = made(5)
    assert figure.files
    assert set(figure.numbers["count"]) == {6}
    assert {component.n for component in verdict.components} == {6}
    figure, verdict = made(20)
    refused = "on dataset 'synth' has rows of 2 settings (n_init = 20; n_init = 5); expected one"
    assert (figure.state, verdict.outcome, figure.files) == ("not run", "not run", {})
    assert refused in " ".join(figure.gaps)
    assert refused in verdict.sentence


def test_a_trial_that_failed_under_one_seed_leaves_all_other_pairs():
    rows = [make_rows("s", "d", method, (2, 5), 4, seed=seed, objective=lambda r, i, m=m, seed=seed: m + i + 10 * seed)
            for m, method in enumerate(("none", "svd")) for seed in (0, 1)]  # fmt: skip
    rows[-1].loc[rows[-1]["repeat"] == 1, "status"] = "failed"
    wide = make_results(rows).wide("s", "objective")
    both = paired(wide.droplevel("dataset"), "svd", "none")
    assert both.tolist() == [1.0] * 14
    assert mean_by_repetition(both).tolist() == [1.0] * 7
    assert mean_by_repetition(wide["none"]).tolist() == [0, 1, 2, 3, 10, 11, 12, 13]


def test_a_study_whose_last_command_has_no_rows_yet_is_still_reported(tmp_path):
    write_rows(tmp_path, make_rows("custom", "d", "none", 9, 2), make_rows("bzmd15_fig1", "usps", "none", 9, 2))
    (tmp_path / "asked.json").write_text(json.dumps({"custom": ["f" * 12]}))
    results = Results.from_folder(tmp_path)
    assert set(results.all_rows["study"]) == {"bzmd15_fig1"}
    assert _unread(results, [])[0] == {"custom": "Your runs"}
