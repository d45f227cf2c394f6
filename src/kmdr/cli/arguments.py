"""The subcommands of ``kmdr`` and their arguments.

Nothing heavy is imported here, so that a mistyped command or option is answered at once. The module that does a
command's work is imported when the command runs.
"""

import difflib
import importlib
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.files import DamagedError
from kmdr.base.limits import parse_size
from kmdr.base.paths import RESULTS, with_home
from kmdr.base.signals import nothing_to_lose

LISTED = ("datasets", "reducers", "engines", "metrics", "papers", "studies")
DATA_ACTIONS = ("status", "get", "where", "check")
SKELETONS = ("reducer", "dataset", "metric", "engine", "paper")
SHELLS = ("bash", "zsh")
FORMATS = ("text", "md", "latex", "csv")

# Names by which a folder or a file might be given, which has none.
_FOLDERS = ("results", "folder", "folders", "dir", "path", "file")

# The arguments of `ArgumentParser.add_argument`.
Argument = tuple[tuple[str, ...], dict[str, Any]]


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {' '.join(self.format_usage().split())}")


@dataclass(frozen=True)
class Command:
    """A subcommand; a call with the words after its name returns an exit status, where None means 0.

    Attributes
    ----------
    summary : str
        One sentence for the list of commands.
    function : str
        ``module:name`` of the function that does the work; it gets the parsed arguments by their names.
    arguments : tuple of Argument or None
        None if the function parses them itself.
    details : str
        More sentences for the help of this command.
    usage : str, optional
        What follows the name of the command, by default made from the arguments.
    takes_settings : bool
        Whether the function gets words ``NAME=value`` that are not options; otherwise they are refused.
    tables : str
        The argument with a results folder, or several, whose tables the function reads; or empty.
    """

    name: str
    summary: str
    function: str
    arguments: tuple[Argument, ...] | None = ()
    details: str = ""
    usage: str | None = None
    takes_settings: bool = False
    tables: str = ""

    def parser(self) -> ArgumentParser:
        """Return the parser of the arguments, which also formats the help."""
        usage = None if self.usage is None else f"kmdr {self.name} {self.usage}"
        description = f"{self.summary} {self.details}".strip()
        parser = _Parser(f"kmdr {self.name}", usage, description, add_help=False, allow_abbrev=False)
        for names, settings in self.arguments or ():
            parser.add_argument(*names, **settings)
        return parser

    def _with_options(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments with each option that is written ``NAME=value`` as ``--name=value``.

        After ``--`` there are no options.
        """
        takes_value = {
            name: settings.get("action") not in ("store_true", "store_false")
            for names, settings in self.arguments or ()
            for name in names
            if name.startswith("-")
        }
        result: list[str] = []
        for place, text in enumerate(arguments):
            name, _, value = text.partition("=")
            is_value = bool(result) and takes_value.get(result[-1], False)
            if text == "--" and not is_value:  # what follows are names, also those that begin with a dash
                return result + [f"./{name}" if name.startswith("-") else name for name in arguments[place + 1 :]]
            if text.startswith("-") and not is_value and name not in takes_value:
                raise _unknown_option(self.name, name, takes_value)
            option = name if text.startswith("-") else f"--{name.lower().replace('_', '-')}"
            if not is_value and "=" in text and takes_value.get(option) is False and not Path(text).exists():
                raise UserError(
                    f"{option} of 'kmdr {self.name}' takes no value; write {option} instead of {shown(text)}"
                )
            if is_value or not re.fullmatch(r"[A-Za-z][A-Za-z_-]*=.*", text, re.DOTALL):
                result.append(text)
            elif takes_value.get(option):
                result.append(f"{option}={value}")
            elif self.takes_settings or Path(text).exists():
                result.append(text)
            else:
                positional = any(not names[0].startswith("-") for names, _ in self.arguments or ())
                if positional and (name.lower() in _FOLDERS or Path(value).exists()):
                    words = shlex.join(["kmdr", self.name, value])
                    raise UserError(f"'kmdr {self.name}' takes {shown(value)} without {name}=; write {words}")
                options = [key for key, takes in takes_value.items() if takes and key[:2] == "--"]
                if not options:
                    raise UserError(f"'kmdr {self.name}' takes no settings; remove {shlex.quote(text)}")
                raise _unknown_option(self.name, option, options)
        return result

    def __call__(self, arguments: Sequence[str]) -> int | None:
        """Parse the arguments and run the command."""
        values: dict[str, Any] = {"arguments": arguments}
        if self.arguments is not None:
            values = vars(self.parser().parse_intermixed_args(self._with_options(arguments)))
        module, _, name = self.function.partition(":")
        with nothing_to_lose():
            function: Callable[..., int | None] = getattr(importlib.import_module(module), name)
            if self.tables:
                _refuse_missing_tables(values[self.tables])
        return function(**values)


def _refuse_missing_tables(named: Path | Sequence[Path]) -> None:
    """Report the folders that a run is writing, and refuse one whose table is not made yet."""
    from kmdr.results.store import note_killed_runs, note_runs  # imports pandas, as the modules of these commands do
    from kmdr.results.table import refuse_missing_table

    with suppress(DamagedError):  # the command says what is wrong with the folder
        for folder in dict.fromkeys([named] if isinstance(named, Path) else named):
            note_runs(folder)
            refuse_missing_table(folder)
            note_killed_runs(folder)


def _unknown_option(command: str, name: str, valid: Iterable[str]) -> UserError:
    """Return the error for an unknown option, with the one whose letters are most similar."""
    options = sorted(valid)
    if not options:
        return UserError(f"'kmdr {command}' has no options; remove {shown(name)}")
    letters = {option.lstrip("-"): option for option in options}
    near = difflib.get_close_matches(name.lstrip("-").lower(), letters, n=1, cutoff=0.5)
    hint = f"did you mean {letters[near[0]]!r}? " if near else ""
    return UserError(f"no option of 'kmdr {command}' is named {shown(name)}; {hint}valid: {', '.join(options)}")


def _argument(*names: str, **settings: Any) -> Argument:
    return names, settings


def _folder(text: str) -> Path:
    if not text:  # such as of --out=$UNSET
        raise UserError("the name of a folder is empty; name one, or '.' for the current folder")
    return with_home(text, "the folder")


def _word(what: str, choices: Sequence[str], text: str) -> str:
    """Return a word that is one of some; the error suggests a similar word, which that of argparse does not."""
    if text not in choices:
        raise unknown(what, text, choices)
    return text


def _whole_number(name: str, least: int, text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
        raise UserError(f"{name} = {shown(text)} is not a whole number of at least {least}; give one")
    return int(text)


def _positive_number(name: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) or float(text) <= 0:
        raise UserError(f"{name} = {shown(text)} is not a positive number; give one, e.g. 2 or 1.5")
    return float(text)


def _size(name: str, text: str) -> int:
    size = parse_size(text)
    if not size:
        raise UserError(f"{name} = {shown(text)} is not a size; give bytes, or e.g. 500M or 2G")
    return size


def _budget(text: str) -> float:
    from kmdr.harness.plan import parse_duration  # imports pandas, which only the commands that run studies need

    return parse_duration(text)


def _out(default: str, what: str = "results folder") -> Argument:
    return _argument("--out", type=_folder, default=_folder(default), metavar="DIR", help=f"{what} ({default})")


_RESULTS = _argument("folder", type=_folder, metavar="DIR", help="folder of results")
_FORMAT = _argument(
    "--format", type=partial(_word, "format", FORMATS), default="text", help=f"{', '.join(FORMATS)}; text by default"
)
_PDF = _argument("--pdf", action="store_true", help="also write the figures as PDF, for print")
_PAPERS = _argument("papers", nargs="*", metavar="PAPER", help="short name of a paper; all papers by default")
_BUDGET = _argument(
    "--budget", type=_budget, metavar="TIME", help="wall time, e.g. 10m, which limits the number of repetitions"
)

_TRUST = _argument(
    "--trust", action="append", default=[], metavar="SETTING",
    help="import this class, named by the folder: reducer=package.Class or kmeans.engine=package.Class; may be "
         "repeated",
)  # fmt: skip
_LIMITS = (
    _argument("--seconds", type=partial(_positive_number, "--seconds"), metavar="N",
              help="stop a row that takes longer; by default 20 times what it states, from 1 min to 1 h"),
    _argument("--memory", type=partial(_size, "--memory"), metavar="SIZE",
              help="stop a row that takes more memory, e.g. 500M (4G)"),
)  # fmt: skip
_SAMPLE = (
    _argument("--rows", type=partial(_whole_number, "--rows", 1), default=40, metavar="N", help="sample size (40)"),
    _argument(
        "--seed", type=partial(_whole_number, "--seed", 0), metavar="N", help="seed of the sample; random by default"
    ),
)
_SUBMISSIONS = _out("results/submitted", "folder of submissions")
_COLUMNS_OF_TABLE = (
    "One line is one method at one r, with its means over n repetitions. F/F_best is the objective F over the smallest "
    "F on the data, P the accuracy, and NMI the normalised mutual information of clusters and classes. * or bold: the "
    "best mean of the dataset. ±: half of the 95 % interval of the mean. ↑ ↓: a significant difference from none, "
    "k-means on all features, from the same starts, by paired t tests at 5 % with Holm's adjustment over all lines and "
    "quantities. Δ is the mean difference of F/F_best from none with its 95 % interval, for one comparison. Each end "
    "is the wider one of two intervals, Student's and Hall's for skewed differences, so Δ may be far from the middle. "
    "An interval without 0 may have no arrow, because of the adjustment, or because one outlier makes Hall's test "
    "uncertain. 'n to show' is about how many repetitions would show a difference as large as Δ with a power of 90 %. "
    "An interval of width 0 has equal values in all repetitions. Seconds are medians of serial timings, with "
    "distribution-free 95 % intervals from six timings on; –: not timed serially, as timing_repeats=6 does. †: from "
    "several versions of the code. --format csv has all of this for every quantity."
)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "demo", "Run four methods on real data, and show a table and a picture, in seconds.", "kmdr.cli.demo:run",
            (_out("results/demo"),),
        ),
        Command(
            "list", "Show the available datasets, reducers, engines, metrics, papers and studies.",
            "kmdr.cli.listing:show",
            (
                _argument("kinds", nargs="*", type=partial(_word, "list", LISTED), metavar="KIND",
                          help=", ".join(LISTED)),
            ),
        ),
        Command(
            "table", "Show means with 95 % confidence intervals, and significance against k-means on all features.",
            "kmdr.cli.screen:table",
            (
                _RESULTS,
                _argument("--study", metavar="NAME",
                          help="the methods of one study, or of all; by default, several studies have one line each"),
                _FORMAT,
            ),
            _COLUMNS_OF_TABLE,
            tables="folder",
        ),
        Command(
            "compare", "Show two folders of results side by side, with their differences.", "kmdr.cli.screen:compare",
            (_argument("folders", nargs=2, type=_folder, metavar="DIR", help="folders of results"), _FORMAT),
            "A is the first folder, B the second. Lines with the same starts are compared in pairs; the notes below "
            "the table state the tests.",
            tables="folders",
        ),
        Command(
            "figures", "Draw objective, accuracy and time of a folder of results.", "kmdr.cli.commands:figures",
            (_RESULTS, _PDF), tables="folder",
        ),
        Command(
            "report", "Write tables, figures and verdicts for the papers from a folder of results.",
            "kmdr.cli.commands:report", (_RESULTS, _PDF), "Needs no data.", tables="folder",
        ),
        Command(
            "data", "Show, download, locate or check datasets.", "kmdr.datasets.command:run",
            (
                _argument("action", nargs="?", type=partial(_word, "command of 'kmdr data'", DATA_ACTIONS),
                          default="status", help="status (default), get, where or check"),
                _argument("names", nargs="*", metavar="NAME", help="datasets, all by default; or files to check"),
                _argument("--repair", action="store_true", help="with check: download or prepare damaged data again"),
                _argument("--verify", metavar="WHEN",
                          help="with check: always (default); once, not again since the last boot; never"),
            ),
            "'kmdr data check FILE dataset.OPTION=VALUE …' reports how a file is read.",
            takes_settings=True,
        ),
        Command(
            "check", "Check that every file behind the rows of a results folder is as a run wrote it.",
            "kmdr.results.check:run",
            (_RESULTS, _argument("--repair", dest="repairs", action="store_true",
                                  help="remove damaged files that can be made again")),
            "Exit status 1 if a file is damaged.",
        ),
        Command(
            "shard", "Run one of N parts of a plan, to be merged later.", "kmdr.cli.commands:shard", None,
            "Without studies, papers or settings that say what to run, the plan is that of all studies.",
            "I/N [STUDY|PAPER …] [SETTING=VALUE …] out=PART",
        ),
        Command(
            "merge", "Unite folders of results, for example of several machines, and refuse contradicting rows.",
            "kmdr.results.merge:run",
            (
                _argument("folders", nargs="+", type=_folder, metavar="DIR", help="folders of results"),
                _argument("-o", "--out", type=_folder, required=True, metavar="DIR", help="folder of all rows"),
            ),
            "Exit status 1 if parts of a plan are missing; the other rows are merged.",
        ),
        Command(
            "export", "Export results as an RO-Crate, or describe a dataset in Croissant.", "kmdr.export.command:run",
            (
                _argument("path", type=_folder, metavar="PATH", help="DIR with --crate, OUT.json with --croissant"),
                _argument("--crate", type=_folder, metavar="OUT", help="folder or .zip file of the crate"),
                _argument("--license", metavar="URL", help="licence that the crate states"),
                _argument("--croissant", metavar="DATASET", help="dataset to describe"),
            ),
            usage="DIR --crate OUT [--license URL] | --croissant DATASET OUT.json",
        ),
        Command(
            "metrics", "Score the trials of a run with keep_labels=true by metrics that their rows lack.",
            "kmdr.harness.rescore:run", (_RESULTS,), "Exit status 1 if a trial cannot be scored.",
        ),
        Command(
            "score", "Score a partition that any other program made, by F, P, NMI, ARI and the metrics of plugins.",
            "kmdr.cli.screen:score",
            (
                _argument("labels", type=_folder, metavar="LABELS",
                          help="labels of the points, one line each: text or CSV, which may be compressed, npy or "
                               "Parquet; each column is one partition"),
                _argument("settings", nargs="*", metavar="dataset=NAME",
                          help="the dataset, with its options: dataset=file dataset.path=FILE"),
                _argument("--format", type=partial(_word, "format", (*FORMATS, "json")), default="text",
                          help=f"{', '.join(FORMATS)}, json; text by default"),
            ),
            "Labels are whole numbers or text. A negative label counts as a cluster, also where it means noise.",
            takes_settings=True,
        ),
        Command(
            "reproduce", "Run the studies of papers and write the report.", "kmdr.cli.commands:reproduce",
            (_PAPERS, _BUDGET, _out(RESULTS)),
        ),
        Command(
            "multiverse", "Run papers under every combination of the choices that they leave open.",
            "kmdr.cli.commands:multiverse", (_PAPERS, _BUDGET, _out(f"{RESULTS}/multiverse")),
        ),
        Command(
            "atlas", "Run every method, or one, on the datasets of the atlas, at r in multiples of k.",
            "kmdr.cli.commands:atlas",
            (
                _argument("datasets", nargs="*", metavar="DATASET", help="name of a dataset; all by default"),
                _argument("--budget", type=_budget, metavar="TIME", help="wall time, e.g. 10m, of a thinned atlas"),
                _argument("--method", metavar="NAME",
                          help="one method instead of all: a reducer, or the import path of a class"),
                _out(f"{RESULTS}/atlas"),
            ),
        ),
        Command(
            "recommend", "Recommend methods and r for a matrix, from their results on the datasets of the atlas.",
            "kmdr.cli.recommend:run",
            (
                _argument("words", nargs="*", metavar="FILE", help="the matrix; or dataset=NAME, and dataset.OPTION=…"),
                _argument("--k", type=partial(_whole_number, "--k", 1), metavar="K",
                          help="number of clusters; by default the number of classes"),
                _argument("--r", type=partial(_whole_number, "--r", 1), metavar="R",
                          help="number of dimensions; any by default"),
                _argument("--speedup", type=partial(_positive_number, "--speedup"), metavar="TIMES",
                          help="required speed-up over k-means on all features (2; with --r, none)"),
                _argument("--domain", default="", metavar="NAME",
                          help="kind of the data, e.g. image, text or gene expression"),
                _argument("--atlas", type=_folder, metavar="DIR",
                          help="folder of 'kmdr atlas'; by default the results that kmdr ships"),
            ),
            "It needs no labels, but k. 'kmdr recommend my.csv --k 10 --speedup 5' is an example.",
            "[FILE | dataset=NAME] [dataset.OPTION=VALUE …] [--k K] [--r R] [--speedup TIMES] [--domain NAME] "
            "[--atlas DIR]",
            takes_settings=True,
        ),
        Command(
            "quick", "Run the studies of papers on a thinned grid, in about three minutes on two cores.",
            "kmdr.cli.commands:quick", (_PAPERS, _out("results/quick")),
        ),
        Command(
            "reference", "Run the missing trials of studies and multiverses, and compress the rows for publication.",
            "kmdr.cli.commands:reference",
            (
                _PAPERS, _out("results/reference"),
                _argument("--seed", type=partial(_whole_number, "--seed", 0), default=0, metavar="N",
                          help="root seed of all draws (0)"),
            ),
        ),
        Command(
            "verify", "Rerun a random sample of rows and compare them digit by digit.", "kmdr.cli.commands:verify",
            (
                _argument("folder", nargs="?", type=_folder, default=Path("results/reference"), metavar="DIR",
                          help="folder of results (results/reference)"),
                *_SAMPLE,
                _TRUST,
                *_LIMITS,
            ),
            "Rows of classes that the folder names and --trust does not are skipped.",
            tables="folder",
        ),
        Command(
            "submit", "Check a folder of results and pack it as a submission that others can verify.",
            "kmdr.submissions.pack:run",
            (
                _RESULTS,
                _argument("--name", default="", metavar="NAME",
                          help="name of the submission; by default that of the folder"),
                _argument("--method", default="", metavar="TEXT", help="name of the method on the report's pages"),
                _argument("--author", default="", metavar="TEXT", help="who submits it"),
                _argument("--licence", "--license", default="", metavar="TEXT",
                          help="licence of the results, e.g. CC-BY-4.0"),
                _SUBMISSIONS,
                _argument("--no-labels", dest="labels", action="store_false",
                          help="omit the labels that keep_labels=true kept"),
            ),
            "Nothing is run or imported. Private paths are not packed.",
        ),
        Command(
            "accept", "Check a submission, rerun a sample of its rows, and write the outcome to its card.",
            "kmdr.submissions.accept:run",
            (
                _argument("name", metavar="NAME", help="name of a submission, or its folder"),
                _SUBMISSIONS,
                _argument("--reference", type=_folder, default=_folder("results/reference"), metavar="DIR",
                          help="folder of results that may not be contradicted (results/reference)"),
                *_SAMPLE,
                _TRUST,
                *_LIMITS,
                _argument("--again", action="store_true", help="check a submission again whose card has an outcome"),
            ),
            "The status is verified (digit by digit), consistent (within tolerance on another CPU) or as reported.",
        ),
        Command(
            "new", "Write a skeleton with its test for a reducer, dataset, metric, engine or paper of your own.",
            "kmdr.cli.new:run",
            (
                _argument("kind", type=partial(_word, "kind of skeleton", SKELETONS), metavar="KIND",
                          help=", ".join(SKELETONS)),
                _argument("name", metavar="NAME", help="name of the new reducer, dataset, metric, engine or paper"),
                _argument("folder", nargs="?", type=_folder, metavar="DIR",
                          help="plugin folder; by default the first of KMDR_PATH, or 'plugin'"),
            ),
        ),
        Command(
            "completion", "Print a script that completes commands, settings and their values in bash or zsh.",
            "kmdr.cli.completion:run",
            (_argument("shell", type=partial(_word, "shell", SHELLS), metavar="SHELL", help=", ".join(SHELLS)),),
            "Add 'source <(kmdr completion bash)' to ~/.bashrc, or the like to ~/.zshrc.",
        ),
        Command(
            "help", "List the commands, or show the help of one; 'kmdr --help' shows every setting of a run.",
            "kmdr.cli.help:run",
            (_argument("command", nargs="?", metavar="COMMAND", help="name of a command, e.g. table"),),
        ),
        Command("version", "Show the version.", "kmdr.cli.commands:show_version"),
    )
}  # fmt: skip
