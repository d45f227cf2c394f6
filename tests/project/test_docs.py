"""The documentation: its blocks run, its generated pages are complete, its links lead somewhere, and it builds."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pandas as pd
import pytest
import yaml

import kmdr
from blocks import ROOT, blocks, check_block, environment, run_page
from forked import programs
from kmdr import reducers
from kmdr.base.paths import CONF
from kmdr.claims.catalogue import papers
from kmdr.claims.repetitions import MOST_SECONDS
from kmdr.cli.arguments import COMMANDS
from kmdr.datasets import registry
from kmdr.results.schema import COLUMNS

sys.path.insert(0, str(ROOT / "scripts"))
docs_pages = importlib.import_module("docs_pages")

DOCS = ROOT / "docs"
MADE = ("generated", "gallery")
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).parts[0] not in MADE]
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if any(b.is_run for b in blocks(page))], ids=name_of)
def test_the_blocks_of_a_page_run_in_order_in_an_empty_home(page, tmp_path):
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    output = run_page(page, home, folder)
    if page.name == "tutorial.md":
        printed = output.splitlines()
        (shown,) = [block.code for block in blocks(page) if block.language == "text"]
        assert [line for line in shown.splitlines() if line not in printed] == []
        assert any("random_groups" in line for line in printed)
        assert any("silhouette" in line for line in printed)
        assert (folder / "wine2" / "report" / "index.html").exists()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=name_of)
def test_blocks_that_are_not_run_are_valid(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if not block.is_run and block.language != "text":
            check_block(block)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs(example, tmp_path):
    command = [programs() / "python", str(example)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_gallery_has_six_examples():
    assert len(EXAMPLES) == 6


def test_the_command_line_page_has_every_command_and_argument():
    page = docs_pages.command_line()
    for name, command in COMMANDS.items():
        section = page.partition(f"## kmdr {name}\n")[2].partition("\n## ")[0]
        assert command.summary in section
        for names, settings in command.arguments or ():
            assert all(f"`{option}" in section or f", {option}" in section for option in names if option[0] == "-")
            assert settings.get("help", "").replace("|", "\\|") in section


def test_the_configuration_page_has_every_setting_of_every_file():
    page = docs_pages.configuration()
    for file in CONF.glob("*/*.yaml"):
        group = file.parent.name
        section = page.partition(f"### {group}={file.stem}\n")[2].partition("\n##")[0]
        content = yaml.safe_load(file.read_text("utf-8"))
        for key in set(content) - {"name", "defaults"}:
            assert f"`{key if group == 'grid' else f'{group}.{key}'}" in section, f"{file}: {key}"


def test_the_other_generated_pages_have_everything_that_they_list():
    pages = {name: make() for name, make in docs_pages.PAGES.items()}
    assert all(f"(#{name.replace('_', '-')})" in pages["datasets"] for name in registry.names() if name != "file")
    assert all(f"## {paper.name}" in pages["papers"] for paper in papers())
    assert all(f"| `{column}` |" in pages["rows"] for column in COLUMNS)
    offered = [name for name in reducers.names() if type(reducers.make(name)).__name__ in reducers.__all__]
    assert all(f"| `{name}` |" in pages["reducers"] for name in offered if name != "none")
    assert all(f":: {name}\n" in pages["api"] for name in kmdr.__all__ if name != "__version__")
    listed = {name for names in docs_pages.PLUGIN_INTERFACE.values() for name in names}
    assert all(f":: {name}\n" in pages["plugins"] for name in listed)


def test_the_links_of_pages_lead_to_pages():
    """A link to a generated page names one that is made."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            if target.startswith("http") or path.parent == DOCS / "gallery":
                continue
            if path.parent == DOCS / "generated":
                assert path.stem in docs_pages.PAGES, f"{page}: {target}"
            else:
                assert path.exists(), f"{page}: {target}"


def test_the_workflow_is_valid_and_runs_targets_that_exist():
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        workflow = yaml.safe_load(file.read_text("utf-8"))
        for job in workflow["jobs"].values():
            assert job["runs-on"]
            for step in job["steps"]:
                assert ("uses" in step) != ("run" in step)
                assert re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+(\.\d+)*", step.get("uses", "a/b@v1"))
                for target in re.findall(r"^make (\w[\w-]*)", step.get("run", ""), re.MULTILINE):
                    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), target


class _Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.targets += [attributes[key] for key in ("href", "src") if attributes.get(key)]


def dead_links(folder):
    """Return the internal links of all pages that lead to no file or anchor."""
    files = [page for page in sorted(folder.rglob("*.html")) if "_static" not in page.parts]  # the theme's templates
    pages = {page.resolve(): _Links(page) for page in files}
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            path, _, anchor = target.partition("#")
            if re.match(r"\w+:|//", target):
                continue
            file = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            known = pages[file].anchors if file in pages else set()
            if not file.exists() or (anchor and file in pages and unquote(anchor) not in known):
                dead.append(f"{page.relative_to(folder.resolve())}: {target}")
    return dead


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"></p><a href="#x"></a><a href="b.html#y"></a><a href="c.html"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#z"></a><a href="https://example.org/"></a>')
    assert dead_links(tmp_path) == ["a.html: b.html#y", "a.html: c.html", "b.html: a.html#z"]


@pytest.mark.slow
def test_the_documentation_builds_without_warnings_and_has_no_dead_links(tmp_path):
    """The examples are tested above, so they are not run here."""
    for name in ("sphinx", "myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery"):
        pytest.importorskip(name, reason=f"{name} is not installed; `make docs` installs it")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns(*MADE))
    for name in ("scripts", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    options = ("--quiet", "--fail-on-warning", "--keep-going", "-D", "plot_gallery=0")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", "built"],
        cwd=tmp_path, env=dict(os.environ), check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    assert len(list((tmp_path / "built").rglob("*.html"))) >= 30
    assert dead_links(tmp_path / "built") == []
    api, classes = ((tmp_path / "built" / "generated" / f"{name}.html").read_text() for name in ("api", "reducers"))
    assert all(f'id="kmdr.{name}"' in api for name in kmdr.__all__ if name != "__version__")
    offered = [cls for name, cls in vars(reducers).items() if name in reducers.__all__ and isinstance(cls, type)]
    assert all(f'id="kmdr.reducers.{cls.__name__}"' in classes for cls in offered if cls is not reducers.Reducer)
    compare = api.partition('id="kmdr.compare"')[2].partition('id="kmdr.load"')[0]
    assert all(f">{heading}<" in compare for heading in ("Parameters", "Returns", "Raises"))


def test_the_undecided_claims_that_repetitions_would_decide_are_named_and_none_is_cheap():
    """The page named lf20-2 alone, while lf20-10, ess22-1 and ess22-4 needed no more time."""
    verdicts = pd.read_csv(ROOT / "results" / "reference" / "verdicts.csv")
    needy = verdicts[(verdicts["verdict"] == "undecided") & verdicts["repetitions_needed"].notna()]
    assert (needy["seconds_needed"] > MOST_SECONDS).all()
    counts = needy.assign(minutes=needy["seconds_needed"] / 60)[["repetitions", "repetitions_needed", "minutes"]]
    page = (DOCS / "explanation" / "verdicts.md").read_text("utf-8")
    named = re.findall(r"^\| (\w+-\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    lines = counts.round().astype(int).itertuples(index=False)
    assert named == [(claim, *map(str, line)) for claim, line in zip(needy["claim"], lines, strict=True)]
