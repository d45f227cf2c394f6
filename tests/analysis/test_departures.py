"""A study that was run with other settings is no rerun of it, and says so."""

import re
import shlex

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kmdr.analysis.departures import departures, seed_settings
from kmdr.base.text import canonical, override
from kmdr.claims.catalogue import items, rerun_command
from kmdr.claims.verdicts import judge
from kmdr.config.studies import studies
from kmdr.datasets import registry
from kmdr.harness.experiment import experiments
from kmdr.harness.jobs import compose
from kmdr.reducers import recorded
from kmdr.reporting.build import build, report_of
from kmdr.reporting.contents import read_contents
from kmdr.results.json_files import plan_of_studies
from rows import make_rows, write_rows

GRID = range(5, 101, 5)
METHODS = ("leverage", "random_sign", "leverage_approx")
USUAL = {
    "k": 10, "engine": "kmdr", "start": "sample", "n_init": 5, "max_iter": 500, "kmeans": "{}", "matching": "best",
    "options": "{}",
}  # fmt: skip
STUDY = "bzmd15_fig1"


def params(reducer):
    return next(e for e in experiments(STUDY) if e.reducer == reducer).params


def rows_with(grid=GRID, repeats=10, **changes):
    """Rows of some methods of bzmd15's Figure 1 on USPS, in which two differ in F."""
    usual = USUAL | changes
    return pd.concat([
        make_rows(
            STUDY, "usps", name, grid, repeats, params=canonical(recorded(name, params(name))),
            **usual | {"config_hash": f"{i:012x}"},
            objective=lambda r, t, i=i: 0.5 + 0.01 * i + 1e-4 * (t % 3),
        )
        for i, name in enumerate(METHODS)
    ])  # fmt: skip


def asked_for(study):
    """What the study asks of the data and the methods that these rows have."""
    return [e for e in experiments(study) if e.dataset == "usps" and e.reducer in METHODS]


def of(rows, **plan):
    return departures(rows, asked_for, plan)


def test_rows_as_they_are_asked_for_are_no_departure():
    assert of(rows_with()) == {}
    assert of(rows_with(repeats=30)) == {}  # more are asked for by nobody, but change nothing
    assert of(rows_with(engine="", start="", n_init=float("nan"), options="")) == {}  # not known


@pytest.mark.parametrize(
    ("changes", "told", "overrides"),
    [
        ({"n_init": 1}, "n_init = 1, not 5", ["kmeans.n_init=1"]),
        ({"start": "plus"}, "start = plus, not sample", ["kmeans.start=plus"]),
        ({"kmeans": '{"online":true}'}, "online = True, not default", ["kmeans.online=true"]),
        ({"k": 3}, "k = 3, not 10", ["k=3"]),
        ({"grid": (10, 20)}, "r = 10, 20, not 5, 10, …, 100", ["r_grid=[10,20]"]),
        ({"options": '{"rows":"unit"}'}, "rows = unit, not default", ["study.datasets=[{usps:{rows:unit}}]"]),
    ],
)
def test_another_setting_is_named_with_the_override_that_gives_it(changes, told, overrides):
    departure = of(rows_with(**changes))[STUDY]
    assert departure.settings == (told,)
    assert list(departure.overrides) == overrides
    assert departure.describe(STUDY) == f"{STUDY}: {told} (10 of 10 repetitions)"
    # Given to the command line they ask for such rows.
    other = [
        e for e in compose(f"study={STUDY}", *overrides).experiments if e.dataset == "usps" and e.reducer in METHODS
    ]
    rows = rows_with(**changes)
    assert departures(rows, lambda _: other, {}) == {}


def test_fewer_repetitions_are_told_unless_they_were_planned():
    departure = of(rows_with(repeats=4))[STUDY]
    assert (departure.settings, departure.repetitions, departure.asked) == ((), 4, 10)
    assert departure.overrides == ("repeats=4",)
    assert of(rows_with(repeats=4), studies={STUDY: {"repeats_planned": 4}}) == {}
    assert of(rows_with(grid=(5, 50)), thinned_grid=True) == {}


@pytest.mark.parametrize("alone", [{}, {"repeats_planned": 10, "thinned_grid": False}])
def test_a_thinned_grid_of_another_study_hides_no_departure(alone):
    short = {"repeats_planned": 1, "repeats_full": 10, "left_out": [], "budget_seconds": None, "thinned_grid": True,
             "tasks_not_begun": 0}  # fmt: skip
    studies = {"bzmd15_fig2": short} | ({STUDY: {**short, **alone}} if alone else {})
    assert of(rows_with(grid=(5, 50)), **plan_of_studies(studies))[STUDY].settings == ("r = 5, 50, not 5, 10, …, 100",)
    assert of(rows_with(grid=(5, 50)), **plan_of_studies({STUDY: short})) == {}


@given(st.lists(st.integers(1, 12), min_size=len(GRID), max_size=len(GRID)))
@example([10] * (len(GRID) - 1) + [2])
def test_the_r_with_the_fewest_repetitions_counts(counts):
    rows = rows_with(repeats=max(counts))
    rows = rows[rows["repeat"] < rows["r"].map(dict(zip(GRID, counts, strict=True)))]
    departure = of(rows).get(STUDY)
    assert (departure.repetitions if departure else 10) == min(10, *counts)


TWO_VARIANTS = [
    ("svd", {"centred": True}, "centred = True"),
    ("sklearn.decomposition.TruncatedSVD", {"algorithm": "arpack"}, "algorithm = arpack"),
]


@pytest.mark.parametrize(("method", "arguments", "words"), TWO_VARIANTS, ids=["reducer", "class"])
@pytest.mark.parametrize("run", [0, 1])
def test_a_variant_of_a_method_without_rows_is_named(method, arguments, words, run):
    """Another variant of the same reducer or class counted as its rows, so the study seemed to be rerun as a whole."""
    listed = [override(method), override({method: arguments})]
    experiments = compose(f"study={STUDY}", "study.datasets=[usps]", f"study.reducers=[{','.join(listed)}]").experiments

    def rows_of(*some):
        return pd.concat(
            make_rows(STUDY, "usps", e.reducer, GRID, 10, params=canonical(recorded(e.reducer, e.params)), **USUAL,
                      config_hash=f"{number:012x}", objective=lambda r, t: 0.5 + 1e-4 * (t % 3))
            for number, e in enumerate(some)
        )  # fmt: skip

    assert departures(rows_of(*experiments), lambda study: experiments, {}) == {}
    departure = departures(rows_of(experiments[run]), lambda study: experiments, {})[STUDY]
    assert (departure.settings, departure.absent) == ((), (f"{method} ({(words, 'default')[run]})",))
    assert departure.overrides == (f"study.reducers=[{listed[run]}]",)


def test_methods_and_datasets_without_rows_are_told_of_unless_they_could_not_be_had():
    departure = departures(rows_with(), experiments, {})[STUDY]
    absent = ("synth", "svd", "approx_svd", "laplacian_score", "none")
    assert (departure.settings, departure.absent) == ((), absent)
    assert departure.describe(STUDY) == f"{STUDY}: 10 of 10 repetitions, without {', '.join(absent)}"
    narrowed = compose(f"study={STUDY}", *departure.overrides).experiments
    assert departures(rows_with(), lambda _: narrowed, {}) == {}
    assert departures(rows_with(), experiments, {}, ["synth"])[STUDY].absent == absent[1:]
    assert departures(rows_with(), experiments, {"studies": {STUDY: {"left_out": ["svd"]}}}) == {}


def test_another_reducer_setting_and_seed_are_in_the_command():
    rows = rows_with()
    other = rows.assign(params=rows["params"].where(rows["reducer"] != "leverage", '{"rescaled":false}'), seed=3)
    departure = of(other)[STUDY]
    assert len(departure.settings) == 1
    assert "leverage with" in departure.settings[0]
    assert departure.overrides == ("study.reducers=[{leverage:{rescaled:false}}]", "seed=3")


def test_commands_have_the_seed_of_the_rows_unless_it_is_the_default_or_several():
    """The page of rows with seed 1 named commands that draw from seed 0, so that every number differed."""
    rows = pd.concat([
        rows_with(seed=1), rows_with(seed=0).assign(study="lst17_coil20"),
        rows_with(seed=0).assign(study="mixed"), rows_with(seed=1).assign(study="mixed"),
    ])  # fmt: skip
    assert seed_settings(rows) == {STUDY: ("seed=1",)}
    assert of(rows_with(seed=1)) == {}, "another seed is not another protocol"
    item = next(item for item in items() if STUDY in item.studies)
    assert re.fullmatch(
        rf"kmdr (-m )?study=.*{STUDY}.* seed=1 && .*", rerun_command(item, seed_settings(rows), {STUDY})
    )
    assert compose(f"study={STUDY}", "seed=1").experiments[0].seed == 1


def test_a_method_with_settings_keeps_them_in_the_command():
    svd = next(e for e in experiments("lst17_coil20") if e.reducer == "svd")
    rows = make_rows(
        "lst17_coil20", "coil20", "svd", svd.r_grid, 30, params=canonical(recorded("svd", svd.params)), d=1024,
        **USUAL | {"k": 20, "n_init": 1, "max_iter": 100}, config_hash="0" * 12,
    )  # fmt: skip
    departure = departures(rows, experiments, {})["lst17_coil20"]
    assert "lle" in departure.absent
    assert departure.overrides == ("study.reducers=[svd]",), "with all settings at their defaults"
    assert [e.params for e in compose("study=lst17_coil20", *departure.overrides).experiments] == [svd.params]


@pytest.mark.parametrize("study", [s["name"] for s in studies() if any("." in name for name in s["reducers"])])
def test_a_class_of_a_study_keeps_its_arguments_in_the_command(study):
    """The report stopped, because no reducer has the name of a class."""
    asked = [e for e in experiments(study) if e.dataset == experiments(study)[0].dataset]
    for removed in asked:
        present = [e for e in asked if e != removed]
        rows = pd.concat(
            make_rows(
                study, e.dataset, e.reducer, e.r_grid, e.repeats, params=canonical(recorded(e.reducer, e.params)),
                **USUAL | {"k": e.k or registry.entry(e.dataset).k, "config_hash": f"{i:012x}"},
            )
            for i, e in enumerate(present)
        )  # fmt: skip
        departure = departures(rows, lambda _: asked, {})[study]
        assert departure.absent == (removed.reducer,)
        (override,) = (text for text in departure.overrides if text.startswith("study.reducers="))
        composed, kept = (
            {(e.reducer, canonical(e.params)) for e in group}
            for group in (compose(f"study={study}", override).experiments, present)
        )
        assert composed == kept


def test_a_report_needs_no_class_of_a_study(tmp_path, monkeypatch, capsys):
    """A folder of rows had no report where the package of a class is not installed."""
    folder = tmp_path / "conf" / "study"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "study: {title: t, datasets: [orl], reducers: [no_such_package.Class, none]}\nrepeats: 2\n"
    )
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    (tmp_path / "out").mkdir()
    settings = USUAL | {"config_hash": "0" * 12}
    write_rows(tmp_path / "out", *(make_rows("mine", "orl", name, [2], 2, **settings) for name in ("none", "svd")))
    assert build(tmp_path / "out", studies()).is_file()
    assert "so the rows of mine are not compared with what the study asks for" in capsys.readouterr().err


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of the same numbers, by whether k-means had the starts that the paper gives it."""
    made = {}
    for n_init in (5, 1):
        folder = write_rows(tmp_path_factory.mktemp(f"starts_{n_init}"), rows_with(n_init=n_init), code_hash="0" * 12)
        made[n_init] = report_of(read_contents(folder), studies())
    return made


@pytest.mark.slow
def test_a_figure_of_a_changed_protocol_is_marked_and_reruns_as_it_was(reports):
    usual, changed = (
        next(part for part in report.items if STUDY in part.item.studies and part.state != "not run")
        for report in reports.values()
    )
    assert usual.state == "in part"
    assert usual.changed.startswith(f"Rows: {STUDY}: 10 of 10 repetitions, without synth, svd")
    assert changed.state == "changed"
    assert changed.changed.startswith(f"Changed protocol: {STUDY}: n_init = 1, not 5; without synth, svd")
    assert shlex.split(changed.command)[:3] == ["kmdr", f"study={STUDY}", "kmeans.n_init=1"]


def test_a_claim_of_a_changed_protocol_has_no_verdict_and_says_so_first(reports):
    usual, changed = ({v.claim.id: v for v in report.verdicts if v.outcome != "not run"} for report in reports.values())
    assert usual
    assert usual.keys() == changed.keys()
    for name, verdict in changed.items():
        assert verdict.outcome == "changed" != usual[name].outcome
        assert verdict.sentence.startswith(
            f"The protocol was changed, so no conclusion about the paper is possible: {STUDY}: n_init = 1"
        )
        assert not verdict.kinds  # so that it takes no part in the correction of the others
        assert "kmeans.n_init=1" in verdict.command
        assert judge([verdict], {})[0] == verdict


@pytest.mark.slow
def test_the_page_shows_it(tmp_path):
    folder = write_rows(tmp_path, rows_with(n_init=1))
    page = build(folder, studies()).read_text(encoding="utf-8")
    assert "<strong>Changed protocol: bzmd15_fig1: n_init = 1, not 5; without synth, svd" in page
    verdicts = pd.read_csv(folder / "verdicts.csv")
    of_study = verdicts[verdicts["rows"].str.contains(STUDY, na=False)]
    assert set(of_study["verdict"]) == {"changed"}
