"""What the bench calls slower: the same on any machine, by the work done in the same rounds."""

import importlib
import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
bench = importlib.import_module("bench")


def table(**seconds):
    """A case of one kernel with the seconds of each contender."""
    ours = seconds["ours"]
    return pd.DataFrame(
        [
            {"kernel": "k", "size": "s", "threads": 1, "contender": name, "seconds": s, "ratio_to_ours": s / ours}
            for name, s in seconds.items()
        ]
    )


@pytest.mark.parametrize("machine", [1.0, 7.0])
def test_a_slow_down_is_told_from_a_slow_machine_by_the_calibration(machine):
    before = table(ours=1.0, peer=3.0, calibration=2.0)
    # The peer got faster, which says nothing of ours.
    now = table(ours=1.5 * machine, peer=1.0 * machine, calibration=2.0 * machine)
    assert bench.slowdowns(now, before).to_dict() == {("k", "s", 1): pytest.approx(1.5)}


def test_without_a_calibration_the_median_over_common_contenders_decides():
    before = table(ours=1.0, a=2.0, b=4.0, c=8.0, gone=1.0)
    now = table(ours=6.0, a=6.0, b=12.0, c=240.0, calibration=1.0)
    assert bench.slowdowns(now, before).to_dict() == {("k", "s", 1): pytest.approx(2.0)}


def test_cases_without_anything_in_common_are_left_out():
    assert bench.slowdowns(table(ours=1.0, a=2.0), table(ours=1.0, b=2.0)).empty


def test_what_got_slower_is_named_and_the_rest_summed_up(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "COMMITTED", tmp_path / "bench.csv")
    assert "nothing is compared" in bench.slower(table(ours=1.0, calibration=1.0))[0]
    table(ours=1.0, calibration=1.0).to_csv(bench.COMMITTED, index=False)
    assert bench.slower(table(ours=1.3, calibration=1.0)) == [
        "slower since the committed bench: k s, threads 1: 1.30 ×",
        "time now ÷ then: k 1.30",
    ]
    assert bench.slower(table(ours=1.1, calibration=1.0)) == ["time now ÷ then: k 1.10"]
