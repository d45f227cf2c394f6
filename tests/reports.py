"""A report with every state that one can show, made of nothing but names and numbers."""

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from kmdr.analysis.statistics import Component, Margin
from kmdr.base.plugins import PaperFolder
from kmdr.claims.catalogue import Claim, Item, OpenPoint, Paper
from kmdr.claims.register import Change, Flip
from kmdr.claims.summary import Deviation, Sentence, Summary
from kmdr.claims.verdicts import Diagnosis, Judgement, Swing, Verdict
from kmdr.config.studies import studies
from kmdr.figures.canvas import Drawing, figure_files
from kmdr.figures.tables import Table, table_files
from kmdr.reporting.explore import explored
from kmdr.reporting.html import report_pages
from kmdr.reporting.model import Report, Reproduction
from kmdr.reporting.verdict_tables import verdict_tables
from kmdr.results.folder import write_files
from rows import make_rows

COMMAND = "kmdr study=bzmd15_fig1 && kmdr report results/runs"


def save(drawing, stem):
    """Write a figure and return the paths of its files."""
    return write_files(stem.parent, figure_files(drawing, Path(stem.name)))


def save_table(table, stem):
    """Write a table and return the paths of its files."""
    return write_files(stem.parent, table_files(table, Path(stem.name)))


def write_report(report, folder):
    """Write the figures, tables and pages of a report and return the paths of the pages."""
    write_files(folder, report.files | verdict_tables(report))
    return write_files(folder, report_pages(report, "0.1.0+gtest"))


def page_and_markdown(report):
    """Return the page of a report, and its Markdown pages as one text."""
    page, *others = (content.decode() for content in report_pages(report, "0").values())
    return page, "\n".join(others)


SUMMARY = Summary(
    short="Signs & <more>",
    findings=(Sentence("It is {verdicts claim=bzmd15-1 outcome} & <plain>.", title="A finding", lead=1),),
    scope=(Sentence("Two datasets."),),
    easy=(Sentence("`A` is given."),),
    deviations=(Deviation("data", "1400 <images>", "1440", "P moves by {bzmd15-1 effect:.2f}."),),
    limitations=(Sentence("Times are ours."),),
)


def papers():
    """Four papers, of which nothing but the name is known to any folder."""
    return [
        Paper(
            PaperFolder(name, Path(name), name), f"Title of {name}", "A, B", f"Venue {year}", f"https://example.org/{name}",
            year, (), (), (), (), (), summary=SUMMARY if name == "bzmd15" else Summary(),
        )
        for name, year in (("bmd09", 2009), ("bzmd15", 2015), ("lst17", 2017), ("lf20", 2020))
    ]  # fmt: skip


def draw(_):
    """One panel, laid out as `nothing` else.

    * F & P
    * r < 20

    Parameters
    ----------
    _ : Results
    """


def curves(datasets=("synth",), r=(5, 10, 20), methods=("RP", "SVD")):
    """Numbers as a figure draws them: the mean is a number that no other line has."""
    lines = [
        {
            "quantity": quantity,
            "dataset": dataset,
            "reducer": method.lower(),
            "r": size,
            "label": method,
            "drawn_as": "curve",
        }
        for quantity in ("objective", "accuracy")
        for dataset in datasets
        for size in r
        for method in methods
    ]
    return pd.DataFrame(lines).assign(mean=lambda frame: 0.1 + 0.001 * frame.index)


def made_figure(id_, state, title, inches=(7.0, 4.0), **texts):
    item = Item(id_, "figure", title, ("bzmd15_fig1",), (), (), draw)
    fig = Figure(figsize=inches, layout="constrained")
    numbers = curves()
    ax = fig.add_subplot()
    for label, group in numbers[numbers["quantity"] == "objective"].groupby("label"):
        ax.plot(group["r"], group["mean"], label=label)
    ax.legend()
    drawing = Drawing(fig, [numbers])
    files = figure_files(drawing, Path("figures", id_))
    return Reproduction(
        item, state, files, drawing.numbers, None, texts.get("gaps", ()), texts.get("stand_ins", ()), COMMAND
    )


def made_table(id_):
    frame = pd.DataFrame(
        {
            "dataset": ["nips", "nips"],
            "method": ["all | words", "r = 5k"],
            "reported": [0.881, 0.847],
            "ours": [0.8804, math.nan],
        }
    )
    table = Table(frame, {"reported": ".3f", "ours": ".3f"}, "Best of 30 by F <as in the paper>.")
    files = table_files(table, Path("tables", id_))
    return Reproduction(
        Item(id_, "table", "P and F of NIPS & Bio", (), (), (), draw), "in part", files, frame, table,
        ("bio: has to be got by hand",), (), COMMAND,
    )  # fmt: skip


def not_made(id_):
    item = Item(id_, "figure", "What could not be drawn", (), (), (), draw)
    return Reproduction(item, "not run", {}, pd.DataFrame(), None, ("no rows of lst17_coil20",), (), COMMAND)


def component(effect, p_for, p_against, label="F falls by <r>"):
    return Component(label, effect, effect - 0.1, effect + 0.1, p_for, p_against, 30, "F")


SWING = Swing(
    Margin(0.1, "fall of <F> that is little", {"the paper's own": 0.2}),
    (0.01, 0.1, 0.5, 1.0), ("not supported", "not supported", "undecided", "supported"), math.nan, 0.4,
)  # fmt: skip


def verdicts():
    def verdict(id_, outcome, p_for, p_against, effect, diagnoses=(), swings=()):
        claim = Claim(id_, f"The sentence of {id_} & more.", "§4 <Table 1>", (), (), (), draw)
        if outcome == "not run":
            return Verdict(claim, outcome, "no rows of it", command=COMMAND, gaps=("bio: has to be got by hand",))
        parts = (component(effect, p_for, p_against), component(effect / 2, p_for / 2, p_against))
        return Verdict(
            claim, outcome, f"Explained with {effect}.", parts, {"statement": Judgement(outcome, p_for, p_against)},
            {"bzmd15_fig1": 120}, "0123456789ab", COMMAND, (), diagnoses, swings=swings,
        )  # fmt: skip

    flipped = Diagnosis("flip_rank", "SVD by <r> columns", "not supported", "supported", "It falls by 2 % then.")
    return [
        verdict("bmd09-1", "supported", 1e-6, 1.0, 0.5),
        verdict("bmd09-2", "not run", math.nan, math.nan, math.nan),
        verdict("bzmd15-1", "not supported", 1.0, 0.004, -0.25, (flipped,), (SWING,)),
        verdict("bzmd15-2", "undecided", 0.2, 0.7, 0.03125),
        verdict("lst17-1", "supported", 0.01, 1.0, 12.0),
        verdict("lf20-1", "supported", 0.02, 1.0, 1.5),
        verdict("lf20-10", "undecided", 0.3, 0.5, 0.7),
    ]


def make_report(plan=None):
    long = "A title that goes on: objective, accuracy and running time against the number of dimensions on two datasets"
    flip = Flip("flip_rank", "The top r singular vectors", "rank", ("bzmd15_fig1",), ("bzmd15-1", "bzmd15-2"))
    diagnoses = {
        "bzmd15-1": Diagnosis("flip_rank", "r columns", "not supported", "supported", "It falls."),
        "bzmd15-2": Diagnosis("flip_rank", "r columns", "undecided", "undecided", "It does not."),
    }
    register = [
        (
            OpenPoint("rank", "What does SVD mean against r?", ("bzmd15",), "rank `k`", "rank r"),
            [
                Change(flip, component(-0.02, 0.9, 0.01), component(0.5, 1.0, 0.0)._replace(unit="P"), diagnoses),
                Change(flip, None, None, {}, "no rows of flip_rank"),
            ],
            "",
        ),
        (OpenPoint("drawing", "Is the time of R counted?", ("lf20",), "yes", "no"), [], "Drawing R is 40 % of it."),
        (OpenPoint("size", "Which size?", ("lst17",), "32×32", "128×128"), [], ""),
    ]
    studies = [
        {
            "name": name, "paper": name.partition("_")[0], "bytes": 8e6 * rows,
            "title": f"Study {name}", "datasets": ["synth", "usps"],
            "reducers": ["none", "svd"], "repetitions": repetitions, "rows": rows,
            "failed": failed, "seconds": seconds, "command": f"kmdr study={name}",
        }
        for name, repetitions, rows, failed, seconds in (
            ("bzmd15_fig1", 30, 900, 1, 75.0), ("flip_rank", 10, 80, 0, 9.5), ("lst17_rcv1", 0, 0, 0, 0.0),
        )
    ]  # fmt: skip
    manifest = {"cpu": "A <CPU>", "cores": 2, "packages": {"numpy": "2.4"}, "blas": [{"internal_api": "openblas"}]}
    items = [
        made_table("bmd09_table1"),
        made_figure("bmd09_fig1", "rerun", 'Leverage scores "of words" <NIPS>', (3.4, 6.0)),
        made_figure("bzmd15_fig1", "in part", long, gaps=("coil20: not found",), stand_ins=("light: made from pie",)),
        not_made("lst17_fig1"),
        made_figure("lf20_fig10", "rerun", "A histogram"),
    ]
    return Report(
        papers(), items, verdicts(), register, {"7090d7a38db0": manifest}, {"0.1.0+gabc": 980},
        ["bzmd15_fig1: rows of svd by <2> versions"], studies,
        {"bio": "has to be got by hand", "coil20": "not found"}, plan or {},
        made_on={"bzmd15_fig1": {"7090d7a38db0": 900}, "flip_rank": {"7090d7a38db0": 80}},
    )  # fmt: skip


THINNED = {
    "budget_seconds": 600,
    "full": False,
    "thinned_grid": True,
    "tasks_not_begun": 3,
    "studies": {
        "bzmd15_fig1": {"repeats_full": 30, "repeats_planned": 6, "left_out": []},
        "lst17_rcv1": {"repeats_full": 5, "repeats_planned": 2, "left_out": ["sparsified on rcv1"]},
        "lf20_orl": {"repeats_full": 30, "repeats_planned": 30, "left_out": []},
    },
}


def explored_rows():
    """Three methods on two datasets, at r and with times from tiny to large; one method is timed in parallel alone."""
    seconds = {5: 1e-7, 30: 1.5e-5, 1000: 2.5, 2500: 1234.5}
    parts = []
    for i, dataset in enumerate(("usps", "synth")):
        for j, name in enumerate(("random_sign", "leverage", "svd")):
            for r, repeats in zip(seconds, (1, 2, 10, 30), strict=True):
                parts.append(make_rows(
                    "bzmd15_fig1", dataset, name, r, repeats,
                    objective=lambda r, t, i=i, j=j: (1 + i + j / 10 + (t * (j + 3)) % 7 / 50) / r**0.5,
                    accuracy=lambda r, t, i=i, j=j: 0.2 + 0.1 * i + 0.05 * j + (t * (j + 2)) % 5 / 100,
                    seconds=lambda r, t, j=j: seconds[r] * (1 + j + t % 7 / 70), concurrency=2 if name == "svd" else 1,
                ))  # fmt: skip
        parts.append(make_rows("bzmd15_fig1", dataset, "none", 256, 30, objective=0.015 + 0.01 * i, seconds=0.5))
    return pd.concat(parts, ignore_index=True)


def explored_report(rows=None, plan=None):
    """A report whose views "Answers" and "Explore" have data."""
    return replace(make_report(plan), explored=explored(explored_rows() if rows is None else rows, studies()))
