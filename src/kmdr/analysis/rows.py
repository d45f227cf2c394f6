"""Quantities in rows: the time rule, means and medians with intervals, and settings that distinguish rows."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from scipy.stats import t as student

from kmdr.base.errors import UserError, unknown
from kmdr.config.task import SETTINGS, code_identity
from kmdr.metrics import metrics
from kmdr.results.outdated import CODE_COLUMNS, mixed_code
from kmdr.results.schema import COLUMNS as ROW_COLUMNS
from kmdr.results.typed_rows import to_text

TRIAL = ["dataset", "reducer", "params", "k", "r", "repeat", "seed", "config_hash"]
METHOD = ("dataset", "reducer", "params")
CELL = [*METHOD, "r"]

# Rows of one study, dataset, reducer and r are repetitions of each other if they agree in these; see `settings_of`.
SETTING_COLUMNS = ["k", *SETTINGS, "data_sha256"]
# A repetition: all methods start it from the same centres.
REPETITION = ["seed", "repeat"]

# Quantities that are sums of columns: the preparation, which does not depend on r, is charged to each r.
DERIVED = {"reduction_seconds": ("prepare_seconds", "reduce_seconds")}


# The steps of a trial; the preparation is that of its task.
SECONDS = ("prepare_seconds", "reduce_seconds", "cluster_seconds", "score_seconds")


class Interval(NamedTuple):
    """Mean or median of a sample and the ends of its 95 % interval (NaN if there is none)."""

    centre: float
    low: float
    high: float
    size: int


def numeric(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows of `kmdr.harness.task.run` as a table with all columns of ``rows.csv`` and ``objective_ratio``."""
    table = pd.DataFrame(list(rows), columns=list(ROW_COLUMNS))
    table["objective"] = table["objective"].astype(float)
    return table.assign(objective_ratio=ratio_to_best(table))


def ok_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the trials that did not fail."""
    return rows[rows["status"] == "ok"]


def rows_where(rows: pd.DataFrame, names: Sequence[str], holds: Callable[..., bool]) -> NDArray[np.bool_]:
    """Return a mask of the rows for which ``holds`` of some columns is True; called once per distinct combination."""
    combinations = rows[[*names]].drop_duplicates().itertuples(index=False, name=None)
    answers = np.array([holds(*values) for values in combinations], dtype=bool)
    return np.asarray(answers[rows.groupby([*names], sort=False).ngroup()])


def failed_counts(rows: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Count the failed trials of each (dataset, reducer)."""
    failed = rows[rows["status"] != "ok"]
    return {(str(d), str(m)): len(group) for (d, m), group in failed.groupby(["dataset", "reducer"], sort=True)}


def code_notes(rows: pd.DataFrame) -> list[str]:
    """Return one sentence for each method whose ok rows were made by several versions of its code."""
    kinds = ok_rows(rows).reindex(columns=[*CODE_COLUMNS]).drop_duplicates().astype(object).fillna("")
    return mixed_code(dict(zip(CODE_COLUMNS, kind, strict=True)) for kind in kinds.itertuples(index=False))


def codes_of(rows: pd.DataFrame) -> "pd.Series[str]":
    """Return `kmdr.config.task.code_identity` of each row."""
    columns = rows.reindex(columns=["code_hash", "guests"]).astype(object).fillna("").astype(str)
    pairs = pd.Series(list(zip(columns["code_hash"], columns["guests"], strict=True)), rows.index, dtype=object)
    return pairs.map({pair: code_identity(*pair) for pair in pairs.unique()})


def is_time(quantity: str) -> bool:
    """Return True if a quantity is a duration, to which the time rule applies."""
    return quantity.endswith("_seconds")


@cache  # for thousands of cells of the same few sizes
def _quantile(size: int) -> float:
    return float(student.ppf(0.975, size - 1))


def standard_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of at least two values.

    It equals `scipy.stats.sem` to the last bit and takes a fiftieth of its time, which matters for thousands of cells.
    """
    return float(values.std(ddof=1) / values.size**0.5)


def half_width(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95 % Student-t interval of the mean of at least two values."""
    return _quantile(values.size) * standard_error(values)


def mean_interval(values: ArrayLike) -> Interval:
    """Return the 95 % Student-t interval of a mean.

    It assumes independent draws from one distribution whose mean is close to normal; with the few repetitions of the
    papers this is a convention rather than a theorem. The interval is not clipped to the range of the quantity: that
    of an accuracy may reach beyond 1.

    Parameters
    ----------
    values : array_like
        At least one finite value.

    Returns
    -------
    Interval
        Without ends for one value; of width zero for equal values.
    """
    x = np.sort(np.asarray(values, dtype=float))  # so that the sums do not depend on the order of the rows
    if x.size == 0:
        raise ValueError("the mean of no values is not defined")
    if x.size == 1:
        return Interval(float(x[0]), np.nan, np.nan, 1)
    if x.min() == x.max():  # exactly: rounding in the mean would otherwise give a width of 1e-17
        return Interval(float(x[0]), float(x[0]), float(x[0]), x.size)
    mean = float(x.mean())
    half = half_width(x)
    return Interval(mean, mean - half, mean + half, x.size)


@cache
def _place(size: int) -> int:
    """Return the rank, from 1, of the order statistics that bound the median of so many values; 0 if none do."""
    return int(binom.ppf(0.025, size, 0.5))


def median_interval(values: ArrayLike) -> Interval:
    """Return a median and its exact 95 % interval, between two order statistics.

    The interval is that of the sign test (David & Nagaraja, Order Statistics, 2003, § 7.1): it holds the median of any
    distribution with probability at least 95 %, for independent repetitions. Fewer than six values have no interval.
    """
    x = np.sort(np.asarray(values, dtype=float))
    if x.size == 0:
        raise ValueError("the median of no values is not defined")
    place = _place(x.size)
    low, high = (float(x[place - 1]), float(x[-place])) if place else (np.nan, np.nan)
    return Interval(float(np.median(x)), low, high, x.size)


def statistic(quantity: str) -> Literal["mean", "median"]:
    """Return by which statistic repetitions are summarised: times by the median, because of interrupted trials."""
    return "median" if is_time(quantity) else "mean"


def summary(quantity: str, values: ArrayLike) -> Interval:
    """Return the mean of a quantity with Student's interval, or the median of a time with its exact interval."""
    return median_interval(values) if is_time(quantity) else mean_interval(values)


def centres(numbers: pd.DataFrame) -> "pd.Series[float]":
    """Return the mean, or for times the median, of each line of `summarise` or of a figure's numbers."""
    first, *others = (numbers[name] for name in ("mean", "median") if name in numbers)
    return first.fillna(others[0]) if others else first


def timed_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Apply the time rule to each dataset.

    Serially timed trials (``concurrency`` 1) are kept; a dataset without any keeps all of its rows, which `timing_note`
    states. Of these, only the rows of the machine with the most rows are kept, because times of several machines are
    not repetitions of each other.
    """
    timed = fairly_timed(rows)
    counts = count_by_machine(timed)
    if len(counts) == timed["dataset"].nunique():
        return timed
    most = set(counts.groupby("dataset").idxmax())
    return timed[
        [pair in most for pair in zip(timed["dataset"], timed["machine"].astype(object).fillna(""), strict=True)]
    ]


def fairly_timed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the serially timed rows of each dataset, or all of its rows if there are none; of any machine."""
    alone = rows["concurrency"] == 1
    return rows[alone | ~rows["dataset"].isin(rows.loc[alone, "dataset"])]


def computing_seconds(rows: pd.DataFrame) -> float:
    """Return the computing time of some rows; a preparation counts once per configuration and repetition."""
    prepare = rows.groupby(["config_hash", "repeat"])["prepare_seconds"].max().sum() if len(rows) else 0.0
    return float(np.nansum(rows[[*SECONDS[1:]]].to_numpy(dtype=float)) + prepare)


def computing_cost(rows: pd.DataFrame) -> dict[str, float]:
    """Return the number of some rows, their computing time in seconds, and the bytes of their largest data matrix."""
    n, d, stored = rows[["n", "d", "nnz"]].to_numpy(dtype=float).T
    matrix = np.where(stored < n * d, 12 * stored, 8 * n * d)  # 8 bytes a value, and 4 for its column if sparse
    return {"rows": len(rows), "seconds": computing_seconds(rows), "bytes": float(matrix.max(initial=0))}


def without_scores(rows: pd.DataFrame, studies: Collection[str]) -> pd.DataFrame:
    """Return rows without the scores of some studies, which were run for their times."""
    scored = ~rows["study"].isin(studies)
    return rows.assign(**{name: rows[name].where(scored) for name in ("objective", "accuracy", "nmi", "ari")})


def serial_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the serially timed rows: only their times may be compared."""
    return rows[rows["concurrency"] == 1]


def count_by_machine(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the number of rows by dataset and machine; older rows, which do not name it, count as one machine."""
    machines = (
        rows["machine"].astype(object).fillna("") if "machine" in rows else pd.Series("", rows.index, name="machine")
    )
    return rows.groupby([rows["dataset"], machines]).size()


def timing_note(rows: pd.DataFrame) -> str:
    """Return the number of other workers while a dataset's ok rows were timed, in words; empty if there were none."""
    others = ok_rows(rows)["concurrency"].dropna().astype(int) - 1
    if others.empty or (others == 0).any():
        return ""
    low, high = int(others.min()), int(others.max())
    number = str(high) if low == high else f"{low}–{high}"
    return f"timed in parallel with {number} other worker{'s' if high > 1 else ''}"


def quantity_columns(quantity: str) -> frozenset[str]:
    """Return the columns that `quantity_rows` reads."""
    return frozenset({*TRIAL, "status", "concurrency", "machine", "metrics", *DERIVED.get(quantity, (quantity,))})


def quantity_rows(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return the rows that count for a quantity, one per trial, with its values in the column ``value``.

    Failed trials and missing or infinite values are omitted. Times follow the time rule. A trial that was run twice (in
    parallel, and serially for its time) counts once, because its second row is the same evidence and would narrow the
    interval. A time that was measured twice is the mean of both.
    """
    rows = ok_rows(rows)
    if quantity not in rows.columns and quantity in metrics():
        rows = rows.assign(**{quantity: [json.loads(text or "{}").get(quantity) for text in rows["metrics"]]})
    parts = DERIVED.get(quantity, (quantity,))
    missing = [name for name in parts if name not in rows.columns]
    if missing:
        raise unknown("quantity", missing[0], [*rows.select_dtypes("number").columns, *DERIVED, *metrics()])
    rows = rows.assign(value=sum((rows[name].astype(float) for name in parts), start=pd.Series(0.0, rows.index)))
    rows = rows[np.isfinite(rows["value"])]
    if is_time(quantity):
        rows = timed_rows(rows)
        trial = [name for name in (*TRIAL, "n", "d") if name in rows]  # n and d, for data of several sizes
        if rows.duplicated(trial).any():
            rows = rows.assign(value=rows.groupby(trial, dropna=False)["value"].transform("mean"))
        return rows.drop_duplicates(trial)
    return distinct_trials(rows)


def distinct_trials(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row of each trial, the serially timed one if there are several, in the order of concurrency."""
    rows = rows.sort_values("concurrency", kind="stable")
    # Numbers, which are compared faster than text, tell the trials of one method apart.
    return rows.drop_duplicates(TRIAL) if rows.duplicated(["r", *REPETITION]).any() else rows


def summarise(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return mean and 95 % Student-t interval of a quantity for each dataset, reducer, setting and r.

    Times have the column ``median`` instead, with its distribution-free interval.

    Parameters
    ----------
    rows : DataFrame
        Rows of one study, with one k for each dataset.
    quantity : str
        A numeric column, or a name in ``DERIVED``.

    Returns
    -------
    DataFrame
        Columns ``dataset reducer params r``, ``mean`` or ``median``, ``low high count``, sorted by the first four,
        without combinations that have no values. See `mean_interval`, `median_interval` and `quantity_rows` for
        assumptions and omitted rows.

    Raises
    ------
    UserError
        If a dataset has rows for several k, or for several settings of a method, whose mean would be meaningless.
    """
    for dataset, group in rows.groupby("dataset"):
        if group["k"].nunique() > 1:
            ks = ", ".join(str(int(k)) for k in sorted(group["k"].dropna().unique()))
            raise UserError(
                f"dataset {dataset!r} has rows for k = {ks}; expected one k; select the rows of one of them"
            )
    for message in mixed_settings(rows).values():
        raise UserError(message)
    groups = quantity_rows(rows, quantity).groupby(CELL, sort=True)["value"]
    table = [(*key, *summary(quantity, values.to_numpy())) for key, values in groups]
    numbers = [statistic(quantity), "low", "high"]
    frame = pd.DataFrame(table, columns=[*CELL, *numbers, "count"])
    return frame.astype({"r": int, "count": int, **dict.fromkeys(numbers, float)})


def settings_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `SETTING_COLUMNS` of rows, with empty text for values that were not recorded.

    Rows that agree in them and in study, dataset, reducer, params and r are repetitions of each other, whatever their
    seed. Every table, figure and claim takes its means over such rows only.
    """
    table = rows.reindex(columns=SETTING_COLUMNS)
    return table.assign(
        **{name: table[name].astype(object).fillna("") for name in SETTING_COLUMNS if table[name].hasnans}
    )


def count_repetitions(rows: pd.DataFrame) -> int:
    """Return the number of repetitions in some rows, over all seeds."""
    return len(rows[REPETITION].drop_duplicates())


def mixed_settings(rows: pd.DataFrame, within: Sequence[str] = METHOD) -> dict[tuple[str, ...], str]:
    """Return the error message for each method with rows of several settings, whose mean is refused.

    ``within`` are the columns that identify a method, including dataset and reducer.
    """
    names = [name for name in (*within, "seed", "config_hash") if name in rows]
    rows = to_text(rows[[name for name in dict.fromkeys((*names, *SETTING_COLUMNS)) if name in rows]].drop_duplicates())
    kinds = pd.concat([rows[names], settings_of(rows).drop(columns=names, errors="ignore")], axis=1).drop_duplicates()
    # Rows whose settings were not recorded may still differ in the hash of their configuration.
    distinct = kinds.drop(columns=["seed", "config_hash"], errors="ignore").drop_duplicates()
    suspects = [distinct[distinct.duplicated([*within], keep=False)]]
    if "config_hash" in kinds:
        suspects.append(kinds[kinds.duplicated([*within, "seed"], keep=False)])
    messages = {}
    for key in dict.fromkeys(key for some in suspects for key in some[[*within]].itertuples(index=False, name=None)):
        group = kinds[pd.MultiIndex.from_frame(kinds[[*within]]).isin([key])]
        settings = differing_settings(group.drop_duplicates(SETTING_COLUMNS))
        texts = sorted(text for differing in settings if (text := settings_text(differing)))
        if not texts:
            per_seed = group.groupby("seed")["config_hash"].nunique()
            if (per_seed <= 1).all():
                continue
            texts = sorted(group["config_hash"].unique())
        method = dict(zip(within, key, strict=True))
        messages[tuple(map(str, key))] = (
            f"{method['reducer']} on dataset {method['dataset']!r} has rows of {len(texts)} settings "
            f"({'; '.join(texts)}); "
            "expected one; select the rows of one of them"
        )
    return messages


def differing_settings(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the settings of each row that are not the same in all of these rows.

    Parameters
    ----------
    rows : DataFrame
        With ``data_sha256`` and any others of the columns `SETTING_COLUMNS`.

    Returns
    -------
    list of dict
        One per row, all with the same keys: k, settings of k-means, ``matching``, options of the dataset; lists and
        objects as text. If these do not distinguish all rows, ``data`` has the first digits of the data's content hash.
        If that does not suffice either, ``settings`` has the first digits of a hash of all settings.
    """
    table = settings_of(rows)
    settings = [
        {name: _as_value(value) for name, value in named_settings(row).items()} for row in table.to_dict("records")
    ]
    keys = dict.fromkeys(key for of_row in settings for key in of_row)
    names = [key for key in keys if len({str(of_row.get(key, "–")) for of_row in settings}) > 1]
    differing = [{key: of_row.get(key, "–") for key in names} for of_row in settings]
    # Different settings with the same text get a hash: of their data, or else of all settings.
    kinds = list(table.itertuples(index=False, name=None))
    for name, marks in (("data", table["data_sha256"].astype(str).str[:8]), ("settings", map(_mark, kinds))):
        by_words: dict[str, set[Any]] = {}
        for words, kind in zip(differing, kinds, strict=True):
            by_words.setdefault(str({key: str(value) for key, value in words.items()}), set()).add(kind)
        if max(map(len, by_words.values()), default=1) == 1:
            break
        if name == "settings" or table["data_sha256"].nunique() > 1:
            differing = [{**words, name: mark} for words, mark in zip(differing, marks, strict=True)]
    return differing


def _as_value(value: Any) -> Any:
    """Return an option as a value that can be compared and grouped: a list or an object as text."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)


def _mark(settings: tuple[Any, ...]) -> str:
    return sha256(repr([str(value) for value in settings]).encode()).hexdigest()[:8]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as ``n_init = 5, path = own.csv``."""
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def named_settings(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return k and the recorded settings of a row by name; JSON objects are replaced by their entries."""
    known = {name: row[name] for name in ("k", *SETTINGS) if row.get(name, "") != "" and not pd.isna(row[name])}
    whole = {name: int(value) if isinstance(value, float) else value for name, value in known.items()}
    inner = [json.loads(str(whole.pop(name, "{}"))) for name in ("kmeans", "options")]
    return {**whole, **inner[0], **inner[1]}


def ratio_to_best(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return the objective of each ok row divided by the smallest objective of any ok row of the same data.

    The smallest F found replaces the unknown F_opt. It is at least F_opt, so the ratios are lower bounds of the
    approximation ratios. Same data means same dataset and k, and same content hash where rows have one.
    """
    rows = ok_rows(rows)
    keys: Sequence[str] = [name for name in ("dataset", "k", "data_sha256") if name in rows.columns]
    return rows["objective"] / rows.groupby(list(keys), dropna=False)["objective"].transform("min")
