"""What a report shows of rows that no paper knows."""

import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kmdr.analysis.comparison import compared, with_ratio
from kmdr.claims.catalogue import papers
from kmdr.cli.jobs import run_jobs
from kmdr.config.studies import studies
from kmdr.harness.jobs import compose
from kmdr.reporting.build import build
from kmdr.reporting.study_runs import _ranks, study_runs
from kmdr.results.table import rows_of
from reports import make_report, page_and_markdown
from rows import hashed, make_rows, write_rows

DATA = ("dataset=synth", "dataset.n=80", "dataset.d=30", "dataset.k=3")
SETTINGS = ("repeats=4", "r_grid=[2,5]", "runner=sequential", "kmeans.n_init=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMDR_CACHE", str(root / "cache"))
        for reducer in ("random_sign", "none"):
            assert run_jobs([compose(*DATA, *SETTINGS, f"reducer={reducer}", f"out={root}/out")]) == 0
        build(root / "out", studies())
    return root / "out"


def test_a_report_of_own_rows_begins_with_them(folder):
    page = (folder / "report" / "index.html").read_text()
    assert re.findall(r'<section class="view[^"]*" id="([^"]+)"', page)[:2] == ["home", "own-runs"]
    assert ">Your runs</h2>" in page
    assert (folder / "figures" / "own_custom.png").is_file()
    assert "## Your runs\n" in (folder / "report" / "index.md").read_text()


def test_a_report_of_own_rows_is_about_them_alone(folder):
    """It had 44 claims "not run", and facts of papers that nobody ran."""
    page, text = (folder / "report" / "index.html").read_text(), (folder / "report" / "index.md").read_text()
    views = re.findall(r'<section class="view[^"]*" id="([^"]+)"', page)
    assert not [view for view in views if view.startswith("paper-") or view == "open-points"]
    assert {"home", "own-runs", "explore", "runs"} <= set(views)
    for name in (paper.name for paper in papers()):
        assert page.count(f"{name}-") == 0
        assert not (folder / "report" / f"{name}.md").exists()
    for shown in (page, text):
        assert "no rows here" not in shown
        assert "Rerun random_sign on synth:" in shown.replace("\\_", "_")
        assert "add <code>out=FOLDER" in shown or "add `out=FOLDER" in shown
    links = re.findall(r'<p class="muted">(Figures|Tables): (.*)</p>', page)
    assert [place for place, _ in links] == ["Figures", "Tables"]
    for _, inside in links:
        names = re.findall(">([^<]+)</a>", inside)
        assert len(set(names)) == len(names) > 0
    assert not (folder / "verdicts.csv").exists()
    assert not (folder / "facts").exists()


def test_the_page_of_runs_is_true_of_own_rows(folder):
    """It had no row of them, the reason for repetitions of the papers' studies, and commands that run these."""
    page = (folder / "report" / "index.html").read_text().split('" id="runs"')[1].split("</section>")[0]
    rows = rows_of(folder)
    assert f"{len(rows)} rows from 1 of 1 studies; no row failed; " in page
    assert f'<td class="num">4</td><td class="num">{len(rows)}</td>' in page
    assert "<td>Synth</td>" in page
    for shown in (page, (folder / "report" / "runs.md").read_text()):
        assert "kmdr verify FOLDER" in shown
        assert "kmdr report FOLDER" in shown
        for other in ("pilot", "make ", "reproduce", "committed", "Open points", "Printed numbers"):
            assert other not in shown


def test_a_version_of_the_code_has_all_rows_of_the_page(folder, tmp_path):
    """It had only those of the last command."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    changed = [*DATA[:1], "dataset.n=60", *DATA[2:]]
    assert run_jobs([compose(*changed, *SETTINGS, "reducer=none", f"out={copy}")]) == 0
    build(copy, studies())
    lines = re.findall(r"\* (\d+) rows by", (copy / "report" / "runs.md").read_text())
    assert sum(map(int, lines)) == len(rows_of(copy)) == 16


def test_the_page_of_runs_is_true_of_a_custom_paper():
    report = make_report()
    custom = replace(report.papers[0], folder=replace(report.papers[0].folder, name="own26"))
    for page in page_and_markdown(replace(report, papers=[custom])):
        assert "pilot" not in page
        assert "make reproduce" not in page


def test_a_study_of_ours_beyond_its_paper_stands_behind_the_papers(tmp_path):
    """It was headed by "Your runs"."""
    name, title, paper = next(
        (study["name"], study["title"], study["paper"]) for study in studies() if study.get("beyond_paper")
    )
    rows = [make_rows(study, "orl", reducer) for study in (name, "mine") for reducer in ("random_sign", "none")]
    write_rows(tmp_path, *rows)
    build(tmp_path, studies())
    page = (tmp_path / "report" / "index.html").read_text()
    views = re.findall(r'<section class="view[^"]*" id="([^"]+)"', page)
    assert views.index("own-runs") == 1
    assert views.index(f"paper-{paper}") < views.index("beyond")
    own, beyond = (page.split(f'" id="{part}"')[1].split("</section>")[0] for part in ("own-runs", "beyond"))
    assert (f"<h2>{title}</h2>" in own, "<h2>mine</h2>" in own) == (False, True)
    assert (f"<h2>{title}</h2>" in beyond, "<h2>mine</h2>" in beyond) == (True, False)
    first, runs = ((tmp_path / "report" / name).read_text() for name in ("index.md", "runs.md"))
    assert first.index("## Your runs: mine") < first.index("## Scorecard")
    assert f"## Beyond the papers: {title}" in runs


def test_a_study_of_a_plugin_needs_no_paper(tmp_path, monkeypatch):
    """Its report stopped with a traceback."""
    (tmp_path / "plugin" / "conf" / "study").mkdir(parents=True)
    (tmp_path / "plugin" / "conf" / "study" / "mine.yaml").write_text(
        "study: {title: Without a paper, datasets: [orl], reducers: [random_sign, none]}\nrepeats: 2\n"
    )
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "plugin"))
    (tmp_path / "out").mkdir()
    write_rows(tmp_path / "out", *(make_rows("mine", "orl", reducer) for reducer in ("random_sign", "none")))
    page = build(tmp_path / "out", studies())
    assert "<h2>Without a paper</h2>" in page.read_text().split('" id="own-runs"')[1].split("</section>")[0]


def test_its_table_is_the_means_of_the_rows(folder):
    table, rows = pd.read_csv(folder / "tables" / "own_custom.csv"), rows_of(folder)
    assert len(table) == 3  # two r of one method, and all features
    best = rows["objective"].min()  # of the data, whatever the method
    for _, line in table.iterrows():
        reducer = line["method"]
        of_line = rows[(rows["reducer"] == reducer) & (rows["r"] == line["r"])]
        assert line["F/F_best"] == pytest.approx((of_line["objective"] / best).mean())
        assert line["P"] == pytest.approx(of_line["accuracy"].mean())
        assert line["n"] == len(of_line) == 4
        if reducer == "none":
            assert (
                np.isnan(line["against none"]) if isinstance(line["against none"], float) else not line["against none"]
            )
        else:
            assert line["against none"] in ("F higher", "F lower", "no difference shown")


def test_the_best_of_its_data_is_bold_on_the_page_as_in_markdown(folder):
    table = pd.read_csv(folder / "tables" / "own_custom.csv", index_col="method")
    label = table["F/F_best"].idxmin()
    for text, row in (
        ((folder / "report" / "index.html").read_text(), rf"<tr>(?=<td>[^<]*</td><td>{label}</td>)(.*?)</tr>"),
        ((folder / "tables" / "own_custom.md").read_text(), rf"\n(\| [^|]* \| {label} \|.*)\n"),
    ):
        line = re.search(row, text)
        best = f"{table.loc[label, 'F/F_best']:.4f}"
        assert f"<strong>{best}</strong>" in line[1] or f"**{best}**" in line[1]
        assert "Bold: the best of its data." in text


@pytest.mark.slow
def test_methods_are_ranked_over_several_datasets(tmp_path):
    """Against ranks by hand: random signs are second on both, in F; and no ranks where there is one dataset."""
    parts = [
        make_rows("custom", data, name, (2, 5), 3, objective=F + 0.001 * i, accuracy=F, config_hash=f"{data}{name}")
        for i, data in enumerate(("first", "second"))
        for name, F in (("leverage", 0.2), ("random_sign", 0.3), ("none", 0.1))
    ]
    write_rows(tmp_path, *parts)
    table = pd.read_csv(tmp_path / "rows.csv", dtype=str)
    data = {name: str(i) * 64 for i, name in enumerate(("first", "second"))}
    table = hashed(table.assign(data_sha256=table["dataset"].map(data)))
    table.to_csv(tmp_path / "rows.csv", index=False)
    (both,) = study_runs(rows_of(tmp_path), {"custom": "custom"})
    ranks = both.ranks.frame.set_index("method")
    assert ranks["F/F_best"].to_dict() == {"none": 1.0, "leverage": 2.0, "random_sign": 3.0}
    assert ranks["P"].to_dict() == {"none": 3.0, "leverage": 2.0, "random_sign": 1.0}
    assert not any("±" in name for name in ranks)  # two datasets give no interval
    table[table["dataset"] == "first"].to_csv(tmp_path / "rows.csv", index=False)
    assert study_runs(rows_of(tmp_path), {"custom": "custom"})[0].ranks is None


def test_ranks_are_of_means_over_the_same_r():
    """Random signs are better than SVD at the only r of both; their mean over all r is worse."""
    methods = {
        ("random_sign", "{}", (2, 5)): lambda r, _: 0.9 / r,
        ("svd", '{"rank":"r"}', 5): 0.2,
        ("svd", '{"rank":"k"}', 3): 0.19,
        ("none", "{}", 200): 0.1,
    }
    parts = [
        make_rows("custom", data, name, r, 3, objective=F, params=params, config_hash=f"{data}{name}{params}")
        for data in ("first", "second")
        for (name, params, r), F in methods.items()
    ]
    lines = compared(with_ratio(pd.concat(parts, ignore_index=True)))
    ranks = _ranks(lines).frame.set_index("method")["F/F_best"]
    assert dict(zip(ranks.index, ranks, strict=True)) == {
        "none": 1.0, "random_sign": 2.0, "svd (rank = k)": 3.0, "svd (rank = r)": 4.0
    }  # fmt: skip


@pytest.mark.slow
def test_its_commands_give_the_same_rows(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(folder.parent / "cache"))
    page = (folder / "report" / "index.md").read_text()
    commands = re.findall(r"Rerun [^`]*: `(kmdr dataset=[^`]+)`", page)
    assert len(commands) == 2
    for text in commands:
        program, *settings = shlex.split(text)
        assert program == "kmdr"
        assert run_jobs([compose(*settings, *DATA[1:], "runner=sequential", f"out={tmp_path}/again")]) == 0
    old, new = rows_of(folder), rows_of(tmp_path / "again")
    pd.testing.assert_frame_equal(
        old[["reducer", "r", "repeat", "objective"]], new[["reducer", "r", "repeat", "objective"]]
    )
