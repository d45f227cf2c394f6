"""The page "Which method?": its numbers against numpy, its sentences, the data of its script, and the script itself."""

import io
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from atlas_evidence import traits_of, write_atlas
from atlas_rows import FORMS, METHODS, atlas_rows
from kmdr.atlas.effects import effects
from kmdr.atlas.evidence import with_forms
from kmdr.atlas.ranking import Condition
from kmdr.atlas.section import ALL, QUANTITIES, atlas_section, medians
from kmdr.reporting import readme
from kmdr.reporting.build import build
from kmdr.reporting.explore import data_text
from rows import make_rows, write_rows

AT_20K = Condition(multiple=20.0)
NODE = shutil.which("node")
TEMPLATES = Path(readme.__file__).parent / "templates"


@pytest.fixture(scope="module")
def rows():
    return atlas_rows(forms=tuple(FORMS), repeats=3, multiples=(0.5, 1, 5, 20))


@pytest.fixture(scope="module")
def raw_at_20k(rows):
    """The rows of the raw form at r = 20 k, which have every sentence and figure of the page."""
    return rows.query("options == '{}' and (r == 20 * k or reducer == 'none')")


@pytest.fixture(scope="module")
def table(rows):
    return effects(rows)


@pytest.fixture(scope="module")
def section(rows, table):
    provenance = {"variance": "as reported"}
    return atlas_section(table, with_forms(traits_of(rows)), ("png",), provenance)


@pytest.mark.parametrize("quantity", ["loss", "accuracy"])
def test_medians_over_sources_are_those_of_numpy(table, quantity):
    found = medians(table, quantity, AT_20K)
    lines = table.query("form == 'raw' and method == 'leverage' and multiple == 20")
    values = np.sort(lines[quantity])  # each of these datasets is a source of its own
    assert found.loc["leverage"].tolist() == [np.median(values), values[0], values[7], 8]
    assert stats.binom.cdf(0, 8, 0.5) < 0.025 < stats.binom.cdf(1, 8, 0.5)


def test_datasets_of_one_source_count_as_one(table):
    twins = table.replace({"dataset": {"usps": "orl", "isolet": "orl_64x64"}})
    found = medians(twins, "loss", AT_20K)
    assert found.loc["leverage", "count"] == 7
    assert medians(twins[twins["dataset"].isin(["orl", "orl_64x64"])], "loss", AT_20K)["median"].to_dict() == (
        pytest.approx(table[table["dataset"].isin(["usps", "isolet"])].query("form == 'raw' and multiple == 20 or "
        "form == 'raw' and method == 'none'").groupby("method")["loss"].mean().to_dict())
    )  # fmt: skip


def test_within_a_time_only_data_on_which_a_method_is_fast_enough_count(table):
    assert set(medians(table, "loss", Condition(budget=0.15)).index) == {"variance"}
    slow = table.assign(seconds=table["seconds"].where(table["dataset"] != "usps", 100.0))
    assert medians(slow, "loss", Condition(budget=0.15)).loc["variance", "count"] == 7


def test_the_summary_states_size_leaders_the_simplest_rule_and_the_advice(section):
    text = "\n".join(section.summary)
    assert section.summary[0].startswith("8 datasets of 8 sources, 4 methods and k-means on all features, r from 0.5 k")
    assert "Random signs at r = 20 k, the simplest rule: F is 1.0 % [" in text
    assert " % of the time (medians over sources of data, with 95 % intervals).\n" in text
    assert "At r = 20 k, “svd” has the best average rank by F of 4 methods on 8 sources" in text
    assert "Within 50 % of the time of all features, " in text
    assert "by domain, without a test: gene expression: svd" in text
    assert re.search(r"the advice is (not shown to be better|better|worse) than random signs at r = 20 k\.", text)


@pytest.mark.parametrize(("first", "count"), [(0, ""), (1, "2 of 3 trials: ")])
def test_a_method_that_never_succeeds_in_all_trials_is_named_with_the_reason(raw_at_20k, first, count):
    some = raw_at_20k[raw_at_20k["reducer"].isin(["none", "svd"])]
    fails = (some["reducer"] == "svd") & (some["repeat"] >= first)
    table = effects(some.assign(status=some["status"].mask(fails, "failed"), error="no convergence"))
    summary = atlas_section(table, None, ("png",)).summary
    assert f"Not ranked, because trials failed at each r: svd ({count}no convergence)." in summary
    assert "0 methods and k-means on all features: " in summary[0]
    assert "nan" not in " ".join(summary)


@pytest.mark.parametrize("first", [0, 1])
def test_methods_are_counted_without_the_reference_also_where_that_fails(raw_at_20k, first):
    some = raw_at_20k[raw_at_20k["reducer"].isin(["none", "svd"])]
    fails = (some["reducer"] == "none") & (some["repeat"] >= first)
    table = effects(some.assign(status=some["status"].mask(fails, "failed"), error="no convergence"))
    summary = atlas_section(table, None, ("png",)).summary
    assert f" {['0 methods', '1 method'][first]} and k-means on all features" in summary[0]
    assert "Not ranked, because trials failed at each r: all features (" in summary[1]


def test_no_winner_is_named_where_the_test_shows_none(table):
    """Two methods that alternate: Friedman's test does not reject that they and the others are equal."""
    rng = np.random.default_rng(0)
    some = table.query("form == 'raw' and (multiple == 20 or method == 'none')").copy()
    others = some["method"] != "none"
    some.loc[others, "loss"] = rng.uniform(0, 0.1, others.sum())
    some.loc[~others, "loss"] = 0.05
    found = atlas_section(some, None, ())
    assert not [text for text in found.summary if text.startswith("At ") and "better than every other" in text]
    assert any("equality of all methods is not rejected (p = " in sentence for sentence in found.summary)
    for piece in found.pieces["Rankings"]:
        assert not piece.table.frame["F at r = 20 k"].str.contains("†").any()


def test_tables_have_every_method_with_who_stands_for_it(section):
    titles = [piece.title for piece in section.pieces["Rankings"]]
    assert titles == ["All data", "Gene expression", "Image", "Text"]  # one dataset of speech is no domain
    frame = section.pieces["Rankings"][0].table.frame
    assert set(frame["method"]) == set(METHODS) - {"none"}
    assert frame.set_index("method")["by"].to_dict() == dict.fromkeys(frame["method"], "kmdr") | {
        "variance": "as reported"
    }
    assert frame["method"].iloc[0] == "svd"
    assert frame["F at r = 20 k"].str.contains("†").sum() in (1, 2, 3)
    assert {path.suffix for path in section.files} == {".csv", ".md", ".tex", ".png"}


def test_the_error_of_the_advice_is_in_a_table(section):
    (piece,) = section.pieces["How good is the advice?"]
    assert set(piece.table.frame["rule"]) == {"random signs at r = 20 k", "the choice that is best on average"}
    # Variance, the only method that is 10 times as fast, is a third party's here, and advice is given without these.
    assert piece.table.frame["times as fast"].unique().tolist() == ["1.5", "2", "5"]


def test_the_page_has_profiles_and_what_the_traits_explain(section):
    figure = next(piece for piece in section.pieces["Figures"] if "profiles" in piece.title)
    shares = pd.read_csv(io.BytesIO(figure.files[Path("figures/atlas_profiles.csv")]))
    within = shares[shares["factor"] <= 1.05].groupby("method")["share"].max()
    for name, share in within.items():
        assert f"{'all features' if name == 'none' else name} {100 * share:.0f} %" in figure.alt
    (piece,) = section.pieces["Do traits of the data explain which method is better?"]
    assert piece.table.frame["predicted"].iloc[-1] == "choice of a family"
    assert "each held out in turn" in section.summary[-1]


def test_without_traits_there_is_no_advice(table):
    some = table.query("dataset in ('usps', 'tdt2') and form == 'raw' and (multiple == 20 or method == 'none')")
    found = atlas_section(some, None, ())
    assert "How good is the advice?" not in found.pieces


def test_the_data_of_the_script_are_the_numbers_of_the_tables(section, table):
    data = json.loads(data_text(section.data))
    assert set(data["scopes"]) == {ALL, "gene expression", "image", "text"}
    ranking = next(r for r in data["scopes"][ALL] if (r["form"], r["quantity"], r["at"]) == ("raw", "loss", "r20"))
    expected = medians(table, "loss", AT_20K)
    for name, mean, low, high, count, _ in ranking["lines"]:
        line = expected.loc["none" if name == "all features" else name]
        np.testing.assert_allclose([mean, low, high], line[["median", "low", "high"]].astype(float), rtol=1e-3)
        assert count == line["count"]
    lines = data["datasets"]["USPS"]["raw"]
    one = table.query("dataset == 'usps' and form == 'raw' and method == 'leverage' and multiple == 5").iloc[0]
    (found,) = [line for line in lines if line[0] == "leverage" and line[2] == 5]
    np.testing.assert_allclose(found[4:7], one[["loss", "loss_low", "loss_high"]].astype(float), rtol=1e-3)
    assert found[1] == one["r"]


_STUBS = """
const data = {atlas: JSON.parse(require("fs").readFileSync(0, "utf8"))}, out = {};
const part = () => ({ value: "", elements: {}, dataset: {}, set textContent(text) { out.sentence = text; } });
const parts = new Map();
const document = { getElementById: (id) => { if (!parts.has(id)) parts.set(id, part()); return parts.get(id); } };
for (const name of ["data", "form", "by", "at"]) document.getElementById("which-form").elements[name] = { value: "" };
const fill = (field, pairs) => {
  if (!pairs.some(([value]) => String(value) === field.value)) field.value = pairs.length ? String(pairs[0][0]) : "";
};
const number = (value) => String(value), plural = (count, noun) => `${count} ${noun}s`, made = () => "";
const estimate = (cell) => `${cell.centre} [${cell.low}, ${cell.high}]`;
const showTable = (_, heads, rows) => { out.rows = rows.map((row) => row.map((cell) => cell.value)); };
const showPlot = (_, spec) => { out.plotted = spec().categories; };
const connect = (id, form, names, offer, draw) => {
  Object.assign(out, {id});
  for (const [name, value] of CHOICES) { offer(data); form.elements[name].value = value; }
  offer(data); draw(data);
};
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize("choices", [
    [["data", "all:all data"], ["form", "raw"], ["by", "loss"], ["at", "r20"]],
    [["data", "all:text"], ["form", "unit rows"], ["by", "accuracy"], ["at", "r5"]],
    [["data", "all:all data"], ["form", "raw"], ["by", "loss"], ["at", "t0.5"]],
    [["data", "one:USPS"], ["form", "raw"], ["by", "loss"], ["at", "r5"]],
    [["data", "one:USPS"], ["form", "raw"], ["by", "accuracy"], ["at", "t0.5"]],
    [["data", "one:USPS"], ["form", "raw"], ["by", "time"], ["at", "r1"]],
], ids=lambda choices: " ".join(value for _, value in choices))  # fmt: skip
def test_the_script_shows_the_ranking_that_is_chosen(choices, section, table):
    script = f"const CHOICES = {json.dumps(choices)};{_STUBS}{(TEMPLATES / 'which.js').read_text('utf-8')}"
    done = subprocess.run(
        [NODE, "-e", f"{script};console.log(JSON.stringify(out))"],
        input=data_text(section.data), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    data, form, by, at = (value for _, value in choices)
    factor = 100 if by == "loss" else 1
    condition = Condition(multiple=float(at[1:])) if at[0] == "r" else Condition(budget=float(at[1:]))
    part = table.query("form == @form")
    if data == "one:USPS":
        part = part[part["dataset"] == "usps"]
    elif data != "all:all data":
        part = part[part["domain"] == data[4:]]
    expected = medians(part, by, condition, form)["median"].rename({"none": "all features"})
    if at[0] == "t":
        expected = expected.drop("all features", errors="ignore")
    assert {row[1]: row[2] / factor for row in shown["rows"]} == pytest.approx(expected.to_dict(), rel=1e-3)
    assert [row[0] for row in shown["rows"]] == list(range(1, len(expected) + 1))
    assert shown["plotted"] == [row[1] for row in shown["rows"]]
    assert at[1:] in shown["sentence"] or f"{100 * float(at[1:]):g}" in shown["sentence"]
    assert math.isfinite(len(QUANTITIES[by]))
    if data == "one:USPS":
        values = [row[2] for row in shown["rows"]]
        assert values == sorted(values, reverse=by == "accuracy")
        assert "no test compares" in shown["sentence"]


_EVERY_CHOICE = """
const form = document.getElementById("which-form").elements, empty = [];
const fill = (field, pairs) => {
  field.offered = pairs.map(([value]) => String(value));
  if (!field.offered.includes(field.value)) field.value = field.offered[0] ?? "";
};
const connect = (id, _, names, offer, draw) => {
  const visit = (i) => {
    if (i === names.length) {
      draw(data);
      if (!out.rows.length) empty.push(names.map((name) => form[name].value));
      return;
    }
    offer(data);
    if (!form[names[i]].offered.length) empty.push(names.slice(0, i).map((name) => form[name].value));
    for (const value of form[names[i]].offered) { form[names[i]].value = value; offer(data); visit(i + 1); }
  };
  visit(0);
};
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_every_choice_that_is_offered_has_a_ranking(table):
    """Times were offered for data and r that were not timed: "time ≤ 0 %", and no method."""
    untimed = table.copy()
    untimed.loc[untimed["form"] == "unit rows", "seconds"] = math.nan
    untimed.loc[(untimed["dataset"] == "usps") & (untimed["multiple"] == 5), "seconds"] = math.nan
    made = data_text(atlas_section(untimed.query("multiple in (5, 20) or method == 'none'"), None, ()).data)
    stubs = re.sub(r"const (?:fill|connect) = .*?^};\n", "", _STUBS, flags=re.DOTALL | re.MULTILINE)
    script = f"{stubs}{_EVERY_CHOICE}{(TEMPLATES / 'which.js').read_text('utf-8')};console.log(JSON.stringify(empty))"
    done = subprocess.run([NODE, "-e", script], input=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_zero_is_shown_without_a_sign():
    """A loss of −0.001 % was shown as −0.00."""
    source = (TEMPLATES / "views.js").read_text("utf-8")
    number = re.search(r"  const number = .*?^  };\n", source, re.DOTALL | re.MULTILINE)[0]
    values = '[[-0.001, ".2f"], [-0.006, ".2f"], [-0, ".4g"], [-1e-9, ".3g"], [null, ".3f"]]'
    script = f"{number};console.log(JSON.stringify({values}.map((pair) => number(...pair))))"
    done = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["0.00", "−0.01", "0.000", "−1.00e−9", "–"]


# -- in the report ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory, raw_at_20k):
    folder = tmp_path_factory.mktemp("results")
    write_rows(folder, *(make_rows("custom", "synth", name, (5, 10), 3, options="{}") for name in ("none", "svd")))
    write_atlas(folder / "atlas", raw_at_20k)
    return folder


@pytest.mark.slow
def test_the_report_has_the_page_if_an_atlas_was_run(folder):
    page = build(folder, [], again=True, formats=("png",)).read_text("utf-8")
    assert 'href="#which-method"' in page
    assert "Random signs at r = 20 k, the simplest rule" in page
    assert "atlas_times" not in page
    markdown = (folder / "report" / "which-method.md").read_text("utf-8")
    assert "## Rankings" in markdown
    assert "[which-method.md](which-method.md)" in (folder / "report" / "index.md").read_text("utf-8")
    assert (folder / "tables" / "atlas_all_data.csv").exists()
    listed = readme.atlas(folder)
    assert len(listed.splitlines()) == 6
    assert listed.splitlines()[0].startswith("* 8 datasets of 8 sources")
    shutil.rmtree(folder / "atlas")
    assert 'href="#which-method"' not in build(folder, [], formats=("png",)).read_text("utf-8")


@pytest.mark.slow
def test_a_folder_of_the_atlas_itself_has_the_page_and_no_other_runs(tmp_path, raw_at_20k):
    write_atlas(tmp_path, raw_at_20k[raw_at_20k["dataset"].isin(["usps", "tdt2"])])
    page = build(tmp_path, [], formats=("png",)).read_text("utf-8")
    assert 'href="#which-method"' in page
    assert 'href="#own-runs"' not in page


@pytest.mark.slow
def test_names_of_third_parties_are_escaped(tmp_path, raw_at_20k):
    evil = raw_at_20k[raw_at_20k["reducer"] == "gaussian"].assign(reducer="evil.<img src=x>")
    write_atlas(tmp_path, pd.concat([raw_at_20k, evil]))
    page = build(tmp_path, [], formats=("png",)).read_text("utf-8")
    assert "&lt;img src=x&gt;" in page
    assert "<img src=x>" not in page


def test_a_readme_without_an_atlas_says_so(tmp_path):
    assert readme.atlas(tmp_path) == "No results of the atlas are committed yet; `kmdr atlas` runs it."
