"""The command line: every configuration composes and runs, every mistake gets one sentence and exit status 2."""

import importlib.util
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from kmdr import __version__ as kmdr_version
from kmdr import datasets, metrics, reducers
from kmdr.base.errors import UserError
from kmdr.base.text import canonical
from kmdr.claims.catalogue import papers
from kmdr.cli.commands import COMMANDS, main
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.config.studies import config_files, on_request, study_names
from kmdr.harness import task
from kmdr.harness.engines.settings import BACKENDS
from kmdr.harness.jobs import compose, compose_studies
from kmdr.results.store import Store

PAPER = papers()[0].name
TINY = ("dataset.n=40", "dataset.d=12", "dataset.k=2", "r_grid=[2,3]", "repeats=1", "runner=sequential")


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


def kmdr(monkeypatch, *arguments):
    """Run the command line in this process; return its exit status."""
    monkeypatch.setattr(sys, "argv", ["kmdr", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def stems(group):
    return sorted(config_files(group))


# -- every configuration ---------------------------------------------------------------------------------------------


def test_every_reducer_has_one_configuration_and_every_configuration_a_reducer():
    assert stems("reducer") == sorted([*reducers.names(), "outside"])  # which its path names


@pytest.mark.parametrize("name", stems("reducer"))
def test_every_reducer_runs_from_its_configuration(name, monkeypatch):
    path = ["reducer.path=sklearn.decomposition.PCA"] if name == "outside" else []
    assert kmdr(monkeypatch, f"reducer={name}", *path, *TINY) == 0
    assert Path("results/runs/rows.csv").read_text().count(",ok,") in (1, 2)


@pytest.mark.parametrize("name", stems("kmeans"))
def test_every_protocol_runs(name, monkeypatch):
    assert kmdr(monkeypatch, f"kmeans={name}", *TINY) == 0


@pytest.mark.parametrize("change", [
    ["kmeans.start=plus"],
    ["kmeans.engine=sklearn"],
    ["kmeans=bmd09", "kmeans.online=true", "kmeans.empty_action=drop"],
    ["dataset.rows=unit"],
    ["reducer=leverage_approx", "reducer.centred=true", "reducer.merged=draws"],
    ["kmeans.start=first_of_class", "kmeans.n_init=1", "matching=identity"],
    ["reducer=leverage", "reducer.centred=true", "reducer.merged=true"],
    ["reducer=leverage_sqrt", "reducer.centred=true", "reducer.merged=true"],
    ["reducer=svd", "reducer.centred=true", "reducer.solver=lapack"],
    ["reducer=laplacian_score", "reducer.width_sample=null"],
], ids=" ".join)  # fmt: skip
def test_every_choice_that_a_study_flips_runs(change, monkeypatch):
    assert kmdr(monkeypatch, *change, *TINY) == 0
    assert ",failed," not in Path("results/runs/rows.csv").read_text()


@pytest.mark.parametrize("name", stems("grid"))
def test_every_grid_composes(name):
    (experiment,) = compose(f"grid={name}").experiments
    assert experiment.r_grid == tuple(sorted(set(experiment.r_grid)))
    assert experiment.r_grid


def test_the_default_grid_and_protocol():
    (experiment,) = compose().experiments
    assert experiment.r_grid == tuple(range(5, 101, 5))
    assert (experiment.protocol.n_init, experiment.protocol.max_iter) == (5, 500)


@pytest.mark.parametrize("name", stems("runner"))
def test_every_runner_composes_or_says_which_package_it_needs(name):
    package = {**BACKENDS, "slurm": "dask_jobqueue"}[name]
    if package is None or importlib.util.find_spec(package):
        assert compose(f"runner={name}").runner.threads == 1
    else:
        with pytest.raises(UserError, match=r"needs the package \S+; pip install"):
            compose(f"runner={name}")


@pytest.mark.parametrize("name", datasets.names())
def test_every_dataset_of_the_registry_can_be_named(name):
    (experiment,) = compose(f"dataset={name}").experiments
    assert experiment.dataset == name


@pytest.mark.parametrize("name", study_names())
def test_every_study_composes_with_datasets_and_reducers_that_exist(name):
    job = compose(f"study={name}")
    assert job.study["name"] == name
    asked = {canonical([e.dataset, e.options, e.reducer, e.params]) for e in job.experiments}
    assert len(asked) == len(job.study["datasets"]) * len(job.study["reducers"])
    assert {each.study for each in job.experiments} == {name}


def test_a_study_is_the_papers_protocol_and_can_be_narrowed():
    job = compose("study=bzmd15_fig1", "study.datasets=[{synth: {n: 40}}]", "study.reducers=[none,{svd: {rank: r}}]")
    assert [(each.dataset, each.options["n"], each.reducer, each.params) for each in job.experiments] == [
        ("synth", 40, "none", {}),
        ("synth", 40, "svd", {"rank": "r", "centred": False, "solver": "kmdr"}),
    ]
    assert {each.protocol for each in job.experiments} == {Protocol(5, 500)}


@pytest.mark.slow
def test_a_study_runs_and_draws_its_figure(monkeypatch, capsys):
    narrowed = ["study.datasets=[{synth: {n: 40, d: 12, k: 2}}]", "r_grid=[2,3]", "repeats=2", "timing_repeats=1"]
    assert kmdr(monkeypatch, "study=bzmd15_fig1", *narrowed, "runner=sequential", "study.note=a note") == 0
    figures = Path("results/runs/figures")
    assert sorted(path.name for path in figures.iterdir()) == [f"bzmd15_fig1.{kind}" for kind in ("csv", "png")]
    assert "bzmd15_fig1.png" in capsys.readouterr().out


@pytest.mark.slow
def test_a_study_draws_the_rows_it_asked_for_and_no_others_of_the_folder(monkeypatch):
    narrowed = ["study.datasets=[{synth: {n: 40, d: 12, k: 2}}]", "study.reducers=[none]", "timing_repeats=1"]
    for more in (["repeats=3"], ["repeats=2", "kmeans.n_init=1"]):
        assert kmdr(monkeypatch, "study=bzmd15_fig1", *narrowed, *more, "runner=sequential", "out=o") == 0
    assert len(Path("o/rows.csv").read_text().splitlines()) == 1 + 5
    drawn = pd.read_csv("o/figures/bzmd15_fig1.csv")
    assert drawn.loc[drawn["quantity"] == "objective", "count"].tolist() == [2]


def test_a_study_of_ones_own_with_two_sizes_of_a_dataset_ends_with_both_drawn(monkeypatch, tmp_path, capsys):
    """No paper's item reads it; means over the sizes would mean nothing, so each has panels of its own."""
    study = tmp_path / "lab" / "conf" / "study" / "sizes.yaml"
    study.parent.mkdir(parents=True)
    study.write_text(
        "# @package _global_\n"
        "study: {name: sizes, title: Two sizes, note: A note.,"
        " datasets: [{synth: {n: 40, d: 12, k: 2}}, {synth: {n: 60, d: 12, k: 2}}], reducers: [random_sign]}\n"
        "r_grid: [2, 3]\nrepeats: 2\ntiming_repeats: 0\n"
    )
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "lab"))
    assert kmdr(monkeypatch, "study=sizes", "runner=sequential", "out=o") == 0
    assert "dataset.n" in capsys.readouterr().out
    drawn = pd.read_csv("o/figures/sizes.csv")
    assert drawn["dataset"].nunique() == 2
    assert set(drawn.loc[drawn["quantity"] == "objective", "count"]) == {2}


@pytest.mark.slow
def test_a_sweep_is_one_run_over_all_its_jobs(monkeypatch):
    assert kmdr(monkeypatch, "-m", "reducer=none,svd", "seed=0,1", *TINY, "out=o") == 0
    rows = Path("o/rows.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * (1 + 2), "none once a seed, svd at both r"
    assert Path("o/runs.jsonl").read_text().count("\n") == 1


@pytest.mark.slow
def test_glob_takes_every_reducer(monkeypatch):
    assert kmdr(monkeypatch, "-m", "reducer=glob(*)", *TINY, "out=o") == 0
    text = Path("o/rows.csv").read_text()
    assert all(f",{name}," in text for name in reducers.names())


@pytest.mark.slow
def test_any_folder_of_results_can_be_drawn(monkeypatch, capsys):
    assert kmdr(monkeypatch, *TINY, "out=o") == 0
    assert kmdr(monkeypatch, "figures", "o") == 0
    assert sorted(path.suffix for path in Path("o/figures").iterdir()) == [".csv", ".png"]
    assert kmdr(monkeypatch, "figures", "o", "--pdf") == 0
    assert sorted(path.suffix for path in Path("o/figures").iterdir()) == [".csv", ".pdf", ".png"]


def test_list_shows_what_there_is(monkeypatch, capsys):
    assert kmdr(monkeypatch, "list") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*datasets.names(), *reducers.names(), *study_names()))
    assert kmdr(monkeypatch, "list", "studies") == 0
    assert "reducers" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "registered"), [("reducers", reducers.names), ("engines", engines.names), ("metrics", metrics.metrics)]
)
def test_what_is_listed_without_an_import_is_what_is_registered(monkeypatch, capsys, kind, registered):
    """A list is read from decorators; after one was renamed, there were no engines and metrics."""
    assert kmdr(monkeypatch, "list", kind) == 0
    listed = re.findall(r"^  (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert sorted({*listed} - {"outside"}) == sorted(registered())


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [False, True])
def test_a_dataset_that_cannot_be_had_is_told_of_and_the_others_go_on(damaged, monkeypatch, capsys):
    def nowhere(name, options, verify):
        if name == "usps":
            raise datasets.UnavailableError("dataset usps could not be had; put usps_all.mat somewhere", damaged)
        return real(name, options, verify)

    real = datasets.prepare
    monkeypatch.setattr("kmdr.harness.jobs.datasets.prepare", nowhere)
    narrowed = ["study.datasets=[{synth: {n: 40, d: 12, k: 2}},usps]", "study.reducers=[none,random_sign]", "repeats=1"]
    assert kmdr(monkeypatch, "study=bzmd15_fig1", *narrowed, "runner=sequential") == int(damaged)
    assert "put usps_all.mat somewhere" in capsys.readouterr().err
    assert kmdr(monkeypatch, "dataset=usps", "r_grid=[2]", "out=o") == 2
    assert "put usps_all.mat somewhere" in capsys.readouterr().err


# -- every mistake ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dataset=synht"], "no dataset is named 'synht'; did you mean 'synth'? 'kmdr list datasets' shows all"),
        (
            ["reducer=random_sgn"],
            "no reducer is named 'random_sgn'; did you mean 'random_sign'? 'kmdr list reducers' shows all",
        ),
        (["study=bzmd15_fig7"], "no study is named 'bzmd15_fig7'; did you mean 'bzmd15_fig"),
        (["runner=lokky"], "did you mean 'loky'?"),
        (["repeat=3"], "no setting is named 'repeat'; did you mean 'repeats'?"),
        (["+repeat=3"], "no setting is named 'repeat'; did you mean 'repeats'?"),
        (["kmeans.n_int=3"], "did you mean 'kmeans.n_init'?"),
        (["reducer=svd", "reducer.rnk=r"], "did you mean 'reducer.rank'?"),
        (["+reducer.rank=r"], "reducer random_sign takes no parameters, but was given 'rank'"),
        (["reducer=svd", "reducer.rank=q"], "reducer.rank = 'q' is not one of k, r"),
        (["reducer=leverage_approx", "reducer.svd_eps=1"], "svd_eps = 1 is outside 0 < svd_eps < 1"),
        (["runner.backend=mpi"], "runner.backend = 'mpi' is not one of loky, sequential, dask, ray"),
        (["runner.backend=pbs"], "runner.backend = 'pbs' is a batch system; use runner=dask runner.cluster=pbs"),
        (["r_grid=[0]"], "r_grid has 0"),
        (["r_grid=[5,-1]"], "r_grid has -1"),
        (["r_grid=[2.5]"], "r_grid has 2.5"),
        (["r_grid=[]"], "r_grid is empty"),
        (["r_grid=[5"], "'r_grid=[5' cannot be read"),
        (["repeats=0"], "repeats = 0 is not a whole number of at least 1"),
        (["repeats=-3"], "repeats = -3 is not a whole number of at least 1"),
        (["repeats=many"], "repeats = 'many' is not a whole number"),
        (["repeats=true"], "repeats = True is not a whole number"),
        (["timing_repeats=-1"], "timing_repeats = -1 is not a whole number of at least 0"),
        (["seed=-1"], "seed = -1 is not a whole number of at least 0"),
        (["k=0"], "k = 0 is not a whole number of at least 1"),
        (["k=41"], "k = 41 is larger than the number of points (40)"),
        (["kmeans.n_init=0"], "kmeans.n_init = 0 is not a whole number of at least 1"),
        (["kmeans.max_iter=1.5"], "kmeans.max_iter = 1.5 is not a whole number of at least 1"),
        (["kmeans.start=first_of_class"], "gives a single start, but kmeans.n_init = 5"),
        (["kmeans.start=first_of_class", "kmeans.n_init=1", "k=3"], "gives 2 centres, one per class, but k = 3"),
        (["kmeans.start=plusplus"], "kmeans.start = 'plusplus' is not one of sample, first_of_class, plus"),
        (["kmeans.engine=matlab"], "no kmeans.engine is named 'matlab'; valid: an import path package.module.Class,"),
        (["kmeans.empty_action=split"], "kmeans.empty_action = 'split' is not one of singleton, drop, error"),
        (["kmeans.online=true", "kmeans.engine=sklearn"], "work with kmeans.engine=kmdr only, not with 'sklearn'"),
        (["reducer=sparsified", "kmeans.engine=sklearn"], "does not work with reducer sparsified"),
        (["reducer=sparsified", "kmeans.start=plus"], "kmeans.start = 'plus' does not work with reducer sparsified"),
        (["matching=hungarian"], "matching = 'hungarian' is not one of best, identity"),
        (["matching=identity"], "which needs kmeans.start = 'first_of_class', not 'sample'"),
        (["dataset=orl_64x64", "dataset.row=unit"], "did you mean 'dataset.rows'?"),
        (["reducer=leverage", "reducer.centred=1"], "centred = 1 is neither true nor false"),
        (["reducer=leverage", "reducer.merged=true", "r_grid=[13]"], "r = 13 is more than the 12 distinct columns"),
        (["reducer=svd", "reducer.solver=arpack"], "reducer.solver = 'arpack' is not one of kmdr, lapack"),
        (["reducer=laplacian_score", "reducer.width_sample=1"], "width_sample = 1 is not a whole number of at least 2"),
        (["runner.n_jobs=0"], "runner.n_jobs = 0 is not a whole number of at least 1"),
        (["runner.threads=0"], "runner.threads = 0 is not a whole number of at least 1"),
        (["dataset.n=0"], "option n of dataset 'synth' is 0"),
        (["reducer=laplacian_score", "r_grid=[5,13]"], "r = 13 is more than the 12 features"),
        (
            ["reducer=laplacian_score", "reducer.n_neighbors=40"],
            "n_neighbors = 40 must be below the number of points (40)",
        ),
        (["reducer=svd", "reducer.rank=r", "r_grid=[13]"], "r = 13 is more than the 12 singular vectors"),
        (["-m", "reducer=none,svd,nosuch"], "no reducer is named 'nosuch'"),
        (["-m", "reducer=none,laplacian_score", "r_grid=[13]"], "r = 13 is more than the 12 features"),
        (["dataset=synth,usps"], "kmdr -m"),
        (["out=file"], "file"),
        (["-m", "seed=1,2", "out=file"], "file"),
        (["study=bzmd15_fig1", "reducer=svd"], "use 'study.reducers=[…]' instead"),
        (["study=bzmd15_fig1", "study.datasets=[synht]"], "did you mean 'synth'?"),
        (["study=bzmd15_fig1", "study.reducers=[{svd: {rnk: r}}]"], "did you mean 'rank'?"),
        (["study=bzmd15_fig1", "study.reducers=[]"], "no reducers; name at least one"),
        (["lits"], "no command is named 'lits'; did you mean 'list'?"),
        (["list", "dataset"], "did you mean 'datasets'?"),
        (["figures"], "the following arguments are required: DIR; usage: kmdr figures [--pdf] DIR"),
        (["figurse", "o"], "no command is named 'figurse'; did you mean 'figures'?"),
        (["table", "o", "--fomat", "md"], "no option of 'kmdr table' is named '--fomat'; did you mean '--format'?"),
        (["--multrun", "seed=0,1"], "unrecognized arguments: --multrun"),
        (["figures", "nowhere"], "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_gets_one_sentence_and_status_2_before_any_work(arguments, sentence, monkeypatch, capsys):
    Path("file").write_text("in the way")
    tiny = [] if "study" in arguments[0] or "=" not in "".join(arguments) or "dataset=" in "".join(arguments) else TINY
    given = {text.partition("=")[0] for text in arguments}
    rest = [text for text in tiny if text.partition("=")[0] not in given]
    assert kmdr(monkeypatch, *arguments, *rest) == 2
    out, err = capsys.readouterr()
    assert err.startswith("kmdr: error: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert not out
    assert not list(Path().glob("**/rows.csv"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["help", "figurse"], "no command is named 'figurse'; did you mean 'figures'?"),
        (["version", "2"], "unrecognized arguments: 2; usage: kmdr version"),
        (["metrics"], "the following arguments are required: DIR"),
        (["reproduce", f"{PAPER}x"], f"no paper is named '{PAPER}x'; did you mean '{PAPER}'?"),
        (["reproduce", "BUGDET=10m"], "did you mean '--budget'?"),
        (["reproduce", "--bugdet", "10m"], "did you mean '--budget'?"),
        (["reproduce", "--budget"], "argument --budget: expected one argument"),
        (["table", "a", "STUDI=x"], "did you mean '--study'?"),
        (["verify", "nowhere"], "there is no nowhere/rows.csv; name a folder of results"),
        (["verify", "a", "b"], "unrecognized arguments: b; usage: kmdr verify"),
        (["verify", "ROWS=0"], "--rows = '0' is not a whole number of at least 1"),
        (["verify", "SEED=-1"], "--seed = '-1' is not a whole number of at least 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_in_a_command_gets_one_sentence_too(arguments, sentence, monkeypatch, capsys):
    assert kmdr(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith("kmdr: error: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert not out
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "heavy"),
    [
        (["lits"], 2, {"numpy", "hydra", "omegaconf"}),
        (["table", "--fomat", "md"], 2, {"numpy", "hydra", "omegaconf"}),
        (["--multrun", "seed=1,2"], 2, {"numpy"}),
        (["repeat=3"], 2, {"numpy"}),
        (["list"], 0, {"sklearn", "matplotlib", "scipy.stats"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_quick_command_imports_no_heavy_package(arguments, status, heavy):
    code = (
        "import sys\nfrom kmdr.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    print(stop.code, *sorted(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    code, *modules = done.stdout.splitlines()[-1].split()
    assert int(code) == status, done.stderr
    assert heavy.isdisjoint(modules)


def test_python_m_kmdr_says_its_version():
    done = subprocess.run([sys.executable, "-m", "kmdr", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kmdr ")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_at_the_very_end_gets_one_line(name):
    code = (
        f"import os, signal; signal.signal(signal.{name}, signal.SIG_DFL); "  # nohup and a shell's & let it be ignored
        "from kmdr.base.process import exit_status; from kmdr.base.signals import leave_when_signalled; "
        "leave_when_signalled(); assert exit_status(lambda: 0) == 0; "
        f"os.kill(os.getpid(), signal.{name})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr.startswith("kmdr: interrupted; finished tasks are kept")
    assert done.stderr.count("\n") == 1


def test_without_arguments_it_says_what_to_do_first_and_does_nothing():
    done = subprocess.run([sys.executable, "-m", "kmdr"], capture_output=True, text=True, check=True)
    out = done.stdout
    assert out.startswith(f"kmdr {kmdr_version}: ")
    assert not done.stderr
    assert not list(Path().iterdir())
    # Every command that it names is one.
    named = re.findall(r"^  kmdr ([a-z]+)(?: |$)", out, re.MULTILINE)
    assert len(named) > 4
    assert set(named) <= set(COMMANDS)


def test_help_tells_of_every_command(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert kmdr(monkeypatch, "help") == 0
    usages = re.findall(r"^kmdr ([a-z]+).*\n    (.+)$", capsys.readouterr().out, re.MULTILINE)
    assert [name for name, _ in usages] == list(COMMANDS)
    assert all(what.endswith(".") for _, what in usages)


@pytest.mark.slow
def test_all_studies_at_once_are_what_hydra_composes():
    names = [name for name in study_names() if name not in on_request()]
    assert compose_studies("results") == [compose(f"study={name}", "out=results") for name in names]


@pytest.mark.slow
def test_a_reference_draws_every_study_and_every_universe_from_its_seed(monkeypatch, tmp_path):
    asked = {}

    def run_multiverses(specs, studies, *_):
        asked["multiverses"] = {config["seed"] for config in studies.values()}
        return 0

    def run_jobs(jobs, *_, **__):
        asked["studies"] = {experiment.seed for job in jobs for experiment in job.experiments}
        return 0

    monkeypatch.setattr("kmdr.multiverse.design.run_multiverses", run_multiverses)
    monkeypatch.setattr("kmdr.reporting.reproduce.run_jobs", run_jobs)
    monkeypatch.setattr("kmdr.results.table.compress", lambda folder: "")
    monkeypatch.setattr("kmdr.results.compress.compress_texts", lambda folder: [])
    assert COMMANDS["reference"](["--seed", "1", f"OUT={tmp_path}"]) == 0
    assert asked == {"multiverses": {1}, "studies": {1}}
    assert COMMANDS["reference"]([f"OUT={tmp_path}"]) == 0
    assert asked == {"multiverses": {0}, "studies": {0}}


# -- rows that are not there, and rows of other code -----------------------------------------------------------------


def test_rows_that_are_removed_during_a_run_are_told_of_and_the_same_command_makes_them(monkeypatch, capsys):
    merge = Store.merge

    def merge_after_a_loss(store):
        for path in list(store.folder.rglob("tasks/**/0001-*.csv"))[:1]:
            path.unlink()
        return merge(store)

    command = ("reducer=random_sign", *TINY, "repeats=2")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "merge", merge_after_a_loss)
        assert kmdr(monkeypatch, *command) == 1
    assert "1 planned task has no rows" in capsys.readouterr().err
    assert kmdr(monkeypatch, *command) == 0
    assert Path("results/runs/rows.csv").read_text().count(",ok,") == 4


@pytest.mark.slow
def test_refresh_makes_the_rows_of_other_code_again_and_no_others(monkeypatch, capsys):
    command = ("reducer=random_sign", *TINY, "timing_repeats=0")
    with monkeypatch.context() as patched:
        patched.setattr(task, "code_of", lambda *names: "0" * 12)
        assert kmdr(monkeypatch, *command) == 0
    (file,) = Path("results/runs/tasks").rglob("*.csv")
    old = file.read_bytes()
    assert kmdr(monkeypatch, *command, "repeats=2") == 0
    assert "the rows of random_sign were made by 2 versions of the code" in capsys.readouterr().err
    assert file.read_bytes() == old, "nothing is run again that was not asked to be"
    assert kmdr(monkeypatch, *command, "repeats=2", "--refresh") == 0
    assert "versions of the code" not in capsys.readouterr().err
    rows = pd.read_csv("results/runs/rows.csv", dtype=str)
    assert set(rows["code_hash"]) == {task.code_of("random_sign", "synth")}
    assert len(rows) == 4
    state = {path: path.stat().st_mtime_ns for path in Path("results/runs/tasks").rglob("*.csv")}
    assert kmdr(monkeypatch, *command, "repeats=2", "--refresh") == 0
    assert state == {path: path.stat().st_mtime_ns for path in Path("results/runs/tasks").rglob("*.csv")}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("study: [1\n", "cannot be read (while parsing a flow sequence"),
        ("study: {datasets: [synth], reducers: [none]}\n", "is not a valid study; it needs repeats"),
        ("repeats: 2\nstudy: {datasets: [synth]}\n", "is not a valid study; it needs repeats"),
        ("just text\n", "has no settings but 'just text'; write NAME: VALUE"),
        ("- text\n", "has no settings but ['text']; write NAME: VALUE"),
    ],
)
def test_a_file_of_a_guest_that_is_no_study_is_named(monkeypatch, tmp_path, capsys, content, sentence):
    file = tmp_path / "lab" / "conf" / "study" / "own.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "lab"))
    assert kmdr(monkeypatch, "list", "studies") == 2
    err = capsys.readouterr().err
    assert f"{file} {sentence}" in err
    narrowed = ["study.datasets=[{synth: {n: 40, d: 12, k: 2}}]", "study.reducers=[none]", "timing_repeats=1"]
    assert kmdr(monkeypatch, "study=bzmd15_fig1", *narrowed, "repeats=1", "out=o") == 2
    assert f"{file} {sentence}" in capsys.readouterr().err
    assert not Path("o/tasks").exists(), "it is refused before anything is run"
    assert err.count("\n") == 1
    assert kmdr(monkeypatch, "reducer=none", "--cfg", "job") in (0, None), "what does not use it goes on"


@pytest.mark.parametrize("name", ["-x", "--format", "--", "a=b", "a b"])
def test_names_of_any_kind_may_follow_two_dashes(name):
    command = COMMANDS["merge"]
    values = command.parser().parse_intermixed_args(command._with_options(["-o", "c", "--", "a", f"./{name}", name]))
    assert (values.out, [str(folder) for folder in values.folders]) == (Path("c"), ["a", name, name])


FLAGS = [
    (command.name, name)
    for command in COMMANDS.values()
    for names, settings in command.arguments or ()
    for name in names
    if settings.get("action") in ("store_true", "store_false")
]
FOLDERS = [
    (command.name, name)
    for command in COMMANDS.values()
    for names, settings in command.arguments or ()
    for name in names
    if name.startswith("-") and getattr(settings.get("type"), "__name__", "") == "_folder"
]


@pytest.mark.parametrize("form", ["{}=true", "{}="])
@pytest.mark.parametrize(("command", "flag"), FLAGS)
def test_a_value_of_an_option_without_one_is_refused(command, flag, form, monkeypatch, capsys):
    for name in (flag, flag[2:], flag[2:].replace("-", "_").upper()):
        assert kmdr(monkeypatch, command, "x", form.format(name)) == 2
        assert f"{flag} of 'kmdr {command}' takes no value; write {flag} instead of" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "option"), FOLDERS)
def test_an_empty_folder_is_refused(command, option, monkeypatch, capsys):
    """--out=$UNSET wrote into the current folder."""
    for words in ([f"{option}="], [option, ""], [f"{option.lstrip('-')}="] if option[:2] == "--" else [f"{option}="]):
        assert kmdr(monkeypatch, command, *words) == 2
        assert "the name of a folder is empty; name one" in capsys.readouterr().err
    assert not [*Path().iterdir()]
