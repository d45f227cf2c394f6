"""Trials that never end, that take all memory, that kill their process, or that raise what is no Exception."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from joblib.externals.loky.backend import get_context

import kmdr
import leaving
from clusters import computed
from kmdr.base import limits
from kmdr.base.errors import UserError
from kmdr.base.limits import Begun, Limit, can_measure_memory, memory_of, parse_size
from kmdr.base.outside import _imported
from kmdr.base.signals import Interrupted, is_interrupt, kill_tree, process_tree
from kmdr.cli.arguments import COMMANDS
from kmdr.cli.jobs import run_jobs
from kmdr.datasets import open_prepared, prepare
from kmdr.harness import runner as module
from kmdr.harness import verify as verifying
from kmdr.harness.engines import local
from kmdr.harness.engines.contract import Answer, _children, call_name, divide_lost_tasks, execute
from kmdr.harness.engines.local import Late, Lost, Workers
from kmdr.harness.engines.settings import Runner
from kmdr.harness.jobs import compose
from kmdr.harness.progress import Progress
from kmdr.harness.runner import run_tasks
from kmdr.harness.task import Provenance
from kmdr.harness.verify import folders_by_content, limit_of, rerun, user_limit, verify_sample
from kmdr.results.reader import read_rows
from kmdr.results.store import Store
from kmdr.submissions.accept import accept
from kmdr.submissions.pack import submit

needs_proc = pytest.mark.skipif(not can_measure_memory(), reason="this system does not state the memory of processes")

ROGUE = dedent("""
    import ctypes
    import os
    import signal
    import subprocess
    import sys
    import threading
    import time

    import numpy as np

    class PanicException(BaseException):
        pass

    def eat():
        kept = []
        while True:
            kept.append(np.ones(2_000_000))
            time.sleep(0.005)

    def panic():
        raise PanicException("called Option::unwrap() on a None value")

    def interrupt():
        raise KeyboardInterrupt

    class Mute(BaseException):
        def __str__(self):
            raise RuntimeError

    def mute():
        raise Mute

    def end_of(child):
        os.kill(child, signal.SIGTERM)
        until = time.monotonic() + 30
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                raise RuntimeError("it does not end when it is told to")
            time.sleep(0.01)
        if os.WTERMSIG(ended[1]) != signal.SIGTERM:
            raise RuntimeError(f"it ended with {ended[1]}")

    def terminate_forks():
        for _ in range(20):
            child = os.fork()
            if not child:
                time.sleep(10**6)
                os._exit(0)
            end_of(child)

    def leave_pool():
        import joblib

        joblib.Parallel(2)(joblib.delayed(abs)(number) for number in range(4))

    def leave_process():
        import multiprocessing

        multiprocessing.get_context("fork").Process(target=time.sleep, args=(10**6,)).start()

    def replace_streams():
        sys.stdout = sys.stderr = None

    HOW = {
        "sleep": lambda: time.sleep(10**6),
        "hold": lambda: ctypes.PyDLL(None).sleep(10**6),  # compiled code that never releases the interpreter
        "wait": lambda: subprocess.run(["sleep", "1000000"]),
        "eat": eat,
        "exit": lambda: os._exit(3),
        "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        "leave": lambda: sys.exit(4),
        "panic": panic,
        "interrupt": interrupt,
        "mute": mute,
        "fork": os.fork,
        "terminate_forks": terminate_forks,
        "terminate_programs": lambda: end_of(subprocess.Popen(["sleep", "1000000"]).pid),
        "leave_pool": leave_pool,
        "leave_process": leave_process,
        "replace_streams": replace_streams,
        "move": lambda: os.chdir("/"),
        "thread": lambda: threading.Thread(target=time.sleep, args=(10**6,)).start(),
    }

    class Rogue:
        '''A random map, which does at some r what ROGUE states.'''

        def __init__(self, n_components=2, random_state=None):
            self.n_components, self.random_state = n_components, random_state

        def fit_transform(self, A):
            for text in os.environ.get("ROGUE", "").split():
                r, how = text.split(":")
                if int(r) == self.n_components:
                    HOW[how]()
            return A @ np.random.default_rng(self.random_state).standard_normal((A.shape[1], self.n_components))
    """)
BAD = {
    3: ("sleep", "stopped: it took more than {} s; raise runner.limit.seconds to allow more"),
    4: ("hold", "stopped: it took more than {} s; raise runner.limit.seconds to allow more"),
    5: ("eat", "stopped: it took more than 200M of memory; raise runner.limit.memory to allow more"),
    6: ("exit", "its worker ended with exit status 3, 3 times"),
    7: ("crash", "its worker was ended by SIGSEGV, 3 times"),
    8: ("leave", "SystemExit: 4"),
    9: ("panic", "PanicException: called Option::unwrap() on a None value"),
    10: ("interrupt", "KeyboardInterrupt"),
}
SETTINGS = (
    "dataset=synth", "dataset.n=60", "dataset.d=12", "dataset.k=2", "kmeans.n_init=2", "repeats=2",
    "r_grid=[2,3,4,5,6,7,8,9,10,11]", "reducer=outside", "reducer.path=rogue.Rogue",
)  # fmt: skip
LIMITS = ("runner.limit.seconds=4", "runner.limit.memory=200M")


@pytest.fixture
def rogue(tmp_path, monkeypatch):
    (tmp_path / "rogue.py").write_text(ROGUE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(kmdr.__file__).parents[1])]))
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("rogue", None)


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("runner", ["sequential", "loky", "dask", "ray"])
def test_a_bad_trial_is_a_failed_row_and_all_others_are_those_of_a_run_without_it(runner, rogue, monkeypatch):
    if runner in ("dask", "ray"):
        pytest.importorskip({"dask": "distributed", "ray": "ray"}[runner])
    assert run_jobs([compose(*SETTINGS, "runner=sequential", "timing_repeats=2", "out=good")]) == 0
    good = {(row["r"], row["repeat"]): row for row in computed(read_rows(rogue / "good" / "rows.csv"))}
    monkeypatch.setenv("ROGUE", " ".join(f"{r}:{how}" for r, (how, _) in BAD.items()))
    # A cluster's workers import everything again for each process that ends: its r are divided of one repetition.
    scale = ("timing_repeats=0", "repeats=1") if runner in ("dask", "ray") else ("timing_repeats=1",)
    most = {"dask": 8, "ray": 30}.get(runner, 4)  # workers of Ray have a low priority
    size = () if runner == "sequential" else ("runner.n_jobs=2",)
    limited = (f"runner={runner}", *size, f"runner.limit.seconds={most}", LIMITS[1])
    assert run_jobs([compose(*SETTINGS, *scale, *limited, "out=bad")]) == 1
    rows = computed(read_rows(rogue / "bad" / "rows.csv"))
    assert len(good) == 20
    assert len(rows) == (10 if runner in ("dask", "ray") else 20)
    for row in rows:
        expected = good[row["r"], row["repeat"]]
        assert row["config_hash"] == expected["config_hash"]
        if int(row["r"]) in BAD:
            assert (row["status"], row["error"]) == ("failed", BAD[int(row["r"])][1].format(most))
        else:
            assert row == expected


# Dask starts a dozen workers for it.
@pytest.mark.parametrize(
    "runner", [pytest.param("loky", marks=pytest.mark.slow), pytest.param("dask", marks=pytest.mark.long)]
)
def test_without_limits_only_the_r_that_ends_its_process_fails(runner, rogue, monkeypatch):
    """All r of its repetition were lost, though own-method.md promises that each is run by itself."""
    if runner == "dask":
        pytest.importorskip("distributed")
    settings = [*SETTINGS, "timing_repeats=0", "r_grid=[2,6,11]", f"repeats={1 if runner == 'dask' else 2}"]
    assert run_jobs([compose(*settings, "runner=sequential", "out=good")]) == 0
    monkeypatch.setenv("ROGUE", "6:exit")
    assert run_jobs([compose(*settings, f"runner={runner}", "runner.n_jobs=1", "out=bad")]) == 1
    good, bad = (computed(read_rows(rogue / out / "rows.csv")) for out in ("good", "bad"))
    failed = [row for row in bad if row["status"] == "failed"]
    assert [row for row in bad if row not in failed] == [row for row in good if row["r"] != "6"]
    assert {(row["r"], row["repeat"]) for row in failed} == {
        (row["r"], row["repeat"]) for row in good if row["r"] == "6"
    }
    assert all(row["error"].startswith("its worker ") for row in failed)


def stay():
    limits.begin()
    time.sleep(600)


def eat():
    limits.begin()
    kept = []
    while True:
        kept.append(np.ones(1_000_000))
        time.sleep(0.005)


def start_another(file):
    limits.begin()
    process = subprocess.Popen(["sleep", "600"])
    file.write_text(str(process.pid))
    process.wait()


def answered(function, limit, calls):
    with Workers(function, 1, print, limit=limit) as workers:
        return [answer for _, answer in workers.run(calls, 2, str)]


def test_a_call_that_takes_too_long_is_lost_at_once_and_its_worker_is_replaced():
    answers = answered(stay, Limit(seconds=0.2), [(), ()])
    assert answers == [Lost("stopped: it took more than 0.2 s; raise runner.limit.seconds to allow more")] * 2


@needs_proc
def test_a_call_that_takes_too_much_memory_is_lost():
    (answer,) = answered(eat, Limit(memory=100 << 20), [()])
    assert answer == Lost("stopped: it took more than 100M of memory; raise runner.limit.memory to allow more")


@needs_proc
def test_the_processes_that_a_stopped_call_started_end_with_it(tmp_path):
    file = tmp_path / "pid"
    answered(start_another, Limit(seconds=1.0), [(file,)])
    pid, until = int(file.read_text()), time.monotonic() + 20
    while memory_of(pid):  # a process that has ended has none, until somebody asks for its status
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def plain_workers(monkeypatch):
    """Start workers as a command does: the server of the tests would be the parent of what they leave."""
    monkeypatch.setattr(local, "get_context", get_context)


@needs_proc
@pytest.mark.parametrize("orphan", [False, True])
@pytest.mark.parametrize(
    ("ending", "answer"),
    [
        ("return", "return"),
        ("exit", Lost("its worker ended with exit status 0, 3 times")),
        ("stay", Lost("stopped: it took more than 3 s; raise runner.limit.seconds to allow more")),
    ],
)
def test_no_process_of_a_call_outlives_its_worker_however_the_call_ends(
    ending, answer, orphan, tmp_path, plain_workers
):
    assert answered(leaving.leave_process, Limit(seconds=3), [(tmp_path / "pid", orphan, ending)]) == [answer]
    pid, until = int((tmp_path / "pid").read_text()), time.monotonic() + 20
    while memory_of(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_worker_that_ends_while_a_process_of_it_holds_its_pipe_is_noticed_without_limits(tmp_path, plain_workers):
    (answer,) = answered(leaving.leave_process, limits.UNLIMITED, [(tmp_path / "pid", False, "exit")])
    with suppress(ProcessLookupError):  # killed already, if another test made this process adopt it
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert answer == Lost("its worker ended with exit status 0, 3 times")


@needs_proc
def test_memory_of_a_process_whose_parent_ended_counts(plain_workers):
    (answer,) = answered(leaving.eat_as_orphan, Limit(seconds=60, memory=100 << 20), [()])
    assert answer == Lost("stopped: it took more than 100M of memory; raise runner.limit.memory to allow more")


def test_the_time_of_a_call_counts_from_where_its_trial_begins():
    assert answered(time.sleep, Limit(seconds=0.05), [(0.5,)]) == [None]


def test_when_the_time_is_over_what_runs_is_late():
    assert answered(stay, Limit(until=time.time() + 0.5), [(), (), ()]) == [Late()] * 3


@needs_proc
def test_the_memory_of_a_process_counts_its_descendants():
    code = "import os, subprocess, sys, time; x = bytearray(30 << 20); {}; print('ready', flush=True); time.sleep(600)"
    inner = code.format("pass")
    outer = code.format(f"c = subprocess.Popen([sys.executable, '-c', {inner!r}], stdout=-1); c.stdout.readline()")
    process = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    tree = process_tree(process.pid)
    assert len(tree) == 2
    assert 60 << 20 < memory_of(process.pid) < 200 << 20
    kill_tree(process.pid)
    assert process.wait(30) == -signal.SIGKILL
    process.stdout.close()
    assert memory_of(process.pid) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("2G", 2 << 30), ("500mb", 500 << 20), (" 3K ", 3 << 10), ("17", 17), ("1T", 1 << 40), ("", None), ("-1", None),
     ("1.5G", None), ("2GG", None), ("٣", None), ("1e9", None)],
)  # fmt: skip
def test_sizes_are_bytes_with_a_unit(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("seconds=0", "runner.limit.seconds = 0 is not a number above 0"),
        ("seconds=-1", "is not a number above 0"),
        ("seconds=true", "is not a number above 0"),
        ("seconds=.nan", "is not a number above 0"),
        ("seconds=.inf", "is not a number above 0"),
        ("seconds=5m", "runner.limit.seconds = '5m' is not a number above 0; give seconds, e.g. 60"),
        ("memory=much", "runner.limit.memory = 'much' is not a size; give bytes, or e.g. 500M or 2G"),
        ("memory=0", "is not a size"),
        ("memory=1.5", "is not a size"),
        ("memory=true", "is not a size"),
        ("memory=[1]", "is not a size"),
        ("second=3", "did you mean 'seconds'?"),
    ],
)
def test_a_limit_that_is_none_is_refused_in_a_sentence(setting, sentence):
    with pytest.raises(UserError) as raised:
        compose("dataset=synth", "reducer=svd", f"++runner.limit.{setting}")
    assert sentence in str(raised.value)


@needs_proc
def test_limits_are_settings_of_every_runner_and_not_of_a_trial():
    some = ("dataset=synth", "dataset.n=40", "reducer=svd", "r_grid=[2]", "repeats=1")
    for name in ("loky", "sequential"):
        limited, plain = (compose(*some, f"runner={name}", *more) for more in (LIMITS, ()))
        assert limited.runner.limit == Limit(4, 200 << 20)
        assert not plain.runner.limit.is_limited
        assert limited.experiments == plain.experiments
    with pytest.raises(UserError, match=r"runner\.limit = 3 is not a group"):
        Runner.from_config({"backend": "loky", "n_jobs": 1, "threads": 1, "limit": 3})


# -- rows that are rerun ---------------------------------------------------------------------------------------------


@pytest.fixture
def submitted(rogue):
    """Return a folder of rows of one repetition at r = 2, 3 and 5, and a submission of them."""
    settings = [*SETTINGS[:5], "repeats=1", "r_grid=[2,3,5]", *SETTINGS[-2:]]
    assert run_jobs([compose(*settings, "timing_repeats=1", "runner=sequential", "out=made")]) == 0
    return rogue / "made", submit(rogue / "made", rogue / "submitted", "mine")


TRUST = ["reducer=rogue.Rogue"]
STOPPED = {
    3: ("sleep", "stopped: it took more than 4 s; raise --seconds to allow more"),
    5: ("eat", "stopped: it took more than 150M of memory; raise --memory to allow more"),
}


@needs_proc
@pytest.mark.slow
def test_a_row_whose_rerun_never_ends_or_takes_all_memory_is_stopped_and_is_not_verified(
    submitted, monkeypatch, capsys
):
    made, submission = submitted
    reasons = [reason for _, reason in STOPPED.values()]
    monkeypatch.setenv("ROGUE", " ".join(f"{r}:{how}" for r, (how, _) in STOPPED.items()))
    given = user_limit(4, 150 << 20)
    assert verify_sample(made, 10, 0, TRUST, given) == 1
    output = capsys.readouterr()
    assert output.out.count("not verified: custom: rogue.Rogue") == 2
    assert [reason for reason in reasons if reason not in output.out] == []
    assert "2 of 3 rows were not verified: their reruns were stopped or ended early" in output.err
    card, comparisons = accept(submission, made / "none", 10, 0, TRUST, given=given)
    outcomes = {int(comparison.row["r"]): (comparison.outcome, comparison.detail) for comparison in comparisons}
    assert outcomes == {2: ("exact", ""), **{r: ("not verified", reason) for r, (_, reason) in STOPPED.items()}}
    assert card["verification"]["status"] == "as reported"
    assert card["verification"]["reason"] in [f"{reason}; and 1 more" for reason in reasons]
    assert not _children


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "outcome", "detail"),
    [
        ("exit", "not verified", "its worker ended with exit status 3, 3 times"),
        ("panic", "different", "PanicException: called Option::unwrap() on a None value"),
    ],
)
def test_a_row_whose_rerun_ends_its_process_is_not_verified_and_one_that_fails_is_different(
    how, outcome, detail, submitted, monkeypatch
):
    monkeypatch.setenv("ROGUE", f"3:{how}")
    rows = [row for row in read_rows(submitted[0] / "rows.csv") if row["r"] == "3"]
    (comparison,) = rerun(rows, submitted[0], folders_by_content(rows), TRUST, user_limit(None, None))
    assert comparison[1:] == (outcome, detail)


@pytest.mark.slow
def test_a_module_whose_import_never_ends_stops_no_command(submitted):
    """Also the import of a class that the command trusts is done in the process that has limits."""
    made, _ = submitted
    sys.modules.pop("rogue", None)
    _imported.cache_clear()
    (made.parent / "rogue.py").write_text(f"import time\ntime.sleep(10**6)\n{ROGUE}")
    rows = read_rows(made / "rows.csv")[:1]
    (comparison,) = rerun(rows, made, folders_by_content(rows), TRUST, user_limit(1, None))
    assert comparison[1:] == ("not verified", "stopped: it took more than 1 s; raise --seconds to allow more")
    assert "rogue" not in sys.modules


# A dataset of a plugin, whose loader and metric do what ROGUE_DATA and ROGUE_METRIC, or ROGUE_WARM_UP, state.
PLUGIN = {
    "datasets/loaders.py": """
        import os
        import sys
        import numpy as np
        from kmdr.datasets.sources.loaders import loader
        from rogue import HOW

        @loader
        def plugin_grid(n=60):
            HOW.get(os.environ.get("ROGUE_DATA"), lambda: None)()
            return np.add.outer(np.arange(n) % 3 * 10.0 + np.linspace(0, 1, n), np.arange(12.0)), np.arange(n) % 3
        """,
    "datasets/registry.toml": """
        [plugin_grid]
        title = "Points on a line"
        papers = []
        n = 60
        d = 12
        k = 3
        licence = "CC0"
        citation = "none"
        format = "plugin_grid"
        content_sha256 = ""
        options = { n = 60 }
        sources = []
        """,
    "metrics/metric.py": """
        import os
        from kmdr.metrics import metric
        from rogue import HOW

        @metric("plugin_metric", "a metric", 0.0, 1.0, "higher")
        def plugin_metric(A, labels, truth):
            moment = "ROGUE_METRIC" if len(A) == 60 else "ROGUE_WARM_UP"
            HOW.get(os.environ.get(moment), lambda: None)()
            return 0.0
        """,
}


@pytest.fixture
def with_plugin(rogue, monkeypatch):
    """Return rows of a dataset of a plugin, and a submission of them with labels."""
    for name, text in PLUGIN.items():
        (rogue / "plugin" / name).parent.mkdir(parents=True, exist_ok=True)
        (rogue / "plugin" / name).write_text(dedent(text))
    monkeypatch.setenv("KMDR_PATH", str(rogue / "plugin"))
    settings = ["dataset=plugin_grid", "kmeans.n_init=2", "repeats=1", "r_grid=[2]", "reducer=random_sign"]
    assert run_jobs([compose(*settings, "timing_repeats=1", "runner=sequential", "keep_labels=true", "out=made")]) == 0
    return rogue / "made", submit(rogue / "made", rogue / "submitted", "mine")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("sleep", "stopped: it took more than 2 s; raise --seconds to allow more"),
        ("hold", "stopped: it took more than 2 s; raise --seconds to allow more"),
        ("eat", "stopped: it took more than 150M of memory; raise --memory to allow more"),
        ("exit", "its worker ended with exit status 3, 3 times"),
    ],
)
def test_data_whose_preparation_exceeds_a_limit_make_their_rows_not_verified(
    how, reason, with_plugin, monkeypatch, capsys
):
    made, submission = with_plugin
    monkeypatch.setenv("KMDR_CACHE", str(made.parent / "empty"))
    monkeypatch.setenv("ROGUE_DATA", how)
    given = user_limit(2, 150 << 20)
    assert verify_sample(made, 10, 0, (), given) == 1
    assert f"repetition 0: its data were not prepared: {reason}" in capsys.readouterr().out
    verification = accept(submission, made / "none", 10, 0, given=given)[0]["verification"]
    assert (verification["status"], verification["labels"]) == ("as reported", 0)
    assert verification["reason"] == f"its data were not prepared: {reason}"


@needs_proc
@pytest.mark.slow
def test_a_submission_whose_labels_are_scored_for_too_long_is_refused(with_plugin, monkeypatch):
    made, submission = with_plugin
    monkeypatch.setenv("ROGUE_METRIC", "sleep")
    with pytest.raises(UserError, match=r"not scored: stopped: it took more than 2 s; raise --seconds to allow more"):
        accept(submission, made / "none", 10, 0, given=user_limit(2, None))


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["ROGUE_METRIC", "ROGUE_WARM_UP"])
def test_a_row_whose_metric_never_ends_is_stopped(moment, with_plugin, monkeypatch, capsys):
    made, _ = with_plugin
    monkeypatch.setenv(moment, "sleep")
    assert verify_sample(made, 10, 0, (), user_limit(2, None)) == 1
    assert "stopped: it took more than 2 s; raise --seconds to allow more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (("0.1", "0.2", "0.3", "0.4"), 60),
        (("1", "1", "1", "0"), 60),
        (("1", "1", "1", "0.05"), 120),
        (("0", "100", "0", "0"), 2000 // 60 * 60 + 60),
        (("0", "180", "0", "0"), 3600),
        (("1e300", "1e300", "1e400", "0"), 3600),
        (("", "1", "1", "1"), 600),
        (("", "", "", ""), 600),
        (("", "0", "50", "0"), 1020),
    ],
)
def test_the_limits_of_a_row_follow_from_its_times_unless_they_are_given(times, seconds):
    names = ("prepare_seconds", "reduce_seconds", "cluster_seconds", "score_seconds")
    row = dict(zip(names, times, strict=True))
    memory = 4 << 30 if can_measure_memory() else None
    assert (limit_of(row).seconds, limit_of(row).memory) == (seconds, memory)
    assert limit_of(row, Limit(seconds=7.5)) == Limit(7.5, memory)
    assert limit_of(row, Limit(memory=1000)) == Limit(seconds, 1000)


def test_a_memory_that_cannot_be_measured_is_no_default_and_is_refused(monkeypatch):
    row = dict.fromkeys(("prepare_seconds", "reduce_seconds", "cluster_seconds", "score_seconds"), "1")
    monkeypatch.setattr(verifying, "can_measure_memory", lambda: False)
    assert limit_of(row).memory is None
    with pytest.raises(UserError, match="--memory needs /proc"):
        user_limit(None, 1 << 30)


@pytest.mark.parametrize("command", ["verify", "accept"])
@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("SECONDS=0", "--seconds = '0' is not a positive number"),
        *(
            (f"SECONDS={text}", f"--seconds = '{text}' is not a positive number")
            for text in ("inf", "nan", "1e400", "-1", "5s")
        ),
        *((f"MEMORY={text}", f"--memory = '{text}' is not a size") for text in ("-1", "nan", "1e400", "5 parsecs")),
        ("MEMORY=0", "--memory = '0' is not a size; give bytes, or e.g. 500M or 2G"),
        ("MEMORY=much", "--memory = 'much' is not a size"),
    ],
)
def test_a_limit_of_a_rerun_that_is_none_is_refused(command, argument, sentence):
    with pytest.raises(UserError) as raised:
        COMMANDS[command](["name", argument])
    assert sentence in str(raised.value)


# -- one r at a time -------------------------------------------------------------------------------------------------


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    (experiment,) = compose(
        "dataset=synth", "dataset.n=40", "dataset.d=10", "dataset.k=2", "r_grid=[2,3,4]", "repeats=3"
    ).experiments
    folder = prepare("synth", experiment.options)
    return experiment.tasks(open_prepared(folder), folder)


PROVENANCE = Provenance(concurrency=2, threads=1, code_version="v", env_hash="0" * 12)


def test_only_the_r_that_is_lost_fails_and_the_other_repetitions_are_divided_from_the_beginning(tasks, capsys):
    asked = []

    def perform(calls):
        for call in calls:
            asked.append((call[0].repeat, call[0].r_grid))
            yield call, Lost("it died") if 3 in call[0].r_grid else execute(*call)

    answers = dict(divide_lost_tasks(perform)((task, PROVENANCE) for task in tasks))
    assert [call[0] for call in answers] == tasks
    assert capsys.readouterr().err.count("it died; each r is run by itself") == 1
    assert asked == [(0, (2, 3, 4)), *((repeat, (r,)) for repeat in range(3) for r in (2, 3, 4))]
    for (task, _), answer in answers.items():
        whole = execute(task, PROVENANCE).rows
        assert [row["status"] for row in answer.rows] == ["ok", "failed", "ok"]
        assert [row["r"] for row in answer.rows] == [2, 3, 4]
        assert answer.rows[1]["error"] == "it died"
        assert [answer.rows[i]["objective"] for i in (0, 2)] == [whole[i]["objective"] for i in (0, 2)]


def test_a_task_with_a_late_r_is_late(tasks):
    def perform(calls):
        for call in calls:
            r_grid = call[0].r_grid
            yield call, Lost("it died") if len(r_grid) > 1 else Late() if r_grid == (4,) else Answer([])

    assert [answer for _, answer in divide_lost_tasks(perform)([(tasks[0], PROVENANCE)])] == [Late()]


def test_what_runs_when_the_budget_ends_is_stopped_and_left_to_the_same_command(rogue, monkeypatch):
    monkeypatch.setattr(
        module, "ALLOWANCE_SECONDS", module.DRAWING_SECONDS
    )  # no time between the last beginning and it
    monkeypatch.setenv("ROGUE", "2:sleep")
    (experiment,) = compose(
        *SETTINGS[:-3], "r_grid=[2]", *SETTINGS[-2:], "repeats=1", "timing_repeats=0"
    ).experiments  # fmt: skip
    folder = prepare("synth", experiment.options)
    tasks = experiment.tasks(open_prepared(folder), folder)
    for backend in ("sequential", "loky"):
        store, seconds = Store(rogue / backend), dict.fromkeys(tasks, 1.0)
        until = time.time() + 4
        done = run_tasks(tasks, Runner(backend, 1, 1), store, seconds, Progress(1, 1.0), until=until)
        assert done == ([], 1)
        assert call_name((tasks[0],)) == "synth rogue.Rogue repeat=0"
    monkeypatch.delenv("ROGUE")
    rows, late = run_tasks(tasks, Runner("loky", 1, 1), store, seconds, Progress(1, 1.0))
    assert ([row["status"] for row in rows], late) == (["ok"], 0)


# -- what is no Exception --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "error"), [BAD[8], BAD[9]])
def test_what_is_no_exception_is_a_row_of_a_comparison_and_not_a_traceback(how, error, rogue, monkeypatch, rng):
    A = rng.standard_normal((40, 8))
    good = kmdr.compare(A, ["rogue.Rogue"], k=3, r_grid=[2, 3, 4], repeats=2, progress=False).rows
    monkeypatch.setenv("ROGUE", f"3:{how}")
    rows = kmdr.compare(A, ["rogue.Rogue"], k=3, r_grid=[2, 3, 4], repeats=2, progress=False).rows
    assert rows["status"].tolist() == ["ok", "failed", "ok"] * 2
    assert set(rows.loc[rows["r"] == 3, "error"]) == {error}
    assert rows.loc[rows["r"] != 3, "objective"].tolist() == good.loc[good["r"] != 3, "objective"].tolist()


def test_an_exception_without_a_readable_message_is_a_failed_row(rogue, monkeypatch, rng):
    monkeypatch.setenv("ROGUE", "3:mute")
    rows = kmdr.compare(rng.standard_normal((40, 8)), ["rogue.Rogue"], k=3, r_grid=[2, 3, 4], progress=False).rows
    assert {(row.r, row.status) for row in rows.itertuples()} == {(2, "ok"), (3, "failed"), (4, "ok")}
    assert set(rows.loc[rows["r"] == 3, "error"]) == {"Mute, whose message raises RuntimeError"}


def test_the_users_interrupt_is_none_of_a_method(rogue, monkeypatch, rng):
    monkeypatch.setenv("ROGUE", "2:interrupt")
    with pytest.raises(KeyboardInterrupt):
        kmdr.compare(rng.standard_normal((60, 4)), ["rogue.Rogue"], k=2, r_grid=[2], repeats=1, progress=False)


def test_an_interrupt_is_the_users_where_a_signal_can_raise_it():
    assert is_interrupt(KeyboardInterrupt())
    assert is_interrupt(Interrupted(2))
    assert not is_interrupt(SystemExit())
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        assert not is_interrupt(KeyboardInterrupt())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def test_a_trial_announces_its_memory_only_if_it_is_limited(monkeypatch):
    announced = []
    monkeypatch.setattr(limits._State, "announce", None)
    limits.begin()
    assert not limits.is_watched()
    limits.watch(Limit(seconds=1), announced.append)
    limits.begin()
    assert announced == [Begun(0)]
    limits.watch(replace(Limit(seconds=1), memory=1), announced.append)
    limits.begin()
    if can_measure_memory():
        assert announced[1].memory > 1 << 20
    assert os.getpid() in process_tree(os.getpid())


@pytest.mark.parametrize("setting", [("reducer=outside", "reducer.path=ends.A"), ("kmeans.engine=ends.A",)])
def test_a_module_that_ends_the_process_when_it_is_imported_is_refused_in_a_sentence(setting, rogue):
    (rogue / "ends.py").write_text("import sys\nsys.exit(3)\nclass A: pass\n")
    with pytest.raises(UserError, match=r"ends\.py:2 ended the import of 'ends\.A' \(SystemExit: 3\)"):
        compose("dataset=synth", *setting)


def test_a_worker_with_limits_ends_when_it_is_idle_and_is_replaced_for_the_next_call(monkeypatch):
    monkeypatch.setattr(local, "_IDLE_SECONDS", 0.2)
    ours, theirs = Pipe()
    with ThreadPoolExecutor() as pool:
        monkeypatch.setattr(local, "_end_with", lambda parent: None)
        served = pool.submit(local._serve, divmod, theirs, os.getppid())
        assert ours.recv() is None
        ours.send(((), Limit(until=time.time() + 600)))
        assert ours.recv() is None
        assert served.result(60) is None
    ours.close()
    theirs.close()
    with Workers(divmod, 1, print, limit=Limit(seconds=60)) as workers:
        assert [answer for _, answer in workers.run([(7, 2)], 1, str)] == [(3, 1)]
        (worker,) = workers._pool.values()
        kill_tree(worker.process.pid)
        assert [answer for _, answer in workers.run([(9, 2)], 1, str)] == [(4, 1)]


@pytest.mark.parametrize("setting", ["reducer=outside reducer.path={}", "kmeans.engine={}"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("time.sleep(10**5)", "stopped: it took more than 2 s; raise runner.limit.seconds to allow more"),
        ("os._exit(3)", "its worker ended with exit status 3, 3 times"),
    ],
)
def test_the_import_of_a_third_party_module_has_the_limits_of_a_trial(tmp_path, monkeypatch, setting, body, reason):
    name = f"slow_{len(setting)}_{len(body)}"
    (tmp_path / f"{name}.py").write_text(f"import os, time\nif os.getpid() != {os.getpid()}:\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"'{name}.X' cannot be imported: {reason}"):
        compose("dataset=synth", *setting.format(f"{name}.X").split(), "runner.limit.seconds=2")


def test_a_module_that_raises_is_refused_as_without_limits(tmp_path, monkeypatch):
    (tmp_path / "raising_module.py").write_text("raise SystemExit(4)\n")
    monkeypatch.syspath_prepend(tmp_path)
    messages = set()
    for further in ([], ["runner.limit.seconds=60"]):
        with pytest.raises(UserError) as caught:
            compose("dataset=synth", "kmeans.engine=raising_module.X", *further)
        messages.add(str(caught.value))
    (message,) = messages
    assert "raising_module.py:1 ended the import of 'raising_module.X' (SystemExit: 4)" in message


def test_a_crash_without_limits_names_the_line_of_the_method(rogue, monkeypatch):
    monkeypatch.setenv("ROGUE", "2:crash")
    command = [sys.executable, "-m", "kmdr", *SETTINGS, "r_grid=[2]", "runner=sequential", "out=crashed"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in ended.stderr
    assert "rogue.py" in ended.stderr


# -- what a method leaves behind -------------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", ["sequential", "loky"])
def test_a_process_that_a_method_forks_neither_answers_nor_continues_the_run(runner, rogue, monkeypatch, capfd):
    settings = [*SETTINGS[:5], "repeats=4", "r_grid=[2]", *SETTINGS[-2:], f"runner={runner}"]
    assert run_jobs([compose(*settings, "out=good")]) == 0
    monkeypatch.setenv("ROGUE", "2:fork")
    capfd.readouterr()
    first, status = os.getpid(), run_jobs([compose(*settings, "out=bad")])
    if os.getpid() != first:
        os._exit(0)
    assert status == 0
    time.sleep(1)  # a copy of this process would report the end of the run, too
    assert capfd.readouterr().out.count("rows.csv: 4 rows") == 1
    assert computed(read_rows(rogue / "bad" / "rows.csv")) == computed(read_rows(rogue / "good" / "rows.csv"))


def test_a_process_that_a_method_forks_does_not_return_from_a_comparison(rogue, monkeypatch, rng):
    monkeypatch.setenv("ROGUE", "2:fork")
    first, processes = os.getpid(), rogue / "processes"
    kmdr.compare(rng.standard_normal((40, 8)), ["rogue.Rogue"], k=3, r_grid=[2], repeats=2, progress=False)
    with processes.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if os.getpid() != first:
        os._exit(0)
    time.sleep(1)
    assert processes.read_text() == f"{first}\n"


def test_a_command_ends_although_a_method_left_a_thread(rogue, monkeypatch):
    monkeypatch.setenv("ROGUE", "2:thread")
    command = [sys.executable, "-m", "kmdr", *SETTINGS, "r_grid=[2]", "runner=sequential", "out=left"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0
    assert "rows.csv: 2 rows" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["sequential", "loky"])
@pytest.mark.parametrize(
    "how", ["terminate_forks", "terminate_programs", "leave_pool", "leave_process", "replace_streams"]
)
def test_what_a_method_does_with_processes_and_streams_changes_neither_rows_nor_output(how, runner, rogue, monkeypatch):
    if (how, runner) == ("leave_process", "loky"):
        pytest.skip("multiprocessing starts no process in a worker, which is a daemon")
    settings = [*SETTINGS[:-3], "r_grid=[2,3]", *SETTINGS[-2:], f"runner={runner}"]
    assert run_jobs([compose(*settings, "out=good")]) == 0
    monkeypatch.setenv("ROGUE", f"3:{how}")
    command = [sys.executable, "-m", "kmdr", *settings, "out=bad"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "rows.csv: 4 rows" in ended.stdout
    assert computed(read_rows(rogue / "bad" / "rows.csv")) == computed(read_rows(rogue / "good" / "rows.csv"))


def test_a_comparison_leaves_the_folder_and_the_streams_of_its_process(rogue, monkeypatch, rng):
    monkeypatch.setenv("ROGUE", "2:replace_streams 3:move")
    before = Path.cwd(), sys.stdout, sys.stderr
    rows = kmdr.compare(rng.standard_normal((40, 8)), ["rogue.Rogue"], k=3, r_grid=[2, 3], repeats=1, progress=False)
    assert (Path.cwd(), sys.stdout, sys.stderr) == before
    assert set(rows.rows["status"]) == {"ok"}
