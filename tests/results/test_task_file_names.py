"""Files of strangers among the task files of a folder of results, whatever their names are."""

import os
import shutil

import pytest

from commands import Command

NAMES = (b"\xff\xfe.csv", "ü.csv".encode(), b"a b.csv", b"=1+1.csv", b"\x1b[31m.csv", b"-x.csv", b"a\nb.csv")


@pytest.mark.slow
def test_a_task_file_with_any_name_does_not_stop_the_next_run(tmp_path):
    out = tmp_path / "out"
    arguments = (
        "dataset=synth", "dataset.n=40", "dataset.d=6", "dataset.k=2", "reducer=none", "r_grid=[2]", "repeats=2",
        "timing_repeats=0", "runner=sequential", f"out={out}",
    )  # fmt: skip

    def run():
        command = Command(*arguments, environment=dict(os.environ))
        _, error = command.communicate(timeout=300)
        return command.returncode, error

    status, error = run()
    assert status == 0, error
    rows = (out / "rows.csv").read_text()
    file = next(out.glob("tasks/*/*/*/*.csv"))
    for name in NAMES:
        shutil.copy(file, file.with_name(os.fsdecode(name)))
    status, error = run()
    assert status == 0, error
    assert "stopped by" not in error
    assert not any(character in error for character in "\x1b\udcff")
    assert (out / "rows.csv").read_text() == rows
