"""Reproduction of papers: run their studies and make the report."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from kmdr.base.errors import UserError, unknown
from kmdr.base.text import announce
from kmdr.claims.catalogue import papers
from kmdr.claims.declared_names import check_declared_names, check_papers_of_studies
from kmdr.config.studies import studies
from kmdr.harness.jobs import compose_studies, run_jobs
from kmdr.harness.plan import Limits
from kmdr.harness.progress import Progress
from kmdr.results.table import has_rows


def draw(out: Path, names: Collection[str], limits: Limits | None, progress: Progress, until: float) -> list[Path]:
    """Compute facts, then make the report if there are limits, or else tables and figures of some studies.

    ``names`` are the studies that were run. No fact is started after ``until``, in seconds since the epoch. Return the
    written files, or the page of the report. Raise `UserError` if there are limits, and the folder has no rows.
    """
    from kmdr.claims.facts import fact_tasks
    from kmdr.harness.facts import run_facts
    from kmdr.multiverse.choices import STUDY
    from kmdr.reporting.build import build, draw_items, is_current

    if not limits:
        run_facts(fact_tasks(out, names), out, progress, until)
        return draw_items(out, names, studies())
    if not has_rows(out):
        raise UserError(
            f"no trial ended in the time of this run, so {out} has no rows to report; give it more, e.g. --budget 10m"
        )
    if not is_current(out):
        # A run of multiverses alone needs the facts of the studies whose open choices it varies.
        settled = {name.removeprefix(STUDY) for name in names if name.startswith(STUDY)}
        run_facts(fact_tasks(out, settled if len(settled) == len(names) else None), out, progress, until)
    return [build(out, studies(), tell=progress.making)]


def check_modules() -> None:
    """Refuse an invalid module of any paper, because reports and what a run draws read all papers.

    Raise `UserError` if a module cannot be imported or lists something else than it should, or if a paper's files name
    a study, dataset, fact or claim that does not exist.
    """
    for paper in papers():
        _ = paper.items, paper.claims, paper.facts, paper.answers
    check_papers_of_studies()
    for paper in papers():
        check_declared_names(paper)


def run_papers(names: Sequence[str], out: Path, limits: Limits, seed: int | None = None) -> int:
    """Run every study of some papers, or of all, and make the report; return the exit status.

    ``seed`` takes the place of the root of all random draws in the configuration. Raise `UserError` if there is no such
    paper, or it has no studies.
    """
    known = [paper.name for paper in papers()]
    for name in names:
        if name not in known:
            raise unknown("paper", name, known)
    jobs = compose_studies(str(out), seed, names)
    if not jobs:
        raise UserError(f"{', '.join(names)} has no studies to run; add one to its folder 'studies'")
    check_modules()
    status = run_jobs(jobs, limits, draw=draw)
    announce(
        f"'kmdr table {shlex.quote(str(out))}' prints one line per study; add --study NAME for all rows of a study"
    )
    return status
