"""Workers that die, and commands that are told to stop."""

import operator
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe

import pytest

from kmdr.harness.engines import local as module
from kmdr.harness.engines.local import Lost, Workers


@pytest.fixture(autouse=True)
def warm_workers():
    """Here they are what a command has."""


def test_what_has_begun_for_some_calls_does_the_next_ones(capfd):
    with Workers(os.path.commonprefix, 1, print) as workers:
        (first,) = [list(workers._pool) for _ in workers.run([(["ab", "ac"],)], 1, str)]
        assert list(workers.run([(["a", "b"],), (["abc", "abd"],)], 2, str))
        assert first[0] in workers._pool
        assert len(workers._pool) == 2


def test_what_calls_share_comes_before_their_own_and_is_sent_once_to_each_worker():
    class Counted(tuple):
        sent = 0

        def __reduce__(self):
            Counted.sent += 1
            return tuple, (tuple(self),)

    with Workers(divmod, 1, print, Counted([7])) as workers:
        answers = dict(workers.run([(2,), (3,), (4,), (5,), (6,)], 2, str))
    assert answers == {(n,): divmod(7, n) for n in (2, 3, 4, 5, 6)}
    assert 1 <= Counted.sent <= 2


@pytest.mark.slow
def test_a_call_that_kills_its_worker_is_tried_twice_more_and_lost_and_the_others_are_unharmed(capfd):
    told = []
    calls = [(signal.SIGURG,), (signal.SIGKILL,), (signal.SIGURG,), (signal.SIGURG,)]  # who is sent URG lives
    with Workers(signal.raise_signal, 1, told.append) as workers:
        answers = list(workers.run(calls, 2, lambda call: f"signal {call[0]}"))
        children = [worker.process.pid for worker in workers._pool.values()]
    assert sorted(call[0] for call, _ in answers) == sorted(call[0] for call in calls)
    (lost,) = [answer for call, answer in answers if call == (signal.SIGKILL,)]
    assert lost == Lost("its worker was ended by SIGKILL, as happens when memory runs out, 3 times")
    assert [answer for call, answer in answers if call != (signal.SIGKILL,)] == [None] * 3
    assert len(told) == 2
    assert told[0].startswith(f"kmdr: warning: the worker of signal {signal.SIGKILL:d} was ended by SIGKILL")
    for pid in children:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert "Traceback" not in capfd.readouterr().err


def test_workers_that_die_as_they_start_end_a_run_only_in_a_row(tmp_path):
    """Three of them died in a run of days, each with hours between them in which others worked."""
    starts, first = tmp_path / "starts", tmp_path / "first"
    kill = "__import__('os').kill(__import__('os').getpid(), 9)"

    class EverySecond:
        def __reduce__(self):
            grown = f"(open({str(starts)!r}, 'a').write('.'), open({str(starts)!r}).read().count('.') % 2)[1]"
            return eval, (f"{kill} if {grown} else eval",)

    once = f"open({str(first)!r} + NAME, 'x').close() or {kill}"
    unless = f"__import__('os').path.exists({str(first)!r} + NAME)"
    calls = [(f"1 if {unless} else {once}".replace("NAME", repr(name)),) for name in "abc"]
    with Workers(operator.call, 1, lambda line: None, (EverySecond(),)) as workers:
        assert [answer for _, answer in workers.run(calls, 1, str)] == [1, 1, 1]
    assert len(starts.read_text()) == 8


def test_what_a_call_raises_is_raised_here_with_the_traceback_of_the_worker():
    with (
        Workers(divmod, 1, print) as workers,
        pytest.raises(RuntimeError, match=r"^ZeroDivisionError: ") as raised,
    ):
        list(workers.run([(1, 0)], 1, str))
    assert "Traceback" in raised.value.__notes__[0]


def test_a_worker_says_nothing_when_its_driver_is_gone_with_something_unread(monkeypatch):
    monkeypatch.setattr(module, "_end_with", lambda parent: None)
    ours, theirs = Pipe()
    with ThreadPoolExecutor() as pool:
        served = pool.submit(module._serve, divmod, theirs, os.getppid())
        assert ours.poll(60)  # it is ready
        ours.close()  # as the system closes it when the driver is killed; the worker's end is reset
        assert served.result(60) is None
    theirs.close()


def stopped(command, *signals):
    """Run a command as kmdr runs one, send it signals one after another and return its status and stderr."""

    def listening():
        for number in signals:
            signal.signal(number, signal.SIG_DFL)  # shells let what runs in the background ignore INT

    imports = "import time\nfrom kmdr.base.process import exit_status\n"
    script = f"{imports}def command():\n{command}\nraise SystemExit(exit_status(command))"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listening,  # noqa: PLW1509
    )
    for number in signals:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


PATIENT = " print('ready', flush=True)\n time.sleep(600)"
DEAF = " while True:\n  try:\n   print('ready', flush=True)\n   time.sleep(600)\n  except KeyboardInterrupt: pass"


@pytest.mark.parametrize(
    ("command", "signals", "status"),
    [
        (PATIENT, [signal.SIGINT], 130),
        (PATIENT, [signal.SIGTERM], 143),
        (PATIENT, [signal.SIGHUP], 129),
        (DEAF, [signal.SIGINT, signal.SIGINT], 130),
        (DEAF, [signal.SIGINT, signal.SIGTERM], 143),
    ],
)
def test_a_command_that_is_told_to_stop_says_one_line_and_ends_at_the_second_signal_at_once(command, signals, status):
    code, err = stopped(command, *signals)
    assert code == status
    assert err == "kmdr: interrupted; finished tasks are kept, and the same command does the rest\n"


def test_a_command_without_standard_streams_ends_as_it_would_with_them():
    script = (
        "import sys; from kmdr.base.process import exit_status; raise SystemExit(exit_status(lambda: print('x') or 3))"
    )
    closed = subprocess.run(["sh", "-c", f'"$0" -c "{script}" >&- 2>&- <&-', sys.executable], check=False)
    assert closed.returncode == 3
