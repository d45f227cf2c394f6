"""Check what `make quick` wrote: ``python tests/check_quick.py results/quick``."""

import csv
import sys
from pathlib import Path

from kmdr import datasets
from kmdr.cli import compose, study_names

folder = Path(sys.argv[1])
with (folder / "rows.csv").open(newline="") as file:
    rows = list(csv.DictReader(file))
for name in study_names():
    mine = [row for row in rows if row["study"] == name]
    failed = [row for row in mine if row["status"] != "ok"]
    assert not failed, f"{name}: {failed[0]}"
    for experiment in compose(f"study={name}").experiments:
        found = [row for row in mine if (row["dataset"], row["reducer"]) == (experiment.dataset, experiment.reducer)]
        can_be_had = datasets.availability(experiment.dataset).state in ("prepared", "generated")
        assert found or not can_be_had, f"{name} has no rows of {experiment.reducer} on {experiment.dataset}"
        assert len({row["r"] for row in found}) in (0, 1, 4), f"{name}: {experiment.reducer} is not on the thinned grid"
        assert all(0 <= float(row["objective"]) <= 1 and float(row["accuracy"]) > 0 for row in found)
        assert not found or any(row["concurrency"] == "1" for row in found), f"{name} has no serial times"
    for kind in ("pdf", "png", "csv"):
        assert (folder / "figures" / f"{name}.{kind}").stat().st_size > 1000, f"{name}.{kind} is missing or empty"
usps = [float(row["objective"]) for row in rows if (row["dataset"], row["reducer"]) == ("usps", "none")]
assert usps, "USPS has no rows, though the package index has it"
assert max(usps) < 0.46, f"k-means on all of USPS gave F = {max(usps)}; 0.45 is known"
print(f"{folder}: {len(rows)} rows of {len(study_names())} studies as they should be")
