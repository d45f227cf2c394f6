"""Jobs of a command: composed from its arguments, run, and their rows drawn and shown."""

from collections.abc import Sequence

from kmdr.base.outside import keep_folder_and_streams
from kmdr.config.compose import configs_of_command_line
from kmdr.harness import jobs as harness
from kmdr.harness.jobs import Job
from kmdr.harness.shard import Part


def run_jobs(jobs: Sequence[Job], *, part: Part | None = None) -> int:
    """Run jobs as `kmdr.harness.jobs.run_jobs` does, draw their figures, and print the table of the run."""
    # A mistake in the settings is answered before these are imported, which takes a second.
    from kmdr.cli.screen import show_run
    from kmdr.reporting.reproduce import check_modules, draw

    if any(job.study for job in jobs):
        check_modules()
    return harness.run_jobs(jobs, part=part, draw=draw, show=show_run)


def from_command_line() -> list[Job]:
    """Return the jobs of ``sys.argv``: one, or all jobs of a sweep."""
    with keep_folder_and_streams():
        return configs_of_command_line(Job.from_configs, lambda job: run_jobs([job]))
