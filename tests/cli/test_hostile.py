"""Whatever is asked for, a mistake gets one line that names the value, no traceback, and nothing is run.

Values are tried at the doors that every command passes, `Job.from_configs` and `kmdr.base.errors`; what only the
command line can say goes through `main`; and what might take the memory or the time of the machine, through a process.
"""

import copy
import gzip
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import START
from kmdr.base.errors import UserError, memory, section, shown, whole_number
from kmdr.base.process import exit_status
from kmdr.base.text import single_line
from kmdr.cli import commands as cli
from kmdr.cli.jobs import run_jobs
from kmdr.config.compose import _check_sweep
from kmdr.config.protocols import _variants
from kmdr.datasets import Dataset
from kmdr.harness.experiment import Experiment
from kmdr.harness.jobs import Job

PLAIN = {
    "dataset": {"name": "synth", "n": 40, "d": 12, "k": 2},
    "reducer": {"name": "svd", "rank": "k", "centred": False, "solver": "kmdr"},
    "kmeans": {"n_init": 1, "max_iter": 9, "start": "sample", "engine": "kmdr"},
    "runner": {"backend": "sequential", "n_jobs": 1, "threads": 1, "address": None},
    "study": None, "k": None, "matching": "best", "r_grid": [2], "repeats": 1, "timing_repeats": 0, "seed": 0,
    "verify": "once", "refresh": False, "keep_labels": False, "out": "o",
}  # fmt: skip
HUGE = 10**5000
LONG = "x" * 10**6
NO_NUMBER = [None, True, "", "3", "many", "1e3", 1e3, 2.5, float("nan"), float("inf"), -1, [], [3], {}, {"a": 1}, HUGE]
NO_NAME = [
    None,
    True,
    3,
    2.5,
    "",
    " ",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\0b",
    "a\nb",
    "\x1b[2J",
    LONG,
    [],
    ["svd"],
    {},
]
NO_SECTION = [None, True, 3, 2.5, "", "svd", [], ["svd"], [{"name": "svd"}]]
NO_GRID = [None, True, "", "5", 0, -1, 2.5, [], [0], [-1], [2.5], [True], ["5"], [None], [[5]], [{}], [2, "x"],
           {"a": 1}, [HUGE], [10**12], list(range(1, 10_002)), float("nan")]  # fmt: skip
NO_FOLDER = [None, True, False, 2.5, "", "a\0b", "~nobody-is-called-so/x", [], ["a"], {}, {"a": 1}]
CASES = [
    *((f"{name}", value) for name in ("repeats", "timing_repeats", "seed") for value in NO_NUMBER),
    *(("k", value) for value in NO_NUMBER if value is not None),
    *((f"kmeans.{name}", value) for name in ("n_init", "max_iter") for value in NO_NUMBER),
    *((f"runner.{name}", value) for name in ("n_jobs", "threads") for value in NO_NUMBER if value != -1),
    ("runner.threads", -1), ("runner.n_jobs", -2), ("runner.n_jobs", 10**6), ("runner.threads", 10**9),
    ("runner.address", 3), ("runner.address", ["a"]), ("runner.foo", 1), ("runner.path", "/"),
    *((f"{name}.name", value) for name in ("dataset", "reducer") for value in NO_NAME),
    *((name, value) for name in ("dataset", "reducer", "kmeans", "runner") for value in NO_SECTION),
    *(("study", value) for value in (True, 3, "x", [], {}, {"name": None}, {"name": "../x"}, {"name": "a/b"})),
    *(("r_grid", value) for value in NO_GRID),
    *(("out", value) for value in NO_FOLDER),
    *((f"kmeans.{name}", value) for name in ("start", "engine") for value in (None, "", 3, [], ["sample"], {}, "\0")),
    *(("matching", value) for value in (None, "", 3, [], ["best"], {}, "\x07", "Best")),
    *(("runner.backend", value) for value in (None, "", 3, [], ["loky"], {}, "\x1b[0m", "pbs")),
    *(("reducer.rank", value) for value in (None, "", 3, [], {}, "q", float("nan"))),
    *(("reducer.centred", value) for value in (None, "", 1, "yes", [], {})),
    *(("reducer.solver", value) for value in (None, "", 1, "arpack", [], {})),
    *(("verify", value) for value in (None, "", 3, "sometimes")),
    *((name, value) for name in ("refresh", "keep_labels") for value in (None, "", 3, "yes")),
    ("reducer.foo", 1), ("kmeans.foo", 1), ("foo", 1), ("repeats", 10**9), ("repeats", 500_001), ("seed", 2**128),
]  # fmt: skip
MISSING = [*PLAIN, "dataset.name", "reducer.name", "kmeans.n_init", "kmeans.max_iter", "runner.backend",
           "runner.n_jobs", "runner.threads"]  # fmt: skip


def changed(key, *value):
    """Return the plain configuration with one setting changed, or without it."""
    config = copy.deepcopy(PLAIN)
    *above, last = key.split(".")
    within = config[above[0]] if above else config
    within.pop(last, None)
    if value:
        within[last] = value[0]
    return config


def refused(config, key):
    with pytest.raises(UserError) as refusal:
        Job.from_configs([config])
    line = single_line(str(refusal.value))
    assert line.isprintable()
    assert len(line) < 2100
    assert any(part in line for part in key.split(".")), line


def test_the_plain_configuration_is_accepted():
    assert Job.from_configs([PLAIN]).out == Path("o")
    assert Job.from_configs([changed("out", "~/x")]).out == Path.home() / "x"


@pytest.mark.parametrize(("key", "value"), CASES, ids=lambda value: shown(value)[:30].encode("unicode_escape").decode())
def test_a_value_that_is_none_is_refused_by_name(key, value):
    refused(changed(key, value), key)


@pytest.mark.parametrize("key", MISSING)
def test_a_setting_that_was_taken_out_is_refused_by_name(key):
    refused(changed(key), key)


@pytest.mark.parametrize("items", [
    None, 3, "svd", {}, [None], [3], [{}], [["svd"]], [{"svd": 3}], [{"svd": {}, "none": {}}], [{3: {}}], ["../x"],
    ["\0"], [""],
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("group", ["dataset", "reducer"])
def test_the_lists_of_a_study_are_checked(group, items):
    with pytest.raises(UserError, match=r"study|no (dataset|reducer) is named"):
        _variants(group, items)


@pytest.mark.parametrize("sweep", [
    ["reducer=glob(rando_*)"], ["dataset=glob(x*)"], ["study=glob(nosuch*)", "seed=1,2"], ["seed=range(5,5)"],
    ["seed=range(0,1000000000)"], ["seed=range(0,200)", "repeats=range(1,200)"],
], ids=" ".join)  # fmt: skip
def test_a_sweep_over_nothing_or_over_everything_is_refused_before_it_is_composed(sweep):
    with pytest.raises(UserError, match=r"matches nothing|has \d+ jobs, more than"):
        _check_sweep(["-m", *sweep])


def test_a_sweep_over_something_is_not_refused():
    _check_sweep(["-m", "reducer=glob(*)", "seed=range(0,10)", "dataset=synth,usps", "r_grid=[1,2],[3]"])


def line_of(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["kmdr", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("kmdr: error: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    return err


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    Path("loop").symlink_to("loop")
    Path("file").write_text("in the way")
    os.mkfifo("fifo")
    return tmp_path


@pytest.mark.parametrize("arguments", [
    ["list", "x"], ["list", ""], ["list", "\x1b[2J"], ["data", "x"], ["data", ""], ["data", "get", "nosuch"],
    ["data", "where", "a\0b"], ["data", "status", "a\nb"], ["figures"], ["figures", "a", "b"], ["figures", "nowhere"],
    ["report"], ["report", "a", "b"], ["report", "nowhere"], ["figures", "file"], ["report", "file"],
    ["figures", "loop"], ["report", "loop"], ["figures", "fifo"], ["report", "fifo"], ["figures", "/dev/null"],
    ["report", "/dev/null"], ["help", "x"], ["lits"], ["a_b-c"],
], ids=lambda arguments: " ".join(arguments).encode("unicode_escape").decode())  # fmt: skip
def test_commands_refuse_what_they_cannot_take(arguments, here, capsys, monkeypatch):
    line_of(capsys, monkeypatch, *arguments)


@pytest.mark.parametrize("arguments", [
    ["~reducer"], ["runner=null"], ["dataset=null"], ["kmeans=null"], ["--config-dir=nowhere"],
    ["--config-name=nosuch"], ["--config-dir"], ["--config-name"], ["--nosuch"], ["--cfg"], ["-m", "--cfg", "job"],
    ["-m", "hydra.launcher=null"], ["hydra=null"], ["--experimental-rerun", "x"],
    [f"seed={'9' * 5000}"], ["out=null"], ["out=loop"], ["out=a\0b"], ["+foo=1"], ["-m", "reducer=glob(rando_*)"],
], ids=lambda arguments: " ".join(arguments)[:30].encode("unicode_escape").decode())  # fmt: skip
def test_the_command_line_refuses_what_it_cannot_take(arguments, here, capsys, monkeypatch):
    line_of(capsys, monkeypatch, *arguments)


def bomb(levels, width):
    """Return YAML of ``width ** levels`` values in a few lines."""
    lines = ["a0: &a0 [x]"]
    return "\n".join(lines + [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * width)}]" for i in range(levels)])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bomb(9, 9), "values, more than"),
        ("a: &a [*a]", "values, more than"),
        ("a: [", "expected"),
        ("a: \udcff", "cannot be read"),
        ("x" * (2**20 + 1), "is not a file of at most"),
        ("[" * 5000, "recursion"),
        (None, "is not a file of at most"),
    ],
    ids=["aliases", "a circle", "open", "no text", "long", "deep", "a pipe"],
)
def test_a_configuration_file_that_is_none_is_named(content, words, here, capsys, monkeypatch):
    Path("mine/runner").mkdir(parents=True)
    file = Path("mine/runner/strange.yaml")
    os.mkfifo(file) if content is None else file.write_bytes(content.encode(errors="surrogateescape"))
    assert words in line_of(capsys, monkeypatch, "--config-dir=mine", "runner=strange")


def test_a_configuration_that_would_not_be_read_is_refused(here, capsys, monkeypatch):
    Path("mine").mkdir()
    Path("mine/config.yaml").write_text("seed: 1")
    assert "mine/config.yaml would not be read" in line_of(capsys, monkeypatch, "--config-dir=mine")


def test_a_cache_in_nobodys_home_is_refused(here, capsys, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", "~nobody-is-called-so/cache")
    assert "KMDR_CACHE = '~nobody-is-called-so/cache' is not a folder" in line_of(capsys, monkeypatch, "data", "status")


def test_a_map_that_would_not_fit_the_machine_is_refused_with_its_size():
    most = memory() // 2 // 8 // 10**6
    A = np.broadcast_to(0.0, (10**6, 10**6))  # eight bytes
    data = Dataset("wide", A, None, 2, "", "", "")
    config = changed("reducer", {"name": "random_sign"})

    def tasks(r):
        return Experiment.from_config({**config, "r_grid": [r]}).tasks(data, Path())

    assert len(tasks(most)) == 1
    with pytest.raises(UserError, match=rf"1000000 points in {most + 1} dimensions take .* GB, more than half of"):
        tasks(most + 1)
    whole = Experiment.from_config({**config, "reducer": {"name": "none"}})
    assert len(whole.tasks(data, Path())) == 1  # it is mapped, and has two centres
    with pytest.raises(UserError, match="fewer dimensions, points or clusters"):
        replace(whole, k=10**6).tasks(data, Path())


def claimed(path):
    """Write a sparse matrix of 10^18 entries by its own word."""
    parts = {"format": np.array(b"csr"), "shape": np.array([10**9, 10**9]), "data": np.ones(1)}
    np.savez(path, **parts, indices=np.zeros(1, np.int32), indptr=np.array([0, 1], np.int32))


def inflated(path):
    path.write_bytes(gzip.compress(b"1,2,3,4\n" * 2**17) * 2000)  # members one after another, 2 GB in all


HEAVY = {
    "trials": (["repeats=1000000000"], "ask for 20000000000 trials"),
    "jobs": (["-m", "seed=range(0,1000000000)"], "has 1000000000 jobs, more than"),
    "claimed shape": (["dataset=file", "dataset.path=claimed.npz", "k=2"], "claimed.npz"),
    "compressed table": (["dataset=file", "dataset.path=bomb.csv.gz", "k=2"], "bomb.csv.gz"),
    "pipe as data": (["dataset=file", "dataset.path=fifo", "k=2"], "fifo"),
    "pipe as table": (["report", "results"], "results/rows.csv"),
    "endless data": (["dataset=file", "dataset.path=/dev/zero", "k=2"], "/dev/zero"),
    "aliases": (["--config-dir=mine", "runner=strange"], "values, more than"),
    "generated": (["dataset.n=1000000000", "dataset.d=1000000000"], "1000000000 points in 1000000000 dimensions"),
    "digits": ([f"seed={'9' * 100_000}"], "cannot be read (Exceeds the limit"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "words"), HEAVY.values(), ids=HEAVY)
def test_no_input_takes_the_memory_or_the_time_of_the_machine(asked, words, here):
    if "dataset.path=claimed.npz" in asked:
        claimed(Path("claimed.npz"))
    if "dataset.path=bomb.csv.gz" in asked:
        inflated(Path("bomb.csv.gz"))
    Path("mine/runner").mkdir(parents=True)
    Path("mine/runner/strange.yaml").write_text(bomb(9, 9))
    Path("results").mkdir()
    os.mkfifo("results/rows.csv")

    def limited():
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    command = [sys.executable, "-S", "-c", START, sys.executable, "-m", "kmdr", *asked]
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=limited)
    *out, last = done.stdout.splitlines(keepends=True)
    said = "".join(out) + done.stderr
    status, kibibytes = map(int, last.split())
    assert status == 2, said
    assert said.count("\n") == 1
    assert words in said
    assert kibibytes < 2**20


@pytest.mark.unforeseen_error
def test_an_error_that_nobody_foresaw_is_one_line_and_a_log(capsys):
    def broken():
        raise KeyError("sur\nprise")

    assert exit_status(broken) == 1
    err = capsys.readouterr().err
    assert err.startswith("kmdr: error: stopped by KeyError: ")
    assert err.count("\n") == 1
    log = Path(err.strip().rpartition(" ")[2])
    assert "Traceback" in log.read_text()
    assert 'raise KeyError("sur' in log.read_text()
    log.unlink()


@pytest.mark.unforeseen_error
def test_an_error_in_a_run_leaves_its_log_with_the_results(monkeypatch, tmp_path, capsys):
    def broken(*arguments, **settings):
        raise ZeroDivisionError

    monkeypatch.setattr("kmdr.harness.jobs._prepare", broken)
    job = Job.from_configs([changed("out", str(tmp_path))])
    assert exit_status(lambda: run_jobs([job])) == 1
    assert f"the traceback is in {tmp_path / 'error.log'}" in capsys.readouterr().err
    assert "ZeroDivisionError" in (tmp_path / "error.log").read_text()


def test_what_is_shown_back_is_short_and_printable():
    assert len(shown(LONG)) < 300
    assert "digits" in shown(HUGE)
    assert single_line("a\nb\x1b[2J\u202e") == r"a\nb\x1b[2J\u202e"
    assert len(single_line(LONG)) < 2100
    with pytest.raises(UserError, match="is more than 5"):
        whole_number("x", 6, 0, 5)
    assert section({"a": {1: 2}}, "a") == {"1": 2}


@pytest.mark.parametrize(
    ("groups", "files", "allowed"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "4096\n"}, 4096),
        ("0::/lost/in/a/container\n", {"memory.max": "8192\n"}, 8192),
        ("4:cpu,memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "2048\n"}, 2048),
        ("0::/\n", {}, None),
        ("not what is expected", {}, None),
    ],
)
def test_a_control_group_limits_what_there_is(groups, files, allowed, monkeypatch):
    texts = {"/proc/self/cgroup": groups} | {f"/sys/fs/cgroup/{name}": text for name, text in files.items()}

    def read(path, *_):
        if str(path) not in texts:
            raise FileNotFoundError(path)
        return texts[str(path)]

    monkeypatch.setattr(Path, "read_text", read)
    assert memory() == (allowed or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
