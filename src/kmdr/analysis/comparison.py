"""Comparison of each method at each r with k-means on all features, or with the same method of another folder.

All methods start a repetition (seed and number) from the same centres, so they are compared by paired differences.
P-values are two-sided, from t tests, and Holm-adjusted over all tests of the table; the paired test allows for skewed
differences (`kmdr.analysis.statistics.above`).
"""

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from kmdr.analysis.rows import (
    REPETITION,
    SETTING_COLUMNS,
    TRIAL,
    code_notes,
    codes_of,
    differing_settings,
    mixed_settings,
    ok_rows,
    quantity_columns,
    quantity_rows,
    ratio_to_best,
    serial_rows,
    settings_of,
    summary,
)
from kmdr.analysis.significance import LEVEL, holm
from kmdr.analysis.statistics import Component, above, is_rounding, ratio_above, repetitions_to_show
from kmdr.base.errors import UserError
from kmdr.base.text import single_line
from kmdr.metrics import BUILT_IN
from kmdr.metrics.references import known_metric
from kmdr.results.outdated import CODE_COLUMNS


class Quantity(NamedTuple):
    """A quantity of the table.

    Attributes
    ----------
    title, form : str
        Its heading and number format.
    less : bool or None
        Whether smaller values are better; None if unknown.
    ratio : bool
        Whether it is compared by ratios.
    time : bool
        Whether it is a duration; only those measured serially on one machine are compared.
    """

    title: str
    form: str
    less: bool | None = False
    ratio: bool = False
    time: bool = False

    @property
    def change(self) -> str:
        """Heading of its change."""
        return f"{'×' if self.ratio else 'Δ'} {self.title}"


QUANTITIES: Mapping[str, Quantity] = {
    "ratio": Quantity("F/F_best", ".4f", less=True),
    "accuracy": Quantity("P", ".3f"),
    "nmi": Quantity("NMI", ".3f"),
    "total_seconds": Quantity("seconds", ".3g", less=True, ratio=True, time=True),
}
# Prefixes of the number of pairs that were compared, and of the number that would show a difference.
_PAIRS, TO_SHOW = "pairs ", "n to show "
# Prefix of a metric without its own column in ``rows.csv``.
_CUSTOM = "metrics."
# Names of other columns, and their first words, which the title of a custom metric must not repeat.
_TAKEN = frozenset({"study", "dataset", "reducer", "params", "method", "r", "n", "failed", "paired", "against"})
_WORDS = _TAKEN | {"±", "Δ", "×", "p", "pairs", "low", "high", "best"}
# The setting columns in which two lines of the same data agree.
_DATA = ["k", "data_sha256"]


class Line(NamedTuple):
    """The key of a line of the table, common to its trials."""

    study: str
    dataset: str
    setting: tuple[Any, ...]  # values of `SETTING_COLUMNS`
    reducer: str
    params: str
    r: int

    @property
    def data(self) -> tuple[Any, ...]:
        """The key of F_best."""
        return self.study, self.dataset, *(self.setting[SETTING_COLUMNS.index(name)] for name in _DATA)


class Sample(NamedTuple):
    """The values of a quantity, one per repetition.

    Attributes
    ----------
    repetitions : (n, 2) array
        Seed and number of each repetition.
    values : (n,) array
    """

    repetitions: NDArray[Any]
    values: NDArray[np.float64]


class Trials(NamedTuple):
    """The trials of a line.

    Attributes
    ----------
    samples : dict
        The sample of each quantity; times only if measured serially on one machine.
    n, failed : int
        Number of repetitions, and of failed trials.
    machine : str
        Where they were timed.
    codes : frozenset of str
        `kmdr.config.task.code_identity` of the trials that did not fail. Several give the mean of a mixture, which is
        not tested.
    """

    samples: dict[str, Sample]
    n: int
    failed: int
    machine: str = ""
    codes: frozenset[str] = frozenset()


def with_metrics(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Quantity]]:
    """Return rows with a column for each custom metric, and all quantities of these rows.

    A metric whose plugin is not installed appears under its name; whether smaller values are better is unknown.
    """
    texts = rows["metrics"].astype(object).fillna("")
    parsed = {text: _numbers_in(str(text)) for text in texts.unique()}
    names = sorted({name for values in parsed.values() for name in values})
    quantities = dict(QUANTITIES)
    seconds = quantities.pop("total_seconds")
    for name in names:
        quantities[f"{_CUSTOM}{name}"] = _custom(name, {q.title for q in (*quantities.values(), seconds)})
    columns = {f"{_CUSTOM}{name}": [parsed[text].get(name, np.nan) for text in texts] for name in names}
    return rows.assign(**columns), {**quantities, "total_seconds": seconds}


def _numbers_in(text: str) -> dict[str, float]:
    """Return the numbers of a JSON object by name, except metrics that have a column."""
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float) and name not in BUILT_IN}
    return {name: float(value) for name, value in numbers.items() if abs(value) <= sys.float_info.max}


def _custom(name: str, taken: Collection[str]) -> Quantity:
    """Return a custom metric as a quantity with a unique title."""
    known = known_metric(name)
    title = single_line(known.label if known else name)
    if title in {"", *_TAKEN, *taken} or title.split(" ")[0] in _WORDS or title.endswith((" A", " B")):
        title = f"{_CUSTOM}{single_line(name)}"
    bounded = known is not None and max(abs(known.low), abs(known.high)) <= 1
    return Quantity(title, ".3f" if bounded else ".4g", known.better == "lower" if known else None)


def trials_of(rows: pd.DataFrame, quantities: Mapping[str, Quantity] = QUANTITIES) -> dict[Line, Trials]:
    """Return the trials of each line of a table, ordered by study, dataset, setting, method and r.

    The rows have a column for each quantity, F/F_best among them as ``ratio``.
    """
    block = ["study", "dataset", *SETTING_COLUMNS]
    rows = rows.assign(code=codes_of(rows), **settings_of(rows))
    for message in mixed_settings(rows, (*block, "reducer", "params")).values():
        raise UserError(message)
    of_lines = rows.groupby([*block, "reducer", "params", "r"], sort=True)
    # Repeated trials and machines are counted within one study, dataset and setting, which get a number as a dataset.
    rows = rows.assign(line=of_lines.ngroup(), dataset=rows.groupby(block, sort=False).ngroup())
    lines = [
        Line(str(study), str(dataset), tuple(setting), str(reducer), str(params), int(float(r)))
        for study, dataset, *setting, reducer, params, r in of_lines.size().index
    ]
    samples = {name: _samples(rows, name, quantity.time, len(lines)) for name, quantity in quantities.items()}
    timed = quantity_rows(serial_rows(rows), "total_seconds").drop_duplicates("dataset")
    machines = dict(zip(timed["dataset"], timed["machine"].astype(object).fillna(""), strict=True))
    ok = ok_rows(rows)
    counts = ok.drop_duplicates(["line", *REPETITION])["line"].value_counts()
    failed = rows.loc[rows["status"] != "ok", "line"].value_counts()
    codes: dict[int, set[str]] = {}
    for number, code in ok[["line", "code"]].drop_duplicates().itertuples(index=False):
        codes.setdefault(number, set()).add(code)
    datasets = rows.drop_duplicates("line").set_index("line")["dataset"]
    return {
        line: Trials(
            {name: of_quantity[number] for name, of_quantity in samples.items()},
            int(counts.get(number, 0)),
            int(failed.get(number, 0)),
            str(machines.get(datasets[number], "")),
            frozenset(codes.get(number, ())),
        )
        for number, line in enumerate(lines)
    }


def _samples(rows: pd.DataFrame, quantity: str, is_time: bool, count: int) -> list[Sample]:
    """Return the sample of a quantity for each of so many lines, which the column ``line`` numbers."""
    rows = rows[[name for name in rows.columns if name in {*quantity_columns(quantity), "n", "d", "line"}]]
    rows = quantity_rows(serial_rows(rows) if is_time else rows, quantity).sort_values("line", kind="stable")
    ends = np.searchsorted(rows["line"], np.arange(1, count))
    columns = rows[REPETITION].to_numpy(), rows["value"].to_numpy(dtype=float)
    return list(map(Sample, *(np.split(column, ends) for column in columns)))


def with_ratio(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with F/F_best as ``ratio``; F_best is the smallest F of these rows on the same data."""
    return rows.assign(ratio=ratio_to_best(rows))


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table of each dataset, setting, method and r, compared with k-means on all features.

    Parameters
    ----------
    rows : DataFrame
        From `kmdr.results.table.rows_of`, including failed ones; with ``ratio``, see `with_ratio`.

    Returns
    -------
    DataFrame
        Columns study, dataset, reducer, params, r, settings that differ, ``n`` repetitions, ``failed`` trials, and
        ``versions`` of the code. Then, for each of `QUANTITIES` and each custom metric, under its title:

        * the mean, and ``±`` half of its 95 % interval (NaN for fewer than two repetitions); of seconds the median, and
          ``low`` and ``high``, the ends of its distribution-free interval (NaN for fewer than six timings);
        * ``Δ``, the mean paired difference from all features (``×``: the geometric mean of ratios), and ``low Δ`` and
          ``high Δ``, the ends of its 95 % interval;
        * ``p``, the p-value (NaN without a comparison);
        * ``n to show``, about how many repetitions would show a difference as large, if none is shown: at the strictest
          level of the adjustment, with a power of 90 %;
        * ``best``: whether no line of the data has a better mean at the digits shown.

        A line with several code versions is neither compared nor the best. Seconds are of repetitions that were
        timed serially on one machine; ``n seconds`` is their number. `quantities_in` returns the quantities.
    """
    rows, quantities = with_metrics(rows)
    lines = trials_of(rows, quantities)
    whole = {(line.study, line.dataset, line.setting): t for line, t in lines.items() if line.reducer == "none"}
    table = []
    for line, trials in lines.items():
        reference = whole.get((line.study, line.dataset, line.setting)) if line.reducer != "none" else None
        changes = _changes(reference, trials, quantities, paired=True) if reference else {}
        table.append({**_means(trials, quantities), **changes})
    return _table(lines, table, quantities, [trials.machine for trials in lines.values()])


def _means(trials: Trials, quantities: Mapping[str, Quantity], suffix: str = "") -> dict[str, Any]:
    cells: dict[str, Any] = {f"n{suffix}": trials.n, f"failed{suffix}": trials.failed}
    cells[f"versions{suffix}"] = len(trials.codes)
    for column, quantity in quantities.items():
        values = trials.samples[column].values
        if quantity.time:
            cells[f"n {quantity.title}{suffix}"] = len(values)
        centre, low, high, _ = summary(column, values) if len(values) else (np.nan,) * 4
        cells[f"{quantity.title}{suffix}"] = centre
        ends = {"low": low, "high": high} if quantity.time else {"±": high - centre}
        cells |= {f"{end} {quantity.title}{suffix}": value for end, value in ends.items()}
    return cells


def _changes(before: Trials, after: Trials, quantities: Mapping[str, Quantity], *, paired: bool) -> dict[str, Any]:
    """Return the change of each quantity with its 95 % interval and unadjusted p-value."""
    cells: dict[str, Any] = {}
    if max(len(before.codes), len(after.codes)) > 1:
        return cells
    for column, quantity in quantities.items():
        if quantity.time and before.machine != after.machine:
            continue
        samples = before.samples[column], after.samples[column]
        old, new = (sample.values for sample in (matched(*samples) if paired else samples))
        if min(len(old), len(new)) < 2:
            continue
        component = _paired(old, new, quantity) if paired else _unpaired(old, new, quantity)
        if component is None:
            continue
        cells[quantity.change] = component.effect
        cells[f"low {quantity.change}"], cells[f"high {quantity.change}"] = component.low, component.high
        cells[f"p {quantity.title}"] = min(1.0, 2 * min(component.p_for, component.p_against))
        cells[f"{_PAIRS}{quantity.title}"] = component.n
    return cells


def matched(old: Sample, new: Sample) -> tuple[Sample, Sample]:
    """Return the parts of two samples that are of the repetitions in both, in the order of the first."""
    if np.array_equal(old.repetitions, new.repetitions):  # as usual: thousands of samples are compared
        return old, new
    numbers = _distinct(np.concatenate([old.repetitions, new.repetitions]))
    positions = np.full(len(numbers), -1)  # of each repetition in the second sample
    positions[numbers[len(old.values) :]] = np.arange(len(new.values))
    matches = positions[numbers[: len(old.values)]]
    first, second = matches >= 0, matches[matches >= 0]
    return Sample(old.repetitions[first], old.values[first]), Sample(new.repetitions[second], new.values[second])


def _distinct(repetitions: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each repetition, the same for equal ones and less than their count."""
    seeds, repeats = (pd.factorize(column)[0].astype(np.int64) for column in repetitions.T)
    return np.asarray(pd.factorize(seeds * len(repetitions) + repeats)[0])


def _paired(old: NDArray[np.float64], new: NDArray[np.float64], quantity: Quantity) -> Component | None:
    if not quantity.ratio:
        return above("", new - old, scale=float(max(abs(old).max(), abs(new).max())))
    positive = (old > 0) & (new > 0)
    ratios = new[positive] / old[positive]
    return ratio_above("", ratios) if len(ratios) > 1 else None


def _unpaired(old: NDArray[np.float64], new: NDArray[np.float64], quantity: Quantity) -> Component | None:
    """Compare two unpaired samples by Welch's t test."""
    if quantity.ratio:
        old, new = old[old > 0], new[new > 0]
        if min(len(old), len(new)) < 2:
            return None
    x, y = (np.log(new), np.log(old)) if quantity.ratio else (new, old)
    back = np.exp if quantity.ratio else float
    scale = 1.0 if quantity.ratio else float(max(abs(x).max(), abs(y).max()))
    effect = float(x.mean() - y.mean())
    if is_rounding(max(np.ptp(x), np.ptp(y)), scale):  # both are deterministic
        effect = 0.0 if is_rounding(effect, scale) else effect
        p = float(effect == 0)
        return Component("", float(back(effect)), float(back(effect)), float(back(effect)), p / 2, p / 2, len(x), "")
    with catch_warnings():  # one of them may be constant; the test allows a variance of 0
        simplefilter("ignore", RuntimeWarning)
        test = ttest_ind(x, y, equal_var=False)
    low, high = (float(back(value)) for value in test.confidence_interval(0.95))
    half = float(test.pvalue) / 2
    return Component("", float(back(effect)), low, high, half, half, min(len(x), len(y)), "")


def _table(
    lines: Iterable[Line],
    cells: list[dict[str, Any]],
    quantities: Mapping[str, Quantity],
    machines: Sequence[str] = (),
) -> pd.DataFrame:
    """Return lines and their cells as a table with Holm-adjusted p-values; its quantities are in ``attrs``."""
    lines = list(lines)
    names = [name for name in Line._fields if name != "setting"]
    table = pd.DataFrame([[getattr(line, name) for name in names] for line in lines], columns=names)
    of_lines = pd.DataFrame(
        [dict(zip(SETTING_COLUMNS, line.setting, strict=True)) for line in lines], columns=SETTING_COLUMNS
    )
    settings: list[dict[str, Any]] = [{}] * len(lines)
    of_study = [table["study"], table["dataset"]]
    several = of_lines.groupby(SETTING_COLUMNS).ngroup().groupby(of_study).transform("nunique") > 1
    for _, group in of_lines[several].groupby([column[several] for column in of_study], sort=False):
        for place, differing in zip(group.index, differing_settings(group), strict=True):
            settings[place] = differing
    shown = pd.DataFrame(settings, index=table.index, dtype=object).fillna("–") if lines else table.iloc[:, :0]
    counted = pd.DataFrame(cells)
    titles = [quantity.title for quantity in quantities.values()]
    taken = {*table, *counted, "n", "failed", *titles, *(f"best {title}" for title in titles)}
    shown.columns = shown.columns.map(lambda name: f"dataset.{name}" if name in taken else name)  # as Synth's n and d
    table = pd.concat([table, shown, counted], axis=1)
    tested = [name for name in (f"p {q.title}" for q in quantities.values()) if name in table]
    values = table[tested].to_numpy(dtype=float)
    finite = np.isfinite(values)
    adjusted = values.copy()
    adjusted[finite] = holm(list(values[finite]))
    pairs = [name.replace("p ", _PAIRS, 1) for name in tested]
    needed = repetitions_to_show(values / 2, table[pairs].to_numpy(dtype=float), LEVEL / 2 / max(1, finite.sum()))
    table[tested] = adjusted
    table[pairs] = np.where(adjusted > LEVEL, needed, np.nan)
    table = table.rename(columns={name: name.replace(_PAIRS, TO_SHOW, 1) for name in pairs})
    data = pd.Series([str(line.data) for line in lines], dtype=str)
    for quantity in quantities.values():
        best = pd.Series(_is_best(table, data, quantity), index=table.index, dtype=bool)
        if quantity.time and len(machines):  # times of several machines are not ranked
            timed = pd.Series(machines, dtype=str).where(table[quantity.title].notna())
            several = timed.groupby(data).transform("nunique") > 1
            best &= ~several
            table.attrs["several_machines"] = bool(several.any())
        table[f"best {quantity.title}"] = best
    table.attrs["quantities"] = tuple(quantities.values())
    return table


def quantities_in(frame: pd.DataFrame) -> Sequence[Quantity]:
    """Return the quantities of a table from `compared` or `compare_folders`."""
    return frame.attrs["quantities"]  # type: ignore[no-any-return]


def _is_best(table: pd.DataFrame, data: "pd.Series[str]", quantity: Quantity) -> list[bool]:
    if quantity.title not in table or quantity.less is None:
        return [False] * len(table)
    means = table[quantity.title].where(table["versions"] <= 1)
    extremes = means.groupby(data).transform("min" if quantity.less else "max")
    return [
        bool(np.isfinite(value)) and format(value, quantity.form) == format(extreme, quantity.form)
        for value, extreme in zip(means, extremes, strict=True)
    ]


def differences(settings: Sequence[str]) -> list[str]:
    """Return, for each of several JSON parameter strings, the parameters that differ, in words."""
    if len(settings) < 2:
        return [""] * len(settings)
    try:
        parsed = [json.loads(text) if text else {} for text in settings]
        keys = sorted({key for params in parsed for key in params.keys()})  # noqa: SIM118 - a list or a text has none
    except (ValueError, TypeError, AttributeError, RecursionError):  # not written by kmdr: show the strings unchanged
        return [f" ({text})" for text in settings]
    absent = object()
    differing = [key for key in keys if any(params.get(key, absent) != parsed[0].get(key, absent) for params in parsed)]
    texts = [", ".join(f"{key} = {params.get(key, 'default')}" for key in differing) for params in parsed]
    return [f" ({text})" for text in texts]


# -- two folders -----------------------------------------------------------------------------------------------------


class FolderComparison(NamedTuple):
    """The rows of two folders, A and B, side by side.

    Attributes
    ----------
    table : DataFrame
        As from `compared`, with the suffixes `` A`` and `` B``, and changes from A to B; ``paired`` is True for lines
        whose repetitions started from the same centres on the same data.
    changed : list of str
        Differences between the settings that were compared, e.g. ``"n_init: 1 in A, 20 in B"``.
    other_data : list of str
        Datasets with the same name but different data, which are not compared.
    only : tuple of int, int
        Number of lines that only A has, and only B.
    other_code : list of str
        Reducers whose rows in A and B were computed by different code.
    mixed : list of str
        Sentences on rows of several code versions within A, and within B.
    other_machine : bool
        Whether some lines were timed on different machines, so that their times are not compared.
    """

    table: pd.DataFrame
    changed: list[str]
    other_data: list[str]
    only: tuple[int, int]
    other_code: list[str]
    mixed: list[str]
    other_machine: bool = False


# The columns that determine F/F_best.
_OF_RATIO = ["dataset", "k", "data_sha256", "objective", "status"]
# Settings that determine where a repetition starts, together with data, k, seed and its number.
_START = ("start", "n_init")


def compared_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that `compare_folders` reads, so that two large tables fit into memory."""
    read = {
        "study", *TRIAL, *SETTING_COLUMNS, *REPETITION, *CODE_COLUMNS, *QUANTITIES, "objective", "status",
        "concurrency", "machine", "metrics", "n", "d",
    }  # fmt: skip
    return rows[[name for name in rows.columns if name in read]].copy()


def compare_folders(a: pd.DataFrame, b: pd.DataFrame) -> FolderComparison:
    """Compare the rows of two folders.

    Lines of the same study, data, method and r are compared. Their settings may differ if each folder has only one.
    F_best is the smallest F of both folders.
    """
    # Of two large tables, only the few columns that are needed are concatenated.
    few = pd.concat([x.reindex(columns=["metrics", *_OF_RATIO]) for x in (a, b)], ignore_index=True)
    ratio = ratio_to_best(few).reindex(few.index)
    _, quantities = with_metrics(few)
    sides = []
    for rows, of_rows in ((a, ratio.iloc[: len(a)]), (b, ratio.iloc[len(a) :])):
        full, present = with_metrics(rows.assign(ratio=of_rows.to_numpy()))
        absent = dict.fromkeys(quantities.keys() - present.keys(), np.nan)
        sides.append(trials_of(full.assign(**absent), quantities))
    matches = list(_matches(*map(list, sides)))
    table, other_machine = [], False
    for line, other in matches:
        paired = _same_starts(line, other)
        before, after = sides[0][line], sides[1][other]
        means = {**_means(before, quantities, " A"), **_means(after, quantities, " B")}
        paired = paired and _share_repetitions(before, after)
        table.append({**means, **_changes(before, after, quantities, paired=paired), "paired": paired})
        timed = all(len(trials.samples["total_seconds"].values) for trials in (before, after))
        other_machine |= timed and before.machine != after.machine
    matched = ({line for line, _ in matches}, {other for _, other in matches})
    only = [[line for line in side if line not in of_side] for side, of_side in zip(sides, matched, strict=True)]
    hashes = [{name: set(group) for name, group in ok_rows(x).groupby("dataset")["data_sha256"]} for x in (a, b)]
    other_data = sorted(str(name) for name in hashes[0].keys() & hashes[1].keys() if hashes[0][name] != hashes[1][name])
    changed = sorted({text for line, other in matches for text in _changed(line, other)})
    other_code = {line.reducer for line, other in matches if sides[0][line].codes != sides[1][other].codes}
    mixed = [f"In {name}: {note}" for name, rows in (("A", a), ("B", b)) for note in code_notes(rows)]
    frame = _table([line for line, _ in matches], table, quantities)
    counts = len(only[0]), len(only[1])
    return FolderComparison(frame, changed, other_data, counts, sorted(other_code), mixed, other_machine)


def _changed(line: Line, other: Line) -> list[str]:
    a, b = differing_settings(pd.DataFrame([line.setting, other.setting], columns=SETTING_COLUMNS))
    return [f"{name}: {a[name]} in A, {b[name]} in B" for name in a]


def _matches(a: Iterable[Line], b: Iterable[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield the pairs of lines of two folders to compare."""

    def group_by_method(lines: Iterable[Line]) -> dict[tuple[Any, ...], list[Line]]:
        groups: dict[tuple[Any, ...], list[Line]] = {}
        for line in lines:
            groups.setdefault((line.data, line.reducer, line.params, line.r), []).append(line)
        return groups

    others = group_by_method(b)
    for key, lines in group_by_method(a).items():
        left = others.get(key, [])
        same = {str(line.setting): line for line in left}
        for line in lines:
            if str(line.setting) in same:
                yield line, same[str(line.setting)]
            elif len(lines) == len(left) == 1:
                yield line, left[0]


def _same_starts(line: Line, other: Line) -> bool:
    positions = [SETTING_COLUMNS.index(name) for name in _START]
    return all(str(line.setting[i]) == str(other.setting[i]) for i in positions)


def _share_repetitions(before: Trials, after: Trials) -> bool:
    return len(matched(before.samples["ratio"], after.samples["ratio"])[0].values) > 1
