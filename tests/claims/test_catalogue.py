"""The catalogue is complete: what each paper says it has is made, every open point is answered, nothing dangles."""

import re
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
from omegaconf import OmegaConf

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.claims import catalogue
from kmdr.claims.catalogue import Fact, Finding, claims, item, items, papers, rerun_command
from kmdr.claims.facts import _compute
from kmdr.claims.register import Flip, answered, open_points
from kmdr.claims.reported import reported
from kmdr.claims.verdicts import judge, uncorrected, verdict_on
from kmdr.cli.jobs import from_command_line, run_jobs
from kmdr.config.studies import config_files, on_request, studies, study_names
from kmdr.harness.jobs import compose
from kmdr.harness.plan import Limits
from kmdr.metrics import agreement, matchings
from kmdr.reporting.reproduce import run_papers
from rows import make_results, make_rows

PAPERS = {paper.name: paper for paper in papers()}
FACTS = {fact.name for paper in papers() for fact in paper.facts}


@pytest.mark.parametrize("name", PAPERS)
def test_what_a_paper_says_it_has_is_made(name):
    paper = PAPERS[name]
    assert [made.id for made in paper.items] == [*paper.table_ids, *paper.figure_ids]
    assert [claim.id for claim in paper.claims] == list(paper.claim_ids)
    assert {made.paper for made in (*paper.items, *paper.claims)} == {name}


@pytest.mark.parametrize("name", PAPERS)
def test_every_open_point_of_a_paper_is_answered(name):
    paper = PAPERS[name]
    points = {point.id for point in paper.points}
    assert set(paper.answers) <= points
    flipped = {study["flip"]["entry"] for study in studies() if study.get("flip")}
    by_function = {id_ for other in papers() for id_ in other.answers}
    assert points <= flipped | by_function, "nothing answers some points"
    own = {study["flip"]["entry"] for study in studies() if study.get("flip") and study["paper"] == name}
    assert own <= points | set(paper.diagnoses), "a flip serves nothing that the paper names"


def test_a_point_of_several_papers_is_shown_once():
    shown = {point.id: point for point in open_points()}
    for paper in papers():
        for point in paper.points:
            assert paper.name in shown[point.id].papers
            assert point.chosen in shown[point.id].chosen
            assert point.question == shown[point.id].question or paper.name != shown[point.id].papers[0]
    assert len(shown) == len(open_points())


def test_the_name_of_a_fact_begins_with_its_papers():
    """The report names the command that computes a missing fact by it."""
    assert [fact.name for paper in papers() for fact in paper.facts if not fact.name.startswith(f"{paper.name}_")] == []


@pytest.mark.parametrize("made", [*items(), *claims()], ids=lambda made: made.id)
def test_what_it_reads_exists(made):
    assert made.studies or made.facts
    assert set(made.studies) <= set(study_names())
    assert set(made.facts) <= FACTS
    make = made.make if hasattr(made, "make") else made.test
    assert len((make.__doc__ or "").split()) > 10, f"{made.id} does not say how it is made or tested"


@pytest.mark.parametrize("name", study_names())
def test_a_study_is_read_by_something(name):
    study = next(study for study in studies() if study["name"] == name)
    assert study["paper"] in PAPERS
    assert config_files("study")[name].is_relative_to(PAPERS[study["paper"]].folder.folder)
    if flip := Flip.from_study(study):
        assert set(flip.base) <= set(study_names())
        assert set(flip.claims) <= {claim.id for claim in claims()}
        assert set(flip.datasets) <= set(study["datasets"])
        reads = {claim.id: set(claim.studies) for claim in claims()}
        for claim in flip.claims:
            assert reads[claim] & set(flip.base), f"{claim} reads no base of {name}"
    elif not study.get("beyond_paper"):
        assert any(name in made.studies for made in [*items(), *claims()]), f"nothing reads {name}"


@cache
def experiments(study):
    return compose(f"study={study}").experiments


@pytest.mark.parametrize("name", [study["name"] for study in studies() if study.get("flip")])
def test_a_flip_changes_one_thing(name):
    """A flip's protocol is that of its base but for one setting, or its reducers or datasets have one setting more."""
    flip = Flip.from_study(next(study for study in studies() if study["name"] == name))
    bases = [experiment for study in flip.base for experiment in experiments(study)]
    differences = set()
    for experiment in experiments(name):
        base = next(
            base
            for base in bases
            if base.reducer == flip.reducers.get(experiment.reducer, experiment.reducer)
            and base.dataset == flip.datasets.get(experiment.dataset, experiment.dataset)
        )
        if experiment.protocol != base.protocol:
            differences.add("protocol")
        if (experiment.reducer, experiment.params) != (base.reducer, base.params):
            differences.add("reducer")
        if experiment.options != base.options or experiment.dataset != base.dataset:
            differences.add("dataset")
        if experiment.matching != base.matching:
            differences.add("matching")
        assert experiment.seed == base.seed
        assert experiment.repeats <= base.repeats, "a flip repeats trials that the base has"
        assert set(experiment.r_grid) <= set(base.r_grid), "a flip is on the base's grid"
    allowed = {"protocol", "reducer"} if flip.entry in ("speed", "codes") else None  # of these it is the point
    # A part of a reconstruction may need fewer changes than the whole.
    assert differences <= allowed if allowed else len(differences) == 1, differences
    assert differences


@pytest.mark.parametrize("name", PAPERS)
def test_reported_numbers_name_what_exists(name):
    table = reported(name)
    assert list(table.columns) == ["id", "dataset", "method", "r", "quantity", "value", "reading_error", "where"]
    assert set(table["id"]) <= {made.id for made in [*PAPERS[name].items, *PAPERS[name].claims]}
    assert set(table["dataset"]) - {""} <= set(datasets.names())
    assert (table["reading_error"] >= 0).all()


def test_an_unknown_item_is_refused():
    known = items()[0].id
    with pytest.raises(UserError, match=f"did you mean '{known}'"):
        item(f"{known}x")


def test_every_study_has_its_own_file():
    for name, file in config_files("study").items():
        assert OmegaConf.load(file).study.name == name


# --- a guest's paper


TOML = """
    title = "A paper of one's own"
    authors = "Somebody"
    venue = "Nowhere"
    year = 2025
    tables = [1]
    claims = [1]

    [[open]]
    id = "shade"
    question = "Which shade?"
    chosen = "blue"
    other = "green"
"""
ITEMS = """
    import pandas as pd

    from kmdr.claims.catalogue import table
    from kmdr.figures.tables import Table

    from .names import STUDY


    @table("own25_table1", "Means", studies=[STUDY])
    def means(results):
        return Table(results.rows(STUDY).groupby("reducer", as_index=False)["objective"].mean(), {"objective": ".3f"})


    ITEMS = (means,)
"""
CLAIMS = """
    from kmdr.analysis.statistics import below
    from kmdr.claims.catalogue import Finding, claim

    from .names import STUDY


    @claim("own25-1", "F is small.", "p. 1", studies=[STUDY])
    def small(results):
        values = results.rows(STUDY).groupby("repeat")["objective"].mean()
        return Finding([below("F", values, 0.9)], "It is.")


    CLAIMS = (small,)
    ANSWERS = {"shade": lambda results: "Blue it is."}
"""
STUDY = """
    defaults:
      - override /grid: own25
      - override /kmeans: own25
    study:
      name: own25_study
      paper: own25
      title: A study of one's own
      note: ""
      datasets: [synth]
      reducers: [random_sign, none]
    repeats: 3
"""


FACT = """
    from kmdr.claims.catalogue import fact

    @fact("own25_x", ['synth'])
    def f(datasets, results):
        return results.all_rows

    FACTS = [f]
"""


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A folder with one paper, and ``KMDR_PATH`` that names it."""
    files = {
        "paper.toml": TOML, "items.py": ITEMS, "claims.py": CLAIMS, "names.py": "STUDY = 'own25_study'",
        "matchings.py": "MATCHINGS = {'own25': lambda truth: truth + 1}", "studies/own25_study.yaml": STUDY,
        "grid/own25.yaml": "r_grid: [3, 4]",
        "kmeans/own25.yaml": "{n_init: 2, max_iter: 7, start: sample, engine: kmdr}",
    }  # fmt: skip
    for name, content in files.items():
        file = tmp_path / "papers" / "own25" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(content))
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    return tmp_path / "papers" / "own25"


def test_a_guest_s_paper_is_one_of_the_papers(guest):
    own = next(paper for paper in papers() if paper.name == "own25")
    assert own.folder.folder == guest
    results = make_results([make_rows("own25_study", "synth", "none", 3, 4, objective=0.25)])
    (made,), (claim,) = own.items, own.claims
    assert made.make(results).frame.to_dict("records") == [{"reducer": "none", "objective": 0.25}]
    assert claim.test(results).components[0].p_for == 0
    assert item("own25_table1") is made
    assert reported("own25").empty
    point = next(point for point in open_points() if point.id == "shade")
    assert (point.papers, answered(point, results)) == (("own25",), "Blue it is.")


def test_a_guest_s_study_grid_protocol_and_matching_can_be_asked_for(guest):
    job = compose("study=own25_study")
    assert [(e.dataset, e.reducer, e.r_grid, e.repeats) for e in job.experiments] == [
        ("synth", "random_sign", (3, 4), 3), ("synth", "none", (3, 4), 3)
    ]  # fmt: skip
    assert {e.protocol.max_iter for e in job.experiments} == {7}
    assert "own25" in matchings()
    truth = pd.Series([0, 0, 1, 1]).to_numpy()
    assert agreement(truth, truth + 1, "own25")["accuracy"] == 1


@pytest.mark.parametrize("side", ["p_for", "p_against"])
def test_a_claim_without_a_p_value_is_not_run_and_says_why(guest, side):
    odd = CLAIMS.replace('below("F", values, 0.9)', f'below("F", values, 0.9)._replace({side}=float("nan"))')
    assert odd != CLAIMS
    (guest / "claims.py").write_text(textwrap.dedent(odd))
    results = make_results([make_rows("own25_study", "synth", "none", objective=lambda r, i: 0.5 + 0.01 * i)])
    found = [verdict_on(claim, results, {"own25_study": ["synth"]}) for claim in claims()]
    verdicts = {verdict.claim.id: verdict for verdict in judge(found, {})}
    assert verdicts["own25-1"].outcome == "not run"
    assert "'F' has p-values" in verdicts["own25-1"].sentence


def test_no_trace_of_a_guest_is_left(monkeypatch, guest):
    assert "own25" in {paper.name for paper in papers()}
    monkeypatch.delenv("KMDR_PATH")
    assert "own25" not in {paper.name for paper in papers()}
    assert "own25_study" not in study_names()
    assert "own25" not in matchings()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("paper.toml", "title = ", "cannot be read"),
        ("paper.toml", "title = 'A'", "lacks authors, venue, year; add it"),
        ("paper.toml", TOML.replace("tables", "table"), "did you mean 'tables'"),
        ("paper.toml", TOML.replace("other =", "others ="), "has id, question, chosen, others"),
        ("paper.toml", TOML.replace("tables = [1]", "tables = [1, 2]"), "differ in own25_table2"),
        (
            "paper.toml",
            TOML.replace("tables", "sections = [5.2]\n    tables"),
            "paper.toml: sections = 5.2 is not text; correct it",
        ),
        (
            "paper.toml",
            TOML.replace("tables", "summary = {short = 3}\n    tables"),
            "paper.toml: summary.short = 3 is not text",
        ),
        (
            "paper.toml",
            TOML.replace("tables", "summary = {findings = 'F'}\n    tables"),
            "paper.toml: summary.findings = 'F' is not a list",
        ),
        ("claims.py", "CLAIMS = ()", "differ in own25-1"),
        *(
            (f"{module}.py", content, message)
            for module, name in (("items", "ITEMS"), ("claims", "CLAIMS"), ("facts", "FACTS"))
            for content, message in (
                ("raise OSError('no')", rf"{module}\.py cannot be imported \(OSError: no\); fix it"),
                ("import nothing_here", rf"{module}\.py cannot be imported \(ModuleNotFoundError"),
                ("def f(:", rf"{module}\.py cannot be imported \(SyntaxError"),
                (f"{name} = 5", rf"{name} of .*{module}\.py is 5; give a list"),
                (f"{name} = [3]", rf"{name} of .*{module}\.py is \[3\]; give a list"),
                (f"{name} = {{'a': 3}}", rf"{name} of .*{module}\.py is .* give a list"),
            )
        ),
        (
            "claims.py",
            CLAIMS.replace('lambda results: "Blue it is."', "'Blue'"),
            "ANSWERS of .* functions",
        ),
        (
            "items.py",
            ITEMS.replace("ITEMS = (", "ITEMS = 2 * ("),
            "differ in own25_table1; list the same numbers .* once",
        ),
        ("items.py", ITEMS.replace("[STUDY]", "STUDY"), "items.py: studies = .* is a text; give a list"),
        (
            "facts.py",
            FACT.replace("['synth']", "'synth'"),
            "facts.py: datasets of own25_x is the text 'synth'; give a list of names",
        ),
        ("facts.py", FACT.replace("own25_x", "bzd10_products"), "a fact 'bzd10_products'; begin each name with own25_"),
        (
            "facts.py",
            FACT.replace("own25_x", "../own25_x"),
            "the name of a fact of .*facts.py = '../own25_x' is not a name",
        ),
        ("facts.py", FACT.replace("[f]", "[f, f]"), "a fact 'own25_x'; .* use it once"),
    ],
)
def test_a_mistake_in_a_paper_is_told_in_a_sentence(guest, name, content, message):
    (guest / name).write_text(textwrap.dedent(content))
    with pytest.raises(UserError, match=message):
        [(paper.items, paper.claims, paper.facts, paper.answers) for paper in papers()]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("own25_table1,synth,none,20,objective,abc,0.01,p. 1", "row 1 below the header: value = 'abc' is not a number"),
        ("own25_table1,synth,none,x,objective,0.5,0.01,p. 1", "row 1 below the header: r = 'x' is not a number"),
        (
            "own25_table1,synth,none,20,objective,0.5,,p. 1",
            "row 1 below the header: reading_error = '' is not a number",
        ),
        ("own25_table1,synth", "row 1 below the header: value = .* is not a number"),
        (
            "own25_table1,synth,none,20,objective,0.5,0.01,p. 1,more",
            "row 1 below the header: r = 'objective' is not a number",
        ),
    ],
)
def test_a_reported_number_that_is_none_is_refused_with_its_place(guest, line, reason):
    header = "id,dataset,method,r,quantity,value,reading_error,where"
    (guest / "reported.csv").write_text(f"{header}\n{line}\n")
    with pytest.raises(UserError, match=reason):
        reported("own25")
    (guest / "reported.csv").write_text(f"{header.removesuffix(',where')}\n")
    with pytest.raises(UserError, match=r"reported\.csv lacks the columns where; add them"):
        reported("own25")


def fact_that(line):
    def compute(datasets, results):
        exec(line)
        return eval(line) if line == "5" else None

    compute.__module__ = "own25_facts"
    return Fact("own25_fact", ("synth",), (), compute)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero; correct it"),
        ("raise SystemExit(0)", "raised SystemExit: 0; correct it"),
        ("5", "its function returned 5, not a DataFrame; return one"),
        ("None", "its function returned None, not a DataFrame; return one"),
    ],
)
def test_a_fact_of_a_plugin_that_gives_no_table_is_not_computed_and_the_run_goes_on(line, reason):
    with pytest.raises(UserError, match=reason):
        _compute(fact_that(line), make_results([make_rows("own25_study", "synth", "none")]), [])


def other_values(value):
    """Yield copies of a value of a TOML file in which one value, at any depth, is of another kind."""
    yield from (other for other in ("x", True, 5, 1.5, ["x"], {"x": 1}) if type(other) is not type(value))
    entries = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, entry in entries:
        for other in other_values(entry):
            changed = value.copy()
            changed[key] = other
            yield changed


@pytest.mark.parametrize("name", PAPERS)
def test_a_value_of_another_kind_in_a_paper_s_file_is_refused_in_a_sentence_or_taken(name, monkeypatch):
    folder = next(paper.folder for paper in papers() if paper.name == name)
    table = tomllib.loads((folder.folder / "paper.toml").read_text("utf-8"))
    refused = 0
    for changed in filter(lambda other: isinstance(other, dict) and "title" in other, other_values(table)):
        monkeypatch.setattr(catalogue.tomllib, "loads", lambda text, changed=changed: changed)
        try:
            catalogue._read(folder)
        except UserError as error:
            refused += "paper.toml" in str(error)
    assert refused > 100


def test_folders_that_cannot_be_papers_are_refused(guest, tmp_path, monkeypatch):
    (guest / "paper.toml").rename(guest / "paper.txt")
    bad = tmp_path / "papers" / "own_25"
    bad.mkdir()
    (bad / "paper.toml").write_text("")
    with pytest.raises(UserError, match="letters and digits alone"):
        papers()
    bad.rename(bad.with_name(next(iter(PAPERS))))
    with pytest.raises(UserError, match="are both named"):
        papers()
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere, which is not a folder"):
        papers()


@pytest.mark.parametrize("error", [ValueError, RuntimeError, AssertionError, NameError, OSError])
def test_whatever_a_plugins_claim_raises_is_a_verdict_that_names_the_place(error):
    def broken(results):
        raise error("bo\udcffom")

    verdict = uncorrected(replace(claims()[0], test=broken), make_results([make_rows("s", "digits", "none")]))
    assert verdict.outcome == "not run"
    assert re.match(rf"test_catalogue\.py:\d+ \({error.__name__}: bo\\udcffom\); correct it", verdict.sentence)


@pytest.mark.parametrize("value", [None, "supported", Finding([], 5), Finding(["x"], "x")])
def test_a_plugins_claim_that_returns_another_value_is_a_verdict_that_names_it(value):
    def broken(results):
        return value

    verdict = uncorrected(replace(claims()[0], test=broken), make_results([make_rows("s", "digits", "none")]))
    assert (verdict.outcome, "its function broken returned no valid value" in verdict.sentence) == ("not run", True)


def test_items_may_be_listed_by_any_iterable(guest):
    (guest / "items.py").write_text(textwrap.dedent(ITEMS).replace("ITEMS = (means,)", "ITEMS = (m for m in [means])"))
    own = next(paper for paper in papers() if paper.name == "own25")
    assert [made.id for made in own.items] == [made.id for made in own.items] == ["own25_table1"]


@pytest.mark.parametrize("study", ["own25_study", "bmd09_table1"])
def test_a_mistake_in_a_paper_is_told_before_any_study_runs(guest, tmp_path, monkeypatch, study):
    (guest / "facts.py").write_text("FACTS = 5")
    monkeypatch.setattr("kmdr.harness.jobs.run_tasks", lambda *_: pytest.fail("trials were run"))
    paper = study.partition("_")[0]
    for run in (lambda: run_papers([paper], tmp_path / "o", Limits()), lambda: run_jobs([compose(f"study={study}")])):
        with pytest.raises(UserError, match="FACTS of"):
            run()
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_report_is_current_until_something_that_its_papers_read_is_edited(guest, tmp_path, monkeypatch, is_link):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper_of_own25.py").write_text("WORD = 'a'")
    (guest / "claims.py").write_text(textwrap.dedent(CLAIMS) + "\nimport helper_of_own25")
    (guest / "more").mkdir()
    (guest / "more" / "numbers.json").write_text("[1]")
    if is_link:
        real = guest.rename(tmp_path / "real")
        guest.symlink_to(real)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))

    def fingerprint_now():  # what an edit changes is read by the next process
        code = "import sys; from pathlib import Path; from kmdr.reporting.contents import fingerprint; "
        code += "print(fingerprint(Path(sys.argv[1])))"
        command = [sys.executable, "-c", code, tmp_path / "o"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    seen = [fingerprint_now()]
    assert fingerprint_now() == seen[0]
    for file, content in (
        (guest / "items.py", textwrap.dedent(ITEMS).replace("Means", "Medians")),
        (guest / "names.py", "STUDY = 'own25_study'\nOTHER = 1\n"),
        (guest / "more" / "numbers.json", "[2]"),
        (elsewhere / "helper_of_own25.py", "WORD = 'b'"),
    ):
        file.write_text(content)
        assert fingerprint_now() not in seen, file.name
        seen.append(fingerprint_now())


@pytest.mark.parametrize("reader", [*items(), *claims()], ids=lambda reader: reader.id)
def test_a_rerun_runs_the_studies_of_a_part_and_of_its_facts(reader):
    """ess22-1 to -3 said that 'kmdr report results/runs' alone reruns them."""
    command = rerun_command(reader)
    named = {name for names in re.findall(r"study=(\S+)", command) for name in names.split(",")}
    of_facts = {name for fact in PAPERS[reader.paper].facts if fact.name in reader.facts for name in fact.studies}
    assert {*of_facts, *reader.studies} - on_request() == named
    if not named:  # facts that need no row, which no study computes
        assert command == f"kmdr reproduce {reader.paper}"


def test_studies_with_the_same_settings_are_rerun_by_one_command():
    """A command chained up to ten of 'kmdr study=A seed=1', some of them without the seed of the others."""
    reader = next(claim for claim in claims() if claim.id == "lst17-3")
    report = " && kmdr report results/runs"
    run = {"lst17_coil20", "lst17_sector_slow"}
    names = "lst17_coil20,lst17_sector,lst17_sector_slow,lst17_sector_lle"
    seeds = dict.fromkeys(run, ("seed=1",))
    assert rerun_command(reader, seeds, run) == f"kmdr -m study={names} seed=1{report}", "the seed of what was run"
    changed = seeds | {"lst17_sector_slow": ("study.repeats=3", "seed=1")}
    slow = "kmdr study=lst17_sector_slow study.repeats=3 seed=1"
    text = rerun_command(reader, changed, run)
    others = "kmdr -m study=lst17_coil20,lst17_sector,lst17_sector_lle seed=1"
    assert text == f"{others} && {slow}{report}"


def test_several_studies_by_one_command_are_those_studies(monkeypatch):
    names = ("lf20_fig5", "lf20_fig4_times")
    monkeypatch.setattr(sys, "argv", ["kmdr", "-m", f"study={','.join(names)}", "seed=1"])
    together = from_command_line()
    assert [job.experiments for job in together] == [compose(f"study={name}", "seed=1").experiments for name in names]
