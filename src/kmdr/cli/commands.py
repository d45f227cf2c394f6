"""The command line: runs, and the subcommands that have no module of their own."""

import random
import re
import shlex
import sys
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from kmdr.base.errors import UserError, unknown
from kmdr.base.process import exit_status, version
from kmdr.base.signals import nothing_to_lose
from kmdr.base.text import Volume, announce
from kmdr.cli.arguments import COMMANDS

__all__ = ["COMMANDS", "command_line", "main"]
_VOLUMES = {"-q": -1, "--quiet": -1, "-v": 1, "--verbose": 1}
# Options of Hydra whose value is the next argument, and settings that do not change what is computed.
_TAKE_A_VALUE = {"-cd", "--config-dir", "-cn", "--config-name"}
_HOW_TO_RUN = re.compile(r"(out|runner|verify|keep_labels|refresh)\b.*|--refresh")


def show_version() -> None:
    """Print the version."""
    print(f"kmdr {version()}")


def figures(folder: Path, *, pdf: bool = False) -> None:
    """Draw objective, accuracy and time of a folder of results."""
    from kmdr.figures.canvas import FORMATS, WITH_PDF
    from kmdr.figures.panels import figures_for_folder

    for path in figures_for_folder(folder, WITH_PDF if pdf else FORMATS):
        print(path)


def report(folder: Path, *, pdf: bool = False) -> None:
    """Write the report of a folder of results."""
    from kmdr.config.studies import studies
    from kmdr.figures.canvas import FORMATS, WITH_PDF
    from kmdr.harness.plan import ALLOWANCE_SECONDS
    from kmdr.harness.progress import Progress
    from kmdr.reporting.build import build
    from kmdr.reporting.reproduce import check_modules

    check_modules()
    with Progress(0, ALLOWANCE_SECONDS) as progress:
        page = build(folder, studies(), again=True, tell=progress.making, formats=WITH_PDF if pdf else FORMATS)
    print(page)


def reproduce(papers: Sequence[str], out: Path, budget: float | None = None) -> int:
    """Run all studies of some papers, or of all, and write the report."""
    from kmdr.harness.plan import Limits
    from kmdr.reporting.reproduce import run_papers

    return run_papers(papers, out, Limits(budget=budget))


def quick(papers: Sequence[str], out: Path) -> int:
    """Run all studies of some papers, or of all, on a thinned grid, and write the report."""
    from kmdr.harness.plan import Limits
    from kmdr.reporting.reproduce import run_papers

    # Three trials of unknown duration are expected to take a little less, so custom studies are not omitted.
    return run_papers(papers, out, Limits(repeats=2, timing_repeats=1, grid=3, task_seconds=1.2))


def multiverse(papers: Sequence[str], out: Path, budget: float | None = None) -> int:
    """Run papers under every combination of the choices that they leave open."""
    from kmdr.multiverse.choices import multiverses
    from kmdr.results.paths import multiverse_folder
    from kmdr.results.table import has_rows

    known = {spec.paper for spec in multiverses()}
    for name in papers:
        if name not in known:
            raise unknown("paper with a multiverse.yaml", name, known)
    if not known:
        raise UserError("no paper has a multiverse.yaml; add one to the folder of a paper")
    status = _run_multiverses(papers, out, budget)
    if multiverse_folder(out.parent) == out and has_rows(out.parent):
        announce(f"'kmdr report {shlex.quote(str(out.parent))}' shows it next to the results of the papers' protocols")
    return status


def atlas(datasets: Sequence[str], out: Path, budget: float | None = None, method: str | None = None) -> int:
    """Run every method, or one, on the datasets of the atlas, at r in multiples of k."""
    from kmdr.atlas.design import design
    from kmdr.atlas.run import run_atlas

    for name in datasets:
        if name not in design().datasets:
            raise unknown("dataset of the atlas", name, design().datasets)
    return run_atlas(out, budget, datasets, method)


def _run_multiverses(papers: Collection[str], out: Path, budget: float | None = None, seed: int | None = None) -> int:
    from kmdr.config.compose import composed_studies
    from kmdr.multiverse.choices import multiverses
    from kmdr.multiverse.design import run_multiverses
    from kmdr.reporting.reproduce import draw

    specs = [spec for spec in multiverses() if not papers or spec.paper in papers]
    return run_multiverses(specs, composed_studies(str(out), seed), out, budget, draw) if specs else 0


def reference(papers: Sequence[str], out: Path, seed: int) -> int:
    """Run what a folder lacks of studies and multiverses with a seed, and compress it for publication."""
    from kmdr.harness.plan import Limits
    from kmdr.reporting.reproduce import run_papers
    from kmdr.results.compress import compress_texts
    from kmdr.results.paths import MULTIVERSE, parts_of
    from kmdr.results.table import compress

    status = max(_run_multiverses(papers, out / MULTIVERSE, seed=seed), run_papers(papers, out, Limits(), seed))
    for folder in parts_of(out):
        print(compress(folder))
    compress_texts(out)
    return status


def verify(
    folder: Path, rows: int, seed: int | None, trust: Sequence[str], seconds: float | None, memory: int | None
) -> int:
    """Rerun a random sample of rows and compare them digit by digit.

    Classes that the folder names are not imported unless ``trust`` names them, as ``reducer=package.Class`` or
    ``kmeans.engine=package.Class``. They run with the arguments that the folder states.
    """
    from kmdr.harness.verify import user_limit, verify_sample

    given = user_limit(seconds, memory)
    return verify_sample(folder, rows, random.randrange(2**32) if seed is None else seed, trust, given)


def shard(arguments: Sequence[str]) -> int:
    """Run one of N parts of a plan: ``I/N [STUDY|PAPER …] [SETTING=VALUE …] out=PART``.

    Without studies, papers or settings that say what to run, the plan is that of all studies.
    """
    from kmdr.cli import jobs
    from kmdr.config.studies import on_request, studies, study_names
    from kmdr.harness.shard import parse_part

    part = parse_part(arguments[0] if arguments else "")
    words: list[str] = []
    settings: list[str] = []
    for before, text in pairwise(arguments):
        is_word = re.fullmatch(r"\w[\w-]*", text) and before not in _TAKE_A_VALUE
        (words if is_word else settings).append(text)
    if not any(text.startswith("out=") for text in settings):
        raise UserError(f"part {part} needs a folder of its own for its rows; name one, e.g. out=parts/{part.number}")
    if any(re.match(r"\W*hydra[./]launcher", text) for text in settings):
        raise UserError("a part runs where its command was started, so hydra/launcher cannot be set; remove it")
    known = {name: [name] for name in study_names()}
    everything = not words and all(map(_HOW_TO_RUN.fullmatch, settings))
    named_only = on_request()
    names = [name for name in known if name not in named_only] if everything else []
    for study in studies():
        if "paper" in study and not study["on_request"]:
            known.setdefault(study["paper"], []).append(study["name"])
    for word in words:
        if word not in known:
            raise unknown("study or paper", word, known)
        names += known[word]
    sys.argv[1:] = ["-m", *([f"study={','.join(dict.fromkeys(names))}"] if names else []), *settings]
    with nothing_to_lose():
        asked = jobs.from_command_line()
    return jobs.run_jobs(asked, part=part) if asked else 0


def _run_settings() -> int:
    from kmdr.config.overrides import check_names

    with nothing_to_lose():
        check_names(sys.argv[1:])  # before the modules that runs need, which take seconds to import
        from kmdr.cli import jobs

        asked = jobs.from_command_line()
    return jobs.run_jobs(asked) if asked else 0


def command_line() -> int | None:
    """Run what ``sys.argv`` asks for, one of `COMMANDS` or Hydra overrides, and return the exit status."""
    Volume.level = max((_VOLUMES[text] for text in sys.argv[1:] if text in _VOLUMES), key=abs, default=0)
    sys.argv[1:] = arguments = [text for text in sys.argv[1:] if text not in _VOLUMES]
    name = arguments[0] if arguments else ""
    if not arguments or {"-h", "--help"} & set(arguments):
        from kmdr.cli import help as usage

        usage.show(arguments) if arguments else usage.show_welcome()
        return 0
    if name == "--version":
        name, arguments = "version", []
    if name in COMMANDS:
        return COMMANDS[name](arguments[1:])
    if re.fullmatch(r"\w[\w-]*", name):
        from kmdr.config.suggestions import unknown_command

        raise unknown_command(name, next(iter(arguments[1:]), ""), COMMANDS)
    return _run_settings()


def main() -> None:
    """Run the command of ``sys.argv`` and exit.

    Exit status: 0 for success; 1 when a trial failed, a file was not as expected, or an unforeseen error occurred; 2
    for a mistake in the request; 130, 143 or 129 when interrupted by INT, TERM or HUP.
    """
    sys.exit(exit_status(command_line))
