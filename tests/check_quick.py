"""Check what `make quick` wrote: ``python tests/check_quick.py results/quick``."""

import json
import sys
from pathlib import Path

from kmdr import datasets
from kmdr.claims.catalogue import claims, items
from kmdr.harness.jobs import compose_studies
from kmdr.results.reader import read_rows

folder = Path(sys.argv[1])
rows = read_rows(folder / "rows.csv")
plan = json.loads((folder / "plan.json").read_text())
assert plan["thinned_grid"], "the plan says that a thinned grid is the full one"
assert not plan["full"], "the plan says that a thinned run is the full one"
jobs = compose_studies(str(folder))
for job in jobs:
    name = job.study["name"]
    of_study = [row for row in rows if row["study"] == name]
    failed = [row for row in of_study if row["status"] != "ok"]
    assert not failed, f"{name}: {failed[0]}"
    left_out = plan["studies"][name]["left_out"]
    for experiment in job.experiments:
        trials = [
            row for row in of_study if (row["dataset"], row["reducer"]) == (experiment.dataset, experiment.reducer)
        ]
        can_be_had = datasets.availability_of(experiment.dataset).state in ("prepared", "generated")
        assert trials or left_out or not can_be_had, (
            f"{name} has no rows of {experiment.reducer} on {experiment.dataset}"
        )
        # A method with a width of its own has that one too, where another setting of it has several.
        assert len({row["r"] for row in trials}) <= 3 + 1, f"{name}: {experiment.reducer} is not on a thinned grid"
        assert all(0 <= float(row["objective"]) <= 1 and float(row["accuracy"]) > 0 for row in trials)
        if trials and experiment.timing_repeats:
            assert any(row["concurrency"] == "1" for row in trials), f"{name} has no serial times"
page = (folder / "report" / "index.html").read_text(encoding="utf-8")
for entry in [*items(), *claims()]:
    assert f'"{entry.id}"' in page, f"{entry.id} is not in the report"
assert "Not the full run" in page, "the report does not say that it is of a thinned run"
for kind in ("png", "csv"):
    assert (folder / "figures" / f"bzmd15_fig1.{kind}").stat().st_size > 1000, f"bzmd15_fig1.{kind} is missing or empty"
usps = [float(row["objective"]) for row in rows if (row["dataset"], row["reducer"]) == ("usps", "none")]
assert usps, "USPS has no rows, though the package index has it"
assert max(usps) < 0.48, f"k-means on all of USPS gave F = {max(usps)}; 0.45 is known"
print(f"{folder}: {len(rows)} rows of {len(jobs)} studies as they should be")
