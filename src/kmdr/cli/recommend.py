"""``kmdr recommend``: the methods and r that the atlas supports for a matrix, and how good such advice has been."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from kmdr import datasets
from kmdr.atlas.advice import (
    MOST_REGRET,
    SPEEDUP,
    Advice,
    Estimate,
    Goal,
    Validation,
    advise,
    evidence,
    percent,
    validate,
)
from kmdr.atlas.effects import SAME_SOURCE
from kmdr.atlas.evidence import protocol, read_folder, rules, settings_of, stored
from kmdr.atlas.traits import traits
from kmdr.base.errors import UserError, unknown
from kmdr.base.text import announce, counted, format_number, path_override, two_columns, wrapped
from kmdr.cli.screen import formatted
from kmdr.config.compose import compose_dataset
from kmdr.figures.tables import Table

_REPEATS = ("repeats=6", "timing_repeats=6")  # of the runs that check an advice
_WORDS = ("dataset", "dataset.…", "--k", "--r", "--speedup", "--domain", "--atlas")
_MOST_NAMES = 5
# Where n·d·k is below this, k-means on all features took at most 15 ms in the atlas, with all of its starts.
_LEAST_MULTIPLICATIONS = 1_000_000
_SMALL = (
    "On data of this size k-means on all features takes a few milliseconds, so no gain worth having is to be expected: "
    "use all features. The speed-ups below are those on the data of the atlas, most of which are far larger."
)


def run(
    words: Sequence[str],
    k: int | None = None,
    r: int | None = None,
    speedup: float | None = None,
    domain: str = "",
    atlas: Path | None = None,
) -> None:
    """Print the traits of a matrix, the advised methods, how good such advice is, and the command that checks it."""
    settings = _dataset_settings(words, k)
    known = stored() if atlas is None else evidence(*read_folder(atlas))
    domains = sorted(set(known.matrices["domain"]) - {""})
    if domain and domain not in domains:
        raise unknown("domain of the atlas", domain, domains)
    name, options = compose_dataset(*settings)
    data = datasets.load(name, options)
    n, d = data.A.shape
    k = data.k if k is None else k
    if r is not None and r >= d:
        raise UserError(f"r = {r} is not below the number of features ({d}); choose r < {d}")
    goal = Goal(speedup if speedup is not None else 0.0 if r else SPEEDUP, None if r is None else r / k)
    numbers = traits(data.A, k)
    domain = domain or datasets.registry.entry(name).domain
    source = SAME_SOURCE.get(name, name)
    others = known.without(source)
    validation = validate(known, goal, rules(known, goal), with_domain=domain in domains)
    advised, rests_on = advise(others, numbers, goal, validation.candidate, domain)
    announce(f"{data.name}: {counted(n, 'point')}, {counted(d, 'feature')}, k = {k}")
    announce("\n".join(two_columns(_described(numbers), "  ")))
    announce(f"\n{_paragraph(_introduction(goal, validation, rests_on))}\n")
    if n * d * k < _LEAST_MULTIPLICATIONS:
        announce(f"{_paragraph(_SMALL)}\n")
    table = _table(advised, r)
    announce(formatted(table, table.frame, "text"))
    if source in known.sources:
        announce(f"\n{_paragraph(f'The rows of {source} itself were held out; the report has them.')}")
    announce(f"\n{_paragraph(_quality(validation))}\n")
    to_run = commands([*settings, *protocol(n, d, k)], advised, r)
    announce(_paragraph(f"{'This command checks' if len(to_run) == 1 else 'These commands check'} it on your data:"))
    for command in to_run:
        announce(f"  {command}")


def _dataset_settings(words: Sequence[str], k: int | None) -> list[str]:
    """Return the settings of the dataset that the words name: a file, or ``dataset=NAME``, and its options."""
    files = [word for word in words if "=" not in word or Path(word).is_file()]
    settings = [word for word in words if word not in files]
    for word in settings:
        name = word.partition("=")[0]
        if name != "dataset" and not name.startswith("dataset."):
            raise unknown("setting of 'kmdr recommend'", name, _WORDS)
    named = any(word.startswith("dataset=") for word in settings)
    if len(files) + named != 1:
        raise UserError("'kmdr recommend' takes one matrix; name a FILE, or a dataset with dataset=NAME")
    if files:
        settings = ["dataset=file", f"dataset.path={path_override(files[0])}", *settings]
    of_file = "dataset=file" in settings and not any(word.startswith("dataset.k=") for word in settings)
    return settings if k is None else [*settings, f"dataset.k={k}" if of_file else f"k={k}"]


# -- words -----------------------------------------------------------------------------------------------------------


def _described(numbers: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the traits of a matrix in a few lines."""
    filled = f"{_share(numbers['density'])} of the entries are not 0"
    sign = "some are negative" if numbers["negative"] else "none is negative"
    return [
        ("shape", f"{_number(numbers['aspect'])} features per point; {filled}, {sign}"),
        (
            "spectrum",
            f"the {int(numbers['k'])} largest singular values hold {_share(numbers['top_share'])} of ‖A‖², the mean "
            f"point {_share(numbers['mean_share'])}; stable rank {_number(numbers['stable_rank'])}",
        ),
        (
            "features",
            f"the largest leverage score is {_number(numbers['coherence'])} times the mean; Gini coefficient of the "
            f"scores {_number(numbers['leverage_gini'])}, of the norms {_number(numbers['column_gini'])}",
        ),
    ]


def _paragraph(text: str) -> str:
    """Return a text in lines that do not begin with a percent sign."""
    return wrapped(text.replace(" %", "\N{NO-BREAK SPACE}%"))


def _number(value: float) -> str:
    return format_number(value, ".3g")


def _share(value: float) -> str:
    return f"{_number(100 * value)} %"


def _introduction(goal: Goal, validation: Validation, rests_on: Sequence[str]) -> str:
    at = f"At r = {_number(goal.multiple)} k" if goal.multiple is not None else "At any r"
    fast = f"at least {_number(goal.speedup)} times as fast as k-means on all features" if goal.speedup else "any speed"
    names = ", ".join(rests_on[:_MOST_NAMES]) + (" and others" if len(rests_on) > _MOST_NAMES else "")
    text = (
        f"{at}, {fast}, the atlas advises these methods. On {validation.candidate} of the atlas they come nearest, on "
        f"average, to the best choice for each dataset ({names})."
    )
    if goal.speedup:
        text += (
            f" Where a choice is less than {_number(goal.speedup)} times as fast it counts as {percent(MOST_REGRET)} "
            "of F lost, so a method may be slower on some data: the interval shows how slow."
        )
    return text


def _table(advised: Sequence[Advice], r: int | None) -> Table:
    lines = [
        {
            "method": advice.choice.method,
            "r": _size(advice, r),
            "more F than all features": _interval(advice.loss, percent),
            "P": "–" if np.isnan(advice.accuracy) else f"{advice.accuracy:+z.3f}".replace("-", "−"),
            "times as fast": _interval(advice.speedup, _number),
            "by": "kmdr",
        }
        for advice in advised
    ]
    note = (
        "More F: the objective over that of k-means on all features, minus 1. P: difference of the accuracy. All are "
        "medians over these data, and 90 % of the held-out data lie in the brackets."
    )
    return Table(pd.DataFrame(lines), {"r": "d"}, note)


def _size(advice: Advice, r: int | None) -> int:
    """Return the r that was asked for; otherwise, and for k-means on all features, that of the advice."""
    return advice.r if r is None or advice.choice.multiple == "d" else r


def _interval(estimate: Estimate, form: Callable[[float], str]) -> str:
    value, low, high = (form(number) for number in estimate)
    return f"{value} [{low}, {high}]"


def _quality(validation: Validation) -> str:
    others = "; ".join(
        f"for {comparison.rule} it is {percent(comparison.regret)}, and the difference {comparison.difference_text}"
        for comparison in validation.comparisons[1:]
    )
    return (
        f"{validation.sentence} Likewise, {others}. A choice that is too slow, fails or loses {percent(MOST_REGRET)} "
        f"more counts as {percent(MOST_REGRET)}; {_share(1 - validation.kept)} of the advised ones do."
    )


def commands(settings: Sequence[str], advised: Sequence[Advice], r: int | None = None) -> list[str]:
    """Return the commands that run the advised methods, and k-means on all features.

    Methods without settings of their options run in one command.
    """
    usual = [*settings, *_REPEATS]
    plain: dict[str, None] = {"none": None}
    sizes: dict[int, None] = {}
    further = []
    for advice in advised:
        options = settings_of(advice.choice.method)
        if advice.choice.method == "none":
            continue
        size = _size(advice, r)
        if len(options) == 1:
            plain[options[0].partition("=")[2]] = None
            sizes[size] = None
        else:
            further.append(["kmdr", *usual, *options, f"r_grid=[{size}]"])
    grid = [f"r_grid=[{','.join(map(str, sorted(sizes)))}]"] if sizes else []
    several = ["-m"] if len(plain) > 1 else []
    first = ["kmdr", *several, *usual, f"reducer={','.join(plain)}", *grid]
    return [shlex.join(command) for command in (first, *further)]
