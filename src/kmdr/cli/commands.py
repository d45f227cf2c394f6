"""The commands, each a function of its arguments."""

import random
import re
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from kmdr import datasets, metrics, reducers
from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.paths import RESULTS
from kmdr.base.plugins import origin_of
from kmdr.base.process import WELCOME, at_once, exit_status, say_version
from kmdr.base.text import Volume, aligned, announce
from kmdr.cli import demo, new, screen
from kmdr.cli import help as usage
from kmdr.cli.jobs import from_command_line, run_jobs
from kmdr.clustering import engines
from kmdr.config.protocols import composed_studies, pairs
from kmdr.config.studies import on_request, studies, study_names
from kmdr.datasets import registry, status
from kmdr.export import command as export
from kmdr.harness import rescore
from kmdr.harness.plan import ALLOWANCE_SECONDS, Limits, parse_duration
from kmdr.harness.progress import Progress
from kmdr.harness.shard import parse_part
from kmdr.harness.verify import verify_sample
from kmdr.reporting.reproduce import draw, run_papers
from kmdr.results import check, merge
from kmdr.results.paths import MULTIVERSE, multiverse_folder
from kmdr.results.table import compress, has_rows


def _table(title: str, rows: Sequence[Sequence[str]]) -> None:
    print(title)
    for line in aligned(rows):
        print(f"  {line}")


def _listed(kind: str) -> list[tuple[str, ...]]:
    """Return a line for each thing of a kind; one that is not kmdr's own says where it comes from."""
    if kind == "datasets":
        available = [datasets.availability(name) for name in datasets.names()]
        return [(a.name, a.shape, a.state, a.where, registry.entry(a.name).guest) for a in available]
    if kind == "reducers":
        return [(name, reducers.summary(name), reducers.origin_of_reducer(name)) for name in reducers.names()]
    if kind == "engines":
        return [(name, engines.summary(name), engines.origin_of_engine(name)) for name in engines.names()]
    if kind == "metrics":
        known = metrics.metrics().values()
        return [(m.name, m.label, f"{m.low:g} to {m.high:g}", origin_of(m.function.__module__)) for m in known]
    if kind == "papers":
        from kmdr.claims.catalogue import papers

        counts = [(p, f"{len(p.items)} tables and figures, {len(p.claims)} claims") for p in papers()]
        return [(p.name, p.title, p.venue, count, origin_of(f"{p.folder.package}.")) for p, count in counts]
    return [(study["name"], study["title"], "on " + ", ".join(study["datasets"])) for study in studies()]


KINDS = ("datasets", "reducers", "engines", "metrics", "papers", "studies")


def _list(arguments: Sequence[str]) -> None:
    """``kmdr list [KIND …]``: what there is: datasets, reducers, engines, metrics, papers, studies."""
    for wanted in arguments:
        if wanted not in KINDS:
            raise unknown("list", wanted, KINDS)
    for kind in arguments or KINDS:
        _table(kind, _listed(kind))


def _figures(arguments: Sequence[str]) -> None:
    """``kmdr figures DIR``: draw objective, accuracy and time of a folder of results."""
    if len(arguments) != 1:
        raise UserError("'kmdr figures' takes one folder of results, e.g. 'kmdr figures results/runs'")
    from kmdr.figures.panels import figures_for_folder

    for path in figures_for_folder(Path(arguments[0])):
        print(path)


def _report(arguments: Sequence[str]) -> None:
    """``kmdr report DIR``: make tables, figures and verdicts of the papers from a folder of results; needs no data."""
    if len(arguments) != 1:
        raise UserError("'kmdr report' takes one folder of results, e.g. 'kmdr report results/runs'")
    from kmdr.reporting.build import build

    with closing(Progress(0, ALLOWANCE_SECONDS)) as progress:
        page = build(Path(arguments[0]), studies(), again=True, tell=progress.making)
    print(page)


def _words_and_settings(
    command: str, arguments: Sequence[str], valid: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Split the arguments of a command into words and settings ``NAME=value``, as those of make are written.

    Raises
    ------
    UserError
        When there is no such setting.
    """
    words, settings = [], {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals and not text.startswith("-"):
            words.append(text)
        elif equals and key.upper() in valid:
            settings[key.upper()] = value
        else:
            raise unknown(f"setting of 'kmdr {command}'", key.lstrip("-").upper(), [f"{name}=…" for name in valid])
    return words, settings


def _reproduce(arguments: Sequence[str]) -> int:
    """``kmdr reproduce [PAPER …] [BUDGET=10m] [OUT=DIR]``: run all studies of some papers or all, and report."""
    names, settings = _words_and_settings("reproduce", arguments, ("BUDGET", "OUT"))
    budget = settings.get("BUDGET")
    limits = Limits(budget=None if budget is None else parse_duration(budget))
    return run_papers(names, Path(settings.get("OUT", RESULTS)).expanduser(), limits)


def _multiverse(arguments: Sequence[str]) -> int:
    """``kmdr multiverse [PAPER …] [BUDGET=10m] [OUT=DIR]``: run papers under each choice they leave open; report."""
    from kmdr.multiverse import choices

    names, settings = _words_and_settings("multiverse", arguments, ("BUDGET", "OUT"))
    specs = {spec.paper: spec for spec in choices.multiverses()}
    for name in names:
        if name not in specs:
            raise unknown("paper with a multiverse.yaml", name, specs)
    if not specs:
        raise UserError("no paper has a multiverse.yaml; add one to the folder of a paper")
    budget = settings.get("BUDGET")
    out = Path(settings.get("OUT", f"{RESULTS}/{MULTIVERSE}")).expanduser()
    status = _run_multiverses(names, out, None if budget is None else parse_duration(budget))
    if multiverse_folder(out.parent) == out and has_rows(out.parent):
        announce(f"'kmdr report {shlex.quote(str(out.parent))}' shows it beside what the papers' own protocols give")
    return status


def _run_multiverses(names: Collection[str], out: Path, budget: float | None = None) -> int:
    from kmdr.multiverse import choices
    from kmdr.multiverse.design import run_multiverses

    specs = [spec for spec in choices.multiverses() if not names or spec.paper in names]
    return run_multiverses(specs, composed_studies(str(out)), pairs, out, budget, draw) if specs else 0


def _quick(arguments: Sequence[str]) -> int:
    """``kmdr quick [PAPER …] [OUT=DIR]``: the same on a thinned grid, in about a minute on two cores."""
    names, settings = _words_and_settings("quick", arguments, ("OUT",))
    # Three trials of which nothing is known are expected to take a little less, so that an own study is not left out.
    limits = Limits(repeats=2, timing_repeats=1, grid=3, task_seconds=0.35)
    return run_papers(names, Path(settings.get("OUT", "results/quick")).expanduser(), limits)


# Options that the next argument belongs to, and settings that say how to run, not what.
_TAKE_A_VALUE = {"-cd", "--config-dir", "-cn", "--config-name"}
_HOW = re.compile(r"(out|runner|verify|keep_labels|refresh)\b.*|--refresh")


def _shard(arguments: Sequence[str]) -> int:
    """``kmdr shard I/N [STUDY|PAPER …] [SETTING=VALUE …] out=PART``: run one of N parts of a plan, to be merged.

    Without studies, papers or settings that say what to run the plan is that of all studies.
    """
    part = parse_part(arguments[0] if arguments else "")
    words: list[str] = []
    settings: list[str] = []
    for before, text in pairwise(arguments):
        is_word = re.fullmatch(r"\w[\w-]*", text) and before not in _TAKE_A_VALUE
        (words if is_word else settings).append(text)
    if not any(text.startswith("out=") for text in settings):
        raise UserError(f"part {part} needs a folder of its own for its rows; name one, e.g. out=parts/{part.number}")
    if any(re.match(r"\W*hydra[./]launcher", text) for text in settings):
        raise UserError("a part runs where its command was started, so hydra/launcher cannot be set; leave it away")
    known = {name: [name] for name in study_names()}
    everything = not words and all(map(_HOW.fullmatch, settings))
    later = on_request()
    names = [name for name in known if name not in later] if everything else []
    for study in studies():
        if "paper" in study and not study["on_request"]:
            known.setdefault(study["paper"], []).append(study["name"])
    for word in words:
        if word not in known:
            raise unknown("study or paper", word, known)
        names += known[word]
    of_studies = [f"study={','.join(dict.fromkeys(names))}"] if names else []
    sys.argv[1:] = ["-m", *of_studies, *settings]
    with at_once():
        jobs = from_command_line()
    return run_jobs(jobs, part=part) if jobs else 0


def _reference(arguments: Sequence[str]) -> int:
    """``kmdr reference [OUT=DIR]``: run what a folder lacks of studies and multiverses; pack its rows to hand on."""
    names, settings = _words_and_settings("reference", arguments, ("OUT",))
    out = Path(settings.get("OUT", "results/reference")).expanduser()
    status = max(_run_multiverses(names, out / MULTIVERSE), run_papers(names, out, Limits()))
    for folder in dict.fromkeys((multiverse_folder(out), out)):
        print(compress(folder))
    return status


def _options(name: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return arguments without an option that may be repeated, and its values: ``--name VALUE`` or ``--name=VALUE``.

    Raises
    ------
    UserError
        When it has no value.
    """
    rest, values, source = [], [], iter(arguments)
    for text in source:
        if text != name and not text.startswith(f"{name}="):
            rest.append(text)
            continue
        value = next(source, "") if text == name else text.partition("=")[2]
        if not value:
            raise UserError(f"{name} has no value; give one, e.g. {name} reducer=package.module.Class")
        values.append(value)
    return rest, values


def _verify(arguments: Sequence[str]) -> int:
    """``kmdr verify [DIR] [ROWS=40] [SEED=…] [--trust reducer=PATH]``: rerun a sample of rows, compare digit by digit.

    Classes that the folder names are not imported, unless ``--trust`` names them: ``--trust reducer=package.Class`` or
    ``--trust kmeans.engine=package.Class``, as often as needed. They run with the arguments that the folder states.
    """
    arguments, trusted = _options("--trust", arguments)
    folders, settings = _words_and_settings("verify", arguments, ("ROWS", "SEED"))
    if len(folders) > 1:
        raise UserError(f"'kmdr verify' takes one folder of results, not {len(folders)}; verify one after the other")
    numbers = {"ROWS": "40", "SEED": str(random.randrange(2**32)), **settings}
    for name, text in numbers.items():
        if not re.fullmatch(r"\d{1,18}", text) or (name, int(text)) == ("ROWS", 0):
            raise UserError(f"{name} = {shown(text)} is not a whole number of at least {int(name == 'ROWS')}; give one")
    folder = Path(folders[0] if folders else "results/reference").expanduser()
    return verify_sample(folder, int(numbers["ROWS"]), int(numbers["SEED"]), trusted)


def _help(arguments: Sequence[str]) -> None:
    """``kmdr help``: this list; ``kmdr --help`` shows every setting of a run."""
    if arguments:
        raise UserError(f"'kmdr help' takes no more words, but was given {shown(arguments[0])}; leave it out")
    print(usage.commands(COMMANDS))


# A command gets the remaining arguments; None as exit status means 0. The first line of its docstring is its help.
COMMANDS: dict[str, Callable[[Sequence[str]], int | None]] = {
    "demo": demo.run, "list": _list, "table": screen.table, "compare": screen.compare, "figures": _figures,
    "report": _report, "data": status.run, "check": check.run, "shard": _shard, "merge": merge.run,
    "export": export.run, "metrics": rescore.run, "reproduce": _reproduce, "multiverse": _multiverse, "quick": _quick,
    "reference": _reference, "verify": _verify, "new": new.run, "help": _help, "version": say_version,
}  # fmt: skip
_VOLUMES = {"-q": -1, "--quiet": -1, "-v": 1, "--verbose": 1}


def command_line() -> int | None:
    """Do what ``sys.argv`` says, a command of `COMMANDS` or Hydra overrides to run, and return the exit status."""
    Volume.level = max((_VOLUMES[text] for text in sys.argv[1:] if text in _VOLUMES), key=abs, default=0)
    sys.argv[1:] = arguments = [text for text in sys.argv[1:] if text not in _VOLUMES]
    name = arguments[0] if arguments else ""
    if {"-h", "--help"} & set(arguments):
        print(usage.of_command(COMMANDS[name]) if name in COMMANDS else usage.everything(COMMANDS, arguments))
        return 0
    if not arguments:
        print(WELCOME)
        return 0
    if name in COMMANDS:
        return COMMANDS[name](arguments[1:])
    if re.fullmatch(r"\w[\w-]*", name):
        raise unknown("command", name, COMMANDS)
    with at_once():
        jobs = from_command_line()
    return run_jobs(jobs) if jobs else 0


def main() -> None:
    """Entry point, in a process that has all its modules.

    Exit status: 0 when all went well; 1 when a trial failed, a file was not what it should be, or something went wrong
    that nobody foresaw; 2 for a mistake in what was asked; 130, 143 or 129 when interrupted by INT, TERM or HUP.
    """
    sys.exit(exit_status(command_line))
