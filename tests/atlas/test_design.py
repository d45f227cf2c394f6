"""The design of the atlas: r in multiples of k, methods and forms by name, and when repetitions end."""

import json
import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from atlas_rows import METHODS, atlas_rows
from kmdr import reducers
from kmdr.analysis.results import Results
from kmdr.atlas import run
from kmdr.atlas.design import ALL_FEATURES, Method, design, form_names, key_of, method_names, run_key, sizes
from kmdr.atlas.effects import QUANTITIES, effects, names_of
from kmdr.atlas.run import Cell, _config, _rounds, _wide, cells, run_atlas, wide_lines, with_method, write_facts
from kmdr.base.errors import UserError
from kmdr.base.paths import CHECKOUT
from kmdr.clustering.kmeans import Protocol
from kmdr.datasets import registry
from kmdr.reporting import build
from kmdr.reporting.contents import read_contents
from kmdr.reporting.parts import make_parts
from kmdr.results.check import fact_faults
from kmdr.results.checksums import write_table
from kmdr.results.reader import fact_texts
from rows import HASH, write_rows


def test_every_built_in_method_takes_part():
    known = {name for name in reducers.names() if reducers.module_of(name).startswith("kmdr.reducers.")} | {"none"}
    assert known <= {method.reducer for method in design().methods.values()}
    assert len(method_names()) == len(design().methods)  # no two are the same
    assert len(form_names()) == len(design().forms)


def test_sizes_are_ascending_distinct_and_below_d(rng):
    for _ in range(200):
        k, d = int(rng.integers(1, 80)), int(rng.integers(2, 3000))
        r_of = sizes(k, d, design().multiples)
        assert list(r_of.values()) == sorted(set(r_of.values()))
        assert all(multiple * k <= r < min(d, multiple * k + 1) for multiple, r in r_of.items())
        assert (k in r_of.values()) == (k < d)


def test_each_dataset_of_the_collection_has_all_features_in_each_form():
    plan = design()
    assert len(plan.datasets) >= 35
    found = cells(plan, plan.datasets)
    assert len({(c.dataset, c.form, c.method) for c in found}) == len(found)
    by_data = {}
    for cell in found:
        by_data.setdefault((cell.dataset, cell.form), set()).add(cell.method)
    assert {name for name, _ in by_data} == set(plan.datasets)
    for (name, form), methods in by_data.items():
        assert ALL_FEATURES in methods
        assert plan.forms[form].suits(registry.entry(name).domain)
    for name in plan.datasets:
        large = plan.large.includes(registry.entry(name))
        every = {method for method in plan.methods if plan.methods[method].some or not large}
        assert by_data[name, "raw"] == every
        assert ("tf-idf" in {f for n, f in by_data if n == name}) == (registry.entry(name).domain == "text")


def test_an_r_that_a_method_cannot_provide_is_left_out_with_the_reason():
    found = {cell.method: cell for cell in cells(design(), ["colon"]) if cell.form == "raw"}  # 62 points, k = 2
    assert found["svd"].r_grid == (1, 2, 4, 10, 20, 40)
    assert [r for r, _ in found["svd"].left_out] == [100, 200]
    assert "62" in found["svd"].left_out[0][1]
    assert found["random signs"].left_out == ()
    assert found["svd, rank k"].r_grid == (2,)
    assert found["none"].r_grid == (2000,)


def test_facts_of_several_runs_are_kept_and_can_be_read_without_lines(tmp_path, monkeypatch):
    """A fact without lines was reported as damaged, and a run on another dataset removed the traits of the first."""
    monkeypatch.setattr(run.datasets, "load", lambda name, options: SimpleNamespace(A=len(name), k=3))
    monkeypatch.setattr(run, "traits", lambda A, k: {"n": A, "share": A / k})
    plan, omits = design(), ((5, "too wide, by 1"),)

    def write(dataset, method, left_out=()):
        write_facts(plan, [Cell(dataset, "raw", method, (2,), left_out)], tmp_path)
        facts = {name: fact_texts(tmp_path, tmp_path / "facts" / f"{name}.csv") for name in ("traits", "left_out")}
        return facts["traits"]["dataset"].tolist(), facts["left_out"][["dataset", "method", "r"]].to_numpy().tolist()

    assert write("usps", "svd") == (["usps"], [])
    assert not [*fact_faults(tmp_path)]
    assert write("usps", "svd", omits) == (["usps"], [["usps", "svd", "5"]])
    assert write("coil20", "variance", omits)[1] == [["usps", "svd", "5"], ["coil20", "variance", "5"]]
    first = (tmp_path / "facts" / "traits.csv").read_text()
    assert write("coil20", "svd", omits)[0] == ["usps", "coil20"]
    assert (tmp_path / "facts" / "traits.csv").read_text() == first
    assert write("usps", "svd") == (["coil20", "usps"], [["coil20", "variance", "5"], ["coil20", "svd", "5"]])
    assert fact_texts(tmp_path, tmp_path / "facts" / "left_out.csv")["reason"].tolist() == ["too wide, by 1"] * 2
    write_table(tmp_path, "facts/left_out.csv", b"\n")
    assert write("usps", "svd", omits)[1] == [["usps", "svd", "5"]]


def test_each_method_accepts_the_k_means_of_its_cells_and_costly_data_have_fewer_starts(tmp_path):
    plan = design()
    starts = {}
    for cell in cells(plan, plan.datasets):
        config = _config(plan, cell, "atlas", cell.r_grid, 1, 0, tmp_path)
        protocol = Protocol(**config["kmeans"])
        if config["reducer"]["name"] != "outside":
            reducers.make_allowed(*reducers.named(config["reducer"])).check_protocol(protocol)
        entry = registry.entry(cell.dataset)
        if protocol.engine != "kmdr":  # a method of its own
            continue
        starts.setdefault(plan.costly.includes(entry.n, entry.d, entry.k), set()).add(protocol.n_init)
    assert starts == {True: {plan.costly.kmeans["n_init"]}, False: {plan.kmeans["n_init"]}}
    assert max(starts[True]) < min(starts[False])


def test_the_committed_rows_have_the_k_means_of_the_design():
    columns = ["dataset", "reducer", "n", "d", "k", "engine", "start", "n_init", "max_iter", "kmeans"]
    rows = pd.read_csv(CHECKOUT / "results" / "reference" / "atlas" / "rows.csv.xz", usecols=columns, dtype=str)
    plan = design()
    of_run = {
        run_key(method.config["name"], "", method.kmeans.get("engine", "kmdr"), {})[0]: method.kmeans
        for method in plan.methods.values()
    }
    for row in rows.drop_duplicates().itertuples():
        method = of_run.get(run_key(row.reducer, "", row.engine, {})[0], {})
        asked = {**plan.kmeans_of(int(row.n), int(row.d), int(row.k)), **method}
        stored = {"engine": row.engine, "start": row.start, "n_init": int(row.n_init), "max_iter": int(row.max_iter)}
        others = json.loads(row.kmeans)
        others |= {"args": json.loads(others["args"])} if "args" in others else {}
        usual = {"online": False, "until_found": 0}
        assert usual | asked == usual | stored | others, row


def test_a_thinned_atlas_is_part_of_the_whole():
    plan = design()
    whole = {(c.dataset, c.form, c.method): set(c.r_grid) for c in cells(plan, plan.datasets)}
    thin = cells(plan, plan.datasets, thin=True)
    assert {cell.dataset for cell in thin} == set(plan.datasets)
    for cell in thin:
        assert set(cell.r_grid) <= whole[cell.dataset, cell.form, cell.method]


def test_rounds_grow_to_the_most():
    rounds = list(_rounds(design().repeats))
    assert rounds == sorted(set(rounds))
    assert (rounds[0], rounds[-1]) == (design().repeats.least, design().repeats.most)


def test_lines_are_wide_by_any_quantity_or_with_a_single_pair(rng):
    widths = design().repeats.width
    assert set(widths) <= set(QUANTITIES)
    lines = effects(atlas_rows(forms=("raw", "unit rows"), repeats=3, multiples=(1, 5)))
    lines = lines.assign(runs=rng.integers(0, 4, len(lines)))
    for name in widths:
        lines[f"{name}_high"] = lines[f"{name}_low"] + rng.choice([0.5, 1.0, 1.5, np.nan], len(lines)) * widths[name]
    expected = {
        (line["dataset"], line["form"], line["method"], line["r"])
        for line in lines.to_dict("records")
        if line["method"] != ALL_FEATURES
        and (line["runs"] == 1 or any(line[f"{n}_high"] - line[f"{n}_low"] > most for n, most in widths.items()))
    }
    assert 0 < len(expected) < len(lines)
    assert wide_lines(lines.sample(frac=1, random_state=1), widths) == expected


@pytest.mark.parametrize(
    ("name", "label"),
    [("svd, rank k", "svd, rank k"), ("leverage_approx", "approx. leverage"), ("package.Theirs", "Theirs")],
)
def test_one_method_is_run_next_to_all_features_by_the_same_design(name, label):
    plan = with_method(design(), name)
    assert list(plan.methods) == [ALL_FEATURES, label]
    every = {(c.dataset, c.form, c.r_grid) for c in cells(design(), ["usps", "coil20"]) if c.method == ALL_FEATURES}
    assert {(c.dataset, c.form, c.r_grid) for c in cells(plan, ["usps", "coil20"]) if c.method == ALL_FEATURES} == every
    assert {c.method for c in cells(plan, ["usps", "coil20"])} == {ALL_FEATURES, label}


def test_a_method_that_nobody_has_is_refused():
    with pytest.raises(UserError, match="no reducer is named 'nobody'"):
        with_method(design(), "nobody")
    with pytest.raises(UserError, match="METHOD = none is k-means on all features"):
        with_method(design(), "none")


@pytest.mark.parametrize("name", ["nowhere.Theirs", "json.JSONDecoder", ".", "ends_the_process.Theirs"])
def test_a_method_that_cannot_be_run_is_refused_before_data_are_prepared(name, tmp_path, monkeypatch):
    (tmp_path / "ends_the_process.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("kmdr.atlas.run.available", lambda names: pytest.fail("data were prepared"))
    with pytest.raises(UserError):
        run_atlas(tmp_path, None, ["colon"], name)


def test_a_method_is_repeated_also_if_the_folder_has_another_of_its_name(tmp_path):
    """Its rows and those of the other method were taken for one method, or for none that was asked for."""
    rows = atlas_rows(datasets=("usps",), methods=("none", "variance"), repeats=1)
    parts = [rows.assign(reducer=rows["reducer"].replace({"variance": name})) for name in ("a.PCA", "b.PCA")]
    write_rows(tmp_path, pd.concat(parts).drop_duplicates(), machine=HASH)
    plan = with_method(design(), "b.PCA")
    asked = {cell: cell.r_grid for cell in cells(plan, ["usps"]) if cell.form == "raw"}
    assert {cell: tuple(grid) for cell, grid in _wide(plan, asked, tmp_path).items()} == asked


def test_a_budget_in_which_no_trial_fits_is_reported_as_too_short(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "run_jobs", lambda *_, **__: 0)
    with pytest.raises(UserError, match="budget was over before any trial of the atlas; give more"):
        run_atlas(tmp_path, 61.0, ["synth"], "svd")


@pytest.mark.parametrize("name", [*METHODS, "a.PCA", "laplacian_score"])
def test_the_page_names_the_command_of_the_methods_that_were_run(name, tmp_path):
    """It named 'kmdr atlas', which runs all methods, for rows of 'kmdr atlas --method …'."""
    of_class = "." in name or name not in METHODS
    rows = atlas_rows(datasets=("usps", "coil20"), methods=("none", "variance" if of_class else name))
    if of_class:
        params = {"a.PCA": "{}"}.get(name) or key_of(Method(name))[1]
        is_method = rows["reducer"] == "variance"
        rows = rows.assign(reducer=rows["reducer"].mask(is_method, name), params=rows["params"].mask(is_method, params))
    write_rows(tmp_path, rows, machine=HASH)
    atlas = read_contents(tmp_path).atlas
    words = shlex.split(atlas.command)
    assert words[:2] == ["kmdr", "atlas"]
    if name == "none":
        assert words[2:] == []
        return
    option, method = words[2:]
    assert option == "--method"
    key = set(names_of(rows)) - {("none", "{}")}
    assert {key_of(m) for m in with_method(design(), method).methods.values()} >= key
    section = make_parts([atlas], build._context(Results.from_folder(tmp_path), {}, []), lambda _: None)
    assert [part.command for _, part in section] == [atlas.command]


def test_the_page_names_the_whole_atlas_if_all_methods_were_run():
    methods = [key_of(method) for method in design().methods.values() if method.some]
    rows = pd.concat(
        atlas_rows(datasets=("usps",), methods=("none",)).assign(reducer=reducer, params=params, engine="kmdr")
        for reducer, params in methods
    )
    assert run.command_of(rows) == "kmdr atlas"
    several = run.command_of(rows[rows["reducer"].isin(["none", "svd", "variance"])])
    assert several.count("--method ") == several.count("&&") + 1 > 1
