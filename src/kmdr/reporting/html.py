"""The report as one self-contained HTML page, and as pages in Markdown for the repository host.

The page contains its style, scripts and figures, so it opens from a disk, prints, and sends no request. Without scripts
it shows all its content; only sorting, filtering, exploring and copying need them. The same `Report` gives the same
bytes.
"""

import inspect
import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import KINDS
from kmdr.base.paths import RESULTS
from kmdr.base.text import counted, printable
from kmdr.claims.catalogue import Paper
from kmdr.claims.effects import OUTCOMES
from kmdr.claims.frozen import built_in, frozen_note
from kmdr.claims.granularity import NOTE, agreement, shares
from kmdr.claims.register import describe
from kmdr.claims.repetitions import LEAST, MOST, MOST_SECONDS, POWER
from kmdr.claims.verdicts import Verdict
from kmdr.figures.escape import CODE, markdown_code, markdown_escaped, markdown_prose
from kmdr.figures.panels import dataset_label
from kmdr.figures.tables import Piece, Table, footnote, markdown
from kmdr.multiverse.section import MultiverseSection
from kmdr.reporting.causes import RULE, failures
from kmdr.reporting.exhibits import Exhibit, Grid, Picture, exhibit, pictures, table_grid
from kmdr.reporting.explore import data_text, packed
from kmdr.reporting.forest import changes_at, forests, segments, ticks
from kmdr.reporting.model import Report
from kmdr.reporting.names import claim_sources, shared_names, with_kind
from kmdr.reporting.numbers import duration, effect, number, number_word, probability
from kmdr.reporting.search import entries
from kmdr.reporting.seeds import sentence as seeds_sentence
from kmdr.reporting.sparkline import sparkline
from kmdr.reporting.study_runs import StudyRuns
from kmdr.reporting.summaries import (
    BASES,
    OUTCOME_TITLES,
    deciding_change,
    describe_other_times,
    diagnosed,
    leading,
    paper_summaries,
    reason,
)

_LONGEST_VENUE = 12
# The rows of a table, and the number of open choices, that are shown unfolded.
_MOST_OPEN, _MOST_OPEN_POINTS = 30, 5

QUESTION = "Does reducing the dimensions before k-means keep the clustering, and does it save time?"

# Why one claim may have several verdicts among the open choices.
CHOICES_RULE = (
    "The verdicts of a row are unadjusted and rest on the trials that both of its choices share, so the “before” "
    "verdict can differ between rows and from the final verdict."
)
# By state: a symbol, because colour alone is not accessible, and the class in the style sheet.
STATES: Mapping[str, tuple[str, str]] = {
    "rerun": ("✓", "good"),
    "in part": ("◐", "mixed"),
    "supported": ("✓", "good"),
    "mostly supported": ("◕", "good"),
    "not supported": ("✗", "bad"),
    "undecided": ("?", "mixed"),
    "agrees": ("✓", "good"),
    "agrees in part": ("◐", "mixed"),
    "differs": ("✗", "bad"),
    "changed": ("≠", "none"),
    "not run": ("–", "none"),
}
ITEM_STATES = ("rerun", "in part", "changed", "not run")


class View(NamedTuple):
    """A view of the page: one section, shown alone, with one link in the navigation.

    Attributes
    ----------
    id : str
        The section's id, and the address that shows it.
    title : str
        The text of its link.
    template : str
        The template of its content; the section's heading is its ``h1``.
    group : str
        The heading in the navigation under which its link is; empty for the first links.
    section : PaperSection or None
        The paper that it shows.
    """

    id: str
    title: str
    template: str
    group: str = ""
    section: "PaperSection | None" = None


class Shown(NamedTuple):
    """A figure or table of a multiverse as the page shows it."""

    piece: Piece
    picture: Picture | None
    grid: Grid | None


@dataclass(frozen=True)
class PaperSection:
    """A paper with its items, its verdicts and, if it was run, its multiverse."""

    paper: Paper
    items: Sequence[Exhibit]
    verdicts: Sequence[Verdict]
    multiverse: MultiverseSection | None
    pieces: Sequence[Shown]

    @property
    def title(self) -> str:
        """A title of a few words, with the venue if it is short, and the year."""
        venue, year = self.paper.venue, str(self.paper.year)
        place = venue if year in venue and len(venue) <= _LONGEST_VENUE else year
        return f"{self.paper.summary.short or self.paper.name}, {place}"

    @property
    def missing(self) -> list[str]:
        """The data that its claims, tables and figures lack, each with the reason, once."""
        lacking = (*(exhibit.reproduction.gaps for exhibit in self.items), *(verdict.gaps for verdict in self.verdicts))
        return list(dict.fromkeys(text for texts in lacking for text in texts))

    @property
    def notes(self) -> list[str]:
        """Sentences on all its claims."""
        notes = []
        if any("time" in verdict.kinds for verdict in self.verdicts):
            notes.append("Times are of this implementation on the machine that measured them.")
        if any(verdict.diagnoses for verdict in self.verdicts):
            notes.append(
                "Tables under a claim have its verdict with one choice changed, unadjusted and on the trials that both "
                "choices share, before → after, and the effect of the statement that decides it after the change; [—]: "
                "too few runs for an interval."
            )
        return notes

    @property
    def sparkline(self) -> Markup:
        """A small picture of its first curves; empty if it has none."""
        return sparkline([exhibit.reproduction.numbers for exhibit in self.items])

    @property
    def item_counts(self) -> list[tuple[str, int]]:
        """The number of tables and figures in each state that occurs."""
        return _counts((exhibit.reproduction.state for exhibit in self.items), ITEM_STATES)

    @property
    def outcome_counts(self) -> list[tuple[str, int]]:
        """The number of claims with each outcome that occurs."""
        return _counts((verdict.outcome for verdict in self.verdicts), OUTCOMES)


def _counts(occurring: Iterable[str], states: Sequence[str]) -> list[tuple[str, int]]:
    every = list(occurring)
    return [(state, every.count(state)) for state in states if state in every]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def paragraphs(text: str) -> list[str]:
    r"""Return the paragraphs and list items of a docstring before its first numpydoc section, each as one line.

    Examples
    --------
    >>> paragraphs("One\ntwo.\n\n* a\n  b\n* c\n\nReturns\n-------\nNothing.")
    ['One two.', '• a b', '• c']
    """
    prose = re.split(r"^[^\n]+\n-{3,}$", inspect.cleandoc(text), maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.split(r"\n\s*\n|\n(?=\s*[*-] )", prose)
    return [re.sub(r"^[*-] ", "• ", " ".join(block.split())) for block in blocks if block.strip()]


def code_marked(text: str) -> Markup:
    """Return text as HTML, with the parts between backticks, settings and file names as code.

    Examples
    --------
    >>> print(code_marked("`kmdr` with kmeans.online=true, at r = 5, see lle.m."))
    <code>kmdr</code> with <code>kmeans.online=true</code>, at r = 5, see <code>lle.m</code>.
    """
    return Markup(CODE.sub(lambda match: f"<code>{match[2] or match[3]}</code>", str(escape(text))))


def left_open(verdict: Verdict) -> str:
    """Return the number of further repetitions that would decide an undecided claim, and their computing time."""
    component, repetitions = verdict.needed
    if component is not None and component.unit == "readings":
        return "its readings disagree, however many repetitions there are"
    if component is None or repetitions is None:
        most = max([MOST, *(statement.n for statement in verdict.central)])
        return f"more than {counted(most, 'repetition')} would be needed if the true effects equal the estimates"
    text = f"{component.label}: {counted(component.n, 'repetition')}, {repetitions} would decide it"
    if math.isnan(verdict.seconds_needed):
        return f"{text} (they are computed as facts, whose time is not recorded)"
    limit = ", more than the limit" if verdict.seconds_needed > MOST_SECONDS else ""
    return f"{text} (at most {duration(verdict.seconds_needed)} of computing more{limit})"


def missing_name(text: str, missing: Mapping[str, str]) -> str:
    """Return the name of the dataset that a sentence on missing data begins with, or else the sentence.

    Examples
    --------
    >>> missing_name("bio: must be downloaded", {"bio": "must be downloaded"}), missing_name("a: b", {})
    ('bio', 'a: b')
    """
    name = text.partition(":")[0]
    return name if name in missing else text


def _shown(piece: Piece) -> Shown:
    return Shown(piece, next(iter(pictures(piece.files)), None), table_grid(piece.table) if piece.table else None)


def _runs(several: Sequence[StudyRuns]) -> list[tuple[StudyRuns, list[Picture], list[tuple[Table, Grid]]]]:
    """Return runs outside the papers, each with its figures and tables as the page shows them."""
    return [
        (
            runs,
            pictures(runs.files),
            [(table, table_grid(table)) for table in (runs.table, runs.ranks) if table is not None],
        )
        for runs in several
    ]


def paper_sections(report: Report) -> list[PaperSection]:
    """Return the sections of the papers."""
    return [
        PaperSection(
            paper,
            [exhibit(reproduction, paper) for reproduction in report.items if reproduction.item.paper == paper.name],
            [verdict for verdict in report.verdicts if verdict.claim.paper == paper.name],
            section,
            [_shown(piece) for piece in section.pieces] if section else [],
        )
        for paper in report.papers
        for section in [report.multiverses.get(paper.name)]
    ]


def views(report: Report, sections: Sequence[PaperSection]) -> list[View]:
    """Return the views of a page, in the order of the navigation."""
    optional = [
        (report.custom, View("own-runs", "Your runs", "own.html.j2")),
        (report.verdicts or report.explored.get("views"), View("answers", "Answers", "answers.html.j2")),
        (report.explored.get("views"), View("explore", "Explore", "explore.html.j2")),
        (report.atlas, View("which-method", "Which method?", "which.html.j2")),
    ]
    of_papers = [View(f"paper-{s.paper.name}", s.title, "paper.html.j2", "Papers", s) for s in sections]
    evidence = [
        (report.beyond, View("beyond", "Beyond the papers", "beyond.html.j2", "Evidence")),
        (report.register, View("open-points", "Open choices", "choices.html.j2", "Evidence")),
        (True, View("runs", "Runs", "runs.html.j2", "Evidence")),
    ]
    return [
        View("home", "Overview", "home.html.j2"),
        *(view for shown, view in optional if shown),
        *of_papers,
        *(view for shown, view in evidence if shown),
    ]


def shortfalls(plan: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each way in which a run was not the full one; empty for a full run."""
    if plan.get("full", True):
        return []
    sentences = []
    if plan.get("thinned_grid"):
        sentences.append("Each study ran on only a few of its numbers of dimensions r.")
    if plan.get("budget_seconds"):
        sentences.append(f"Repetitions were chosen to fit a budget of {duration(plan['budget_seconds'])}.")
    studies = plan.get("studies", {})
    shortened = {name: study for name, study in studies.items() if study["repeats_planned"] < study["repeats_full"]}
    if shortened:
        shares = [study["repeats_planned"] / study["repeats_full"] for study in shortened.values()]
        sentences.append(
            f"{len(shortened)} of {counted(len(studies), 'study', 'studies')} "
            f"{'has' if len(shortened) == 1 else 'have'} fewer repetitions than configured "
            f"({100 * min(shares):.0f} % to {100 * max(shares):.0f} % of them)."
        )
    omitted = [
        f"{name} ({', '.join(map(str, study['left_out']))})" for name, study in studies.items() if study["left_out"]
    ]
    if omitted:
        sentences.append(f"Omitted: {'; '.join(omitted)}.")
    if plan.get("tasks_not_begun"):
        tasks = counted(int(plan["tasks_not_begun"]), "task was", "tasks were")
        sentences.append(f"{tasks} not started before the time budget ended.")
    return sentences or ["Some parts of the studies were not run."]


def _rerun_commands(report: Report) -> list[tuple[str, str]]:
    """Return commands for a folder of some papers or custom runs, each with what it does."""
    names = " ".join(paper.name for paper in report.papers)
    of_papers = "runs every study of these papers with available data, then makes this report"
    return [
        *([(f"kmdr reproduce {names} --out FOLDER", of_papers)] if names else []),
        ("kmdr verify FOLDER", "reruns a random sample of the rows and compares them"),
        ("kmdr report FOLDER", "makes figures, tables and this page from the rows alone"),
    ]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kmdr.reporting"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    by_their_names = (
        number, effect, probability, duration, paragraphs, code_marked, dataset_label, describe, markdown, footnote,
        segments, ticks, changes_at, forests, reason, describe_other_times, claim_sources, deciding_change, diagnosed,
        missing_name,
    )  # fmt: skip
    environment.filters |= {
        **{function.__name__: function for function in by_their_names},
        "md": markdown_escaped, "code": markdown_code, "prose": markdown_prose, "grid": table_grid, "plain": _plain,
    }  # fmt: skip
    environment.globals |= {
        "STATES": STATES,
        "OUTCOMES": OUTCOMES,
        "LEVEL": LEVEL,
        "CAUSE_RULE": RULE,
        "CHOICES_RULE": CHOICES_RULE,
        "KINDS": KINDS,
        "POWER": POWER,
        "MOST": MOST,
        "outcome_titles": OUTCOME_TITLES,
        "LEAST": LEAST,
        "MOST_OPEN": _MOST_OPEN,
        "MOST_OPEN_POINTS": _MOST_OPEN_POINTS,
        "RESULTS": RESULTS,
        "MOST_SECONDS": MOST_SECONDS,
        "frozen_note": frozen_note,
        "BASES": BASES,
        "seeds_sentence": seeds_sentence,
    }
    return environment


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return the page's content security policy, which allows only these styles and scripts, and inline pictures."""

    def allowed(texts: Sequence[str]) -> str:
        return " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts)

    return (
        f"default-src 'none'; img-src data:; style-src {allowed(styles)}; script-src {allowed(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _bare(grid: Grid) -> dict[str, object]:
    """Return a table as the script in the page reads it."""
    return {"names": grid.names, "lines": grid.lines, "numeric": sorted(grid.numeric), "omitted": grid.omitted}


def _script_json(value: object) -> str:
    """Return a value as JSON that cannot end the script element that contains it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def report_pages(report: Report, made_by: str) -> dict[Path, bytes]:
    """Return the page, and the same as Markdown: an index, a page for each paper, and one on the runs.

    ``made_by`` is the version of the code.
    """
    environment = _environment()
    names = shared_names(report)
    environment.filters["with_kind"] = lambda text: with_kind(text, names)
    sections = paper_sections(report)
    content = {
        **_page_parts(environment, report),
        **_menu_and_search(report, sections),
        **_results_of_papers(report, sections),
        **_runs_and_states(report),
        "report": report,
        "question": QUESTION if report.papers else "Your runs of k-means after dimensionality reduction",
        "made_by": made_by,
    }
    pages: dict[str, tuple[str, PaperSection | None]] = {
        "index.html": ("report.html.j2", None),
        "index.md": ("index.md.j2", None),
        **{f"{section.paper.name}.md": ("paper.md.j2", section) for section in sections},
        "runs.md": ("runs.md.j2", None),
        **({"which-method.md": ("which.md.j2", None)} if report.atlas else {}),
    }
    texts = {
        name: environment.get_template(template).render(content, section=section)
        for name, (template, section) in pages.items()
    }
    tidied = {name: text if name == "index.html" else re.sub(r"\n{3,}", "\n\n", text) for name, text in texts.items()}
    return {Path("report", name): printable(text).encode() for name, text in tidied.items()}


def _page_parts(environment: Environment, report: Report) -> dict[str, Any]:
    """Return style, scripts and the data that they read, and the policy that allows these scripts alone."""
    style, start_script, script, views_script = (
        environment.get_template(name).render() for name in ("style.css", "start.js", "report.js", "views.js")
    )
    parts: dict[str, Any] = {"explored": ""}
    scripts = [start_script, script]
    if report.explored.get("views"):
        explored = {**report.explored, **({"atlas": report.atlas.data} if report.atlas else {})}
        parts = {"explored": packed(data_text(explored)), "views_script": Markup(views_script)}
        scripts.append(views_script)
    return {
        "style": Markup(style),
        "start_script": Markup(start_script),
        "script": Markup(script),
        "policy": _policy([style], scripts),
        **parts,
    }


def _menu_and_search(report: Report, sections: Sequence[PaperSection]) -> dict[str, Any]:
    """Return the views of the page, by which its menu and its search lead, and the places of claims and studies."""
    of_page = views(report, sections)
    return {
        "views": of_page,
        "menu": [(group, list(inside)) for group, inside in groupby(of_page, key=lambda view: view.group)],
        "search_index": Markup(_script_json(entries(report, [(view.id, view.title) for view in of_page]))),
        "anchors": {v.claim.id: v.claim.id for v in report.verdicts}
        | {study["name"]: f"study-{study['name']}" for study in report.studies},
    }


def _results_of_papers(report: Report, sections: Sequence[PaperSection]) -> dict[str, Any]:
    """Return the sections of the papers and what is said of their claims, tables and figures together."""
    summaries = paper_summaries(report)
    shown_papers, of_kmdr = [paper.name for paper in report.papers], [paper.name for paper in built_in()]
    return {
        "paper_sections": sections,
        "paper_titles": {section.paper.name: section.title for section in sections},
        "paper_names": shown_papers,
        "papers_in_words": number_word(len(report.papers)),
        "built_in": [name for name in shown_papers if name in of_kmdr],
        "all_built_in": set(of_kmdr) <= set(shown_papers),
        "summaries": summaries,
        "leading": leading(summaries),
        "answer": [f.text for summary in summaries.values() for f in summary.findings if f.sentence.answer],
        "causes": failures(report.verdicts),
        "open_claims": [(v, left_open(v)) for v in report.verdicts if v.outcome == "undecided"],
        "outcome_counts": _counts((verdict.outcome for verdict in report.verdicts), OUTCOMES),
        "printed_note": NOTE,
        "printed": [(paper, shares(paper.folder), agreement(paper.folder)) for paper in report.papers],
        "tables": packed(
            json.dumps({e.reproduction.item.id: _bare(e.numbers) for s in sections for e in s.items if e.numbers})
        ),
    }


def _runs_and_states(report: Report) -> dict[str, Any]:
    """Return the atlas, the user's runs, and the state of the run of each study and item."""
    atlas = report.atlas.pieces if report.atlas else {}
    return {
        "atlas": {title: [_shown(piece) for piece in pieces] for title, pieces in atlas.items()},
        "custom": _runs(report.custom),
        "beyond": _runs(report.beyond),
        "shortfalls": shortfalls(report.plan),
        "rerun_commands": _rerun_commands(report),
        "item_counts": _counts((reproduction.state for reproduction in report.items), ITEM_STATES),
    }
