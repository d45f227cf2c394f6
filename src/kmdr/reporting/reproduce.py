"""Reproducing papers: their studies are run, and the report is made."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from kmdr.base.errors import UserError, unknown
from kmdr.base.text import announce
from kmdr.claims.catalogue import papers
from kmdr.config.studies import studies
from kmdr.harness.jobs import compose_studies, run_jobs
from kmdr.harness.plan import Limits
from kmdr.harness.progress import Progress


def draw(out: Path, names: Collection[str], limits: Limits | None, progress: Progress) -> list[Path]:
    """Make the report where there are limits, else the tables and figures of some studies; return the files."""
    from kmdr.reporting.build import build, draw_items

    return [build(out, studies(), tell=progress.making)] if limits else draw_items(out, names, studies())


def run_papers(names: Sequence[str], out: Path, limits: Limits) -> int:
    """Run every study of some papers, or of all, and make the report; return the exit status.

    Parameters
    ----------
    names : sequence of str
        Of papers; all where there are none.
    out : Path
    limits : Limits

    Raises
    ------
    UserError
        When there is no such paper, or it has no studies.
    """
    known = [paper.name for paper in papers()]
    for name in names:
        if name not in known:
            raise unknown("paper", name, known)
    jobs = [job for job in compose_studies(str(out)) if not names or (job.study or {}).get("paper") in names]
    if not jobs:
        raise UserError(f"{', '.join(names)} has no studies to run; add one to the folder 'studies' of its own")
    status = run_jobs(jobs, limits, draw=draw)
    announce(f"'kmdr table {shlex.quote(str(out))}' has a line a study, and with STUDY=NAME all of one")
    return status
