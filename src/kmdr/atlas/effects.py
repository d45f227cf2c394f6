"""Effects of the atlas: each method at each r against k-means on all features, per dataset and form of the data.

All methods start a repetition from the same centres, so effects are means of paired values: F/F_none − 1, the *loss*,
and the differences of P, ARI and NMI. Times are medians of the serially timed rows of one machine.
"""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from kmdr.analysis.comparison import differences
from kmdr.analysis.rows import REPETITION, ok_rows, serial_rows
from kmdr.analysis.significance import LEVEL
from kmdr.atlas.design import ALL_FEATURES, design, form_names, method_names, run_key
from kmdr.base.text import canonical, counted, single_line
from kmdr.config.task import data_of
from kmdr.datasets import registry
from kmdr.results.commands import engine_arguments

REFERENCE = ALL_FEATURES
QUANTITIES = ("loss", "accuracy", "ari", "nmi")
# The columns that identify a line, and those that identify the data of several lines.
KEY = ["dataset", "form", "method", "r"]
DATA = ["dataset", "form"]
COLUMNS = [
    "dataset", "domain", "form", "method", "k", "n", "d", "r", "multiple", "runs",
    *(f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high")),
    "seconds", "seconds_none", "speedup", "failed",
]  # fmt: skip
# Datasets that were made from the same recordings or texts, with a common name; any other dataset is its own source.
SAME_SOURCE: Mapping[str, str] = {
    "orl_64x64": "orl", "orlraws10p": "orl", "coil20_128x128": "coil20", "light": "pie", "warppie10p": "pie",
    "allaml": "leukemia", "basehock": "20 newsgroups", "pcmac": "20 newsgroups", "relathe": "20 newsgroups",
}  # fmt: skip
_BLOCK = ["dataset", "form", "k"]
_LINE = [*_BLOCK, "method", "r"]
_VALUES = ("objective", "accuracy", "ari", "nmi")
# Smaller denominators count as zero, so that ratios of the values in rows, and the squares of these, are finite.
LEAST = 1e-100
# Columns that rows must share with the atlas to be compared with it, and settings of kmdr's own k-means.
_TASK = ["dataset", "options", "data_sha256", "n", "d", "k", "seed", "matching", "threads"]
_KMEANS = ["start", "n_init", "max_iter", "kmeans"]


def source_names(datasets: "pd.Series[str]") -> "pd.Series[str]":
    """Return the name of the source of each dataset."""
    known = {name: SAME_SOURCE.get(name, name) for name in datasets.unique()}
    return datasets.map(known).astype(datasets.dtype)


def names_of(rows: pd.DataFrame, methods: Mapping[tuple[str, str], str] | None = None) -> dict[tuple[str, str], str]:
    """Return the name of each (reducer, params) of some rows, as `with_engines` returns them.

    A pair that the atlas does not have, as of a third party, is named by its reducer and, if the atlas or the rows have
    other pairs of it, by the parameters in which these differ. The reducer is the last part of an import path, and the
    whole path if another method has that name, e.g. a class ``none`` or ``svd``. ``methods`` are by default
    `kmdr.atlas.design.method_names`.
    """
    known = method_names() if methods is None else methods
    pairs = set(zip(rows["reducer"].astype(str), rows["params"].astype(str), strict=True))
    names = {pair: known[pair] for pair in pairs if pair in known}
    short: dict[tuple[str, str], str] = {}
    full: dict[tuple[str, str], str] = {}
    for name, of_reducer in groupby(sorted(pairs | known.keys()), key=itemgetter(0)):
        several = list(of_reducer)
        last = ", ".join(part.rpartition(".")[2].strip() or part for part in name.split(", "))
        for pair, label in zip(several, differences([params for _, params in several]), strict=True):
            if pair in pairs and pair not in known:
                short[pair], full[pair] = f"{last}{label}", f"{name}{label}"
    for new in (short, full):
        taken = Counter([*known.values(), *new.values()])
        names |= {pair: text for pair, text in new.items() if pair not in names and taken[text] == 1}
    return names | {pair: f"another {text}" for pair, text in full.items() if pair not in names}


def with_engines(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose ``reducer`` and ``params`` also name the engine of k-means, as `run_key` does."""
    names = ("reducer", "params", "engine", "kmeans")
    runs = list(zip(*(rows[name].astype(object).fillna("").astype(str) for name in names), strict=True))
    arguments = {text: engine_arguments(json.loads(text or "{}")) for text in {kmeans for *_, kmeans in runs}}
    keys = {run: run_key(run[0], run[1], run[2], arguments[run[3]]) for run in {*runs}}
    return rows.assign(reducer=[keys[run][0] for run in runs], params=[keys[run][1] for run in runs])


def form_of(options: str) -> str:
    """Return the form of the data that the options of a row state: a name, or the options if they have none.

    Examples
    --------
    >>> form_of(""), form_of('{"rows":"unit"}')
    ('raw', 'unit rows')
    """
    stated = canonical({name: value for name, value in json.loads(options or "{}").items() if name != "name"})
    return form_names().get(stated, stated)


@cache
def domain_of(dataset: str) -> str:
    """Return the domain of a dataset of the registry, by its name or title; empty for others."""
    known = registry.entries()
    entry = known.get(dataset) or next((e for e in known.values() if dataset in (e.title, e.label)), None)
    return entry.domain if entry else ""


def nearest_multiple(r: ArrayLike, k: ArrayLike) -> NDArray[np.float64]:
    """Return the multiple of k on the grid of the atlas that is nearest to r, by ratio.

    Examples
    --------
    >>> nearest_multiple([5, 8, 190], 10).tolist()
    [0.5, 1.0, 20.0]
    """
    ratios = np.log(np.asarray(r, dtype=float) / np.asarray(k, dtype=float))
    grid = np.array(design().multiples, dtype=float)
    return np.asarray(grid[abs(ratios[..., None] - np.log(grid)).argmin(axis=-1)])


def effects(rows: pd.DataFrame, methods: Mapping[tuple[str, str], str] | None = None) -> pd.DataFrame:
    """Return the effect of each method at each r on each form of each dataset.

    Parameters
    ----------
    rows : DataFrame
        Rows of the atlas with the columns of ``rows.csv``, failed ones among them.
    methods : mapping of (str, str) to str, optional
        As of `names_of`.

    Returns
    -------
    DataFrame
        One line per (dataset, form, method, r), sorted by these. Columns:

        * ``multiple``: the multiple of k that is nearest to r; NaN for a method that has one r where others have more;
        * ``runs``: repetitions in which both this method and k-means on all features succeeded;
        * ``loss``: mean of F/F_none − 1; ``accuracy``, ``ari``, ``nmi``: mean difference from k-means on all features,
          NaN without labels; ``_low``, ``_high``: ends of the 95 % t interval, NaN for one repetition;
        * ``seconds``, ``seconds_none``: medians of the total time, NaN if there are no serial rows; ``speedup``: the
          ratio of these;
        * ``failed``: why trials failed, with their number if others succeeded; empty if none did.
    """
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    table = _prepared(rows, methods)
    lines = table.groupby(_LINE, sort=True)[["n", "d", "domain"]].first()
    lines = lines.join([_paired(table), _seconds(table), _failures(table)]).reset_index()
    lines["runs"] = lines["runs"].fillna(0).astype(int)
    lines["failed"] = lines["failed"].fillna("")
    none = lines[lines["method"] == REFERENCE].drop_duplicates(_BLOCK).set_index(_BLOCK)["seconds"]
    lines = lines.join(none.rename("seconds_none"), on=_BLOCK)
    lines["speedup"] = lines["seconds_none"] / lines["seconds"].where(lines["seconds"] > LEAST)
    lines["multiple"] = nearest_multiple(lines["r"], lines["k"])
    lines.loc[_has_one_r(lines), "multiple"] = np.nan
    return lines[COLUMNS].sort_values(KEY, kind="stable", ignore_index=True)


def third_party_effects(rows: pd.DataFrame, atlas: pd.DataFrame) -> pd.DataFrame:
    """Return the effects of the methods in some rows that the atlas does not have.

    They are compared with k-means on all features of the same rows, so that times are of one machine. Rows count if
    k-means has the settings, and the data the content, that rows of the atlas have: an easier task would be an unfair
    comparison. Engines of a third party have settings of their own, but the same repetitions, threads and matching.

    A line counts only if no trial failed, all repetitions from 0 on are paired with one of k-means on all features, and
    each score is in all of these or in none: nobody reruns what is missing, so its author could choose among
    repetitions.

    A line whose r the atlas would not run counts only if its method has one r on all data. It has no ``multiple`` then,
    like that of kmdr's methods with one r. Of a method with several r it would stand for its line at r = 20 k. ``rows``
    are of a run with the atlas's design, e.g. of ``kmdr atlas --method``, and ``atlas`` has rows of the atlas.
    """
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    full = atlas[(atlas["reducer"] == ALL_FEATURES) & _is_kmdr(atlas)]
    fair = np.where(_is_kmdr(rows), _is_among(rows, full, [*_TASK, *_KMEANS]), _is_among(rows, full, _TASK))
    # The reference is kmdr's k-means, and no engine of a third party that is called like it.
    other = (rows["reducer"] == ALL_FEATURES) & (rows["engine"] == ALL_FEATURES)
    rows = rows[fair & ~other]  # first, so that no other row stands for a missing repetition
    rows = rows[_has_every_repetition(rows)]
    lines = effects(rows)
    ours = lines["method"].isin([*method_names().values()])
    lines = lines.assign(multiple=lines["multiple"].where(np.ceil(lines["multiple"] * lines["k"]) == lines["r"]))
    counting = lines["multiple"].notna() | _sizes(lines).eq(1)
    return lines[~ours & counting & (lines["failed"] == "") & _is_complete(lines, rows)].reset_index(drop=True)


def _is_kmdr(rows: pd.DataFrame) -> NDArray[np.bool_]:
    return np.asarray(rows["engine"].astype(object).fillna("").isin(["", "kmdr"]))  # older rows do not name it


def _has_every_repetition(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return a mask of the rows whose method, data and r have all repetitions from 0 to the last."""
    line = ["dataset", "options", "reducer", "params", "engine", "kmeans", "k", "r", "seed"]
    keys = pd.MultiIndex.from_frame(rows[line].astype(str)).factorize()[0]
    repeats = rows["repeat"].astype(float).groupby(keys)
    return np.asarray(repeats.transform("nunique") == repeats.transform("max") + 1)


def _is_complete(lines: pd.DataFrame, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return a mask of the lines paired with k-means on all features in each repetition, each score in all or none.

    There must be as many repetitions as the atlas starts with.
    """
    if rows.empty:
        return np.zeros(len(lines), dtype=bool)
    table = _prepared(rows, None)
    trials = table.drop_duplicates([*_LINE, *REPETITION]).groupby(_LINE).size()
    scores = ok_rows(table).drop_duplicates([*_LINE, *REPETITION]).groupby(_LINE)[[*_VALUES]].count()
    counts = trials.reindex(scores.index)
    scored = (scores.eq(0) | scores.eq(counts, axis=0)).all(axis=1).rename("scored").reset_index()
    reference = scored[scored["method"] == REFERENCE].groupby(_BLOCK)["scored"].all()
    scored["scored"] &= reference.reindex(pd.MultiIndex.from_frame(scored[_BLOCK]), fill_value=False).to_numpy()
    complete = scored.set_index(_LINE)["scored"]
    keys = pd.MultiIndex.from_frame(lines[_LINE])
    runs = lines["runs"].to_numpy()
    enough = (runs == trials.reindex(keys).to_numpy()) & (runs >= design().repeats.least)
    return np.asarray(enough & complete.reindex(keys, fill_value=False).to_numpy())


def _is_among(rows: pd.DataFrame, others: pd.DataFrame, columns: list[str]) -> NDArray[np.bool_]:
    """Return a mask of the rows with the same values in some columns as another row."""
    keys, known = (pd.MultiIndex.from_frame(some[columns].astype(str)) for some in (rows, others))
    return np.asarray(keys.isin(known))


def _prepared(rows: pd.DataFrame, methods: Mapping[tuple[str, str], str] | None) -> pd.DataFrame:
    """Return rows with the columns ``method``, ``form`` and ``domain``, one per trial and whether it was serial."""
    rows = with_engines(rows.reset_index(drop=True))
    names = names_of(rows, methods)
    pairs = zip(rows["reducer"].astype(str), rows["params"].astype(str), strict=True)
    data = pd.Series(
        list(zip(rows["dataset"].astype(str), rows["options"].astype(object).fillna("").astype(str), strict=True)),
        rows.index,
    )
    several = data.unique()
    table = pd.DataFrame(
        {
            "dataset": rows["dataset"].astype(str),
            "form": data.map({pair: form_of(pair[1]) for pair in several}),
            "domain": data.map({pair: domain_of(data_of(*pair)[0]) for pair in several}),
            "method": [names[pair] for pair in pairs],
            "status": rows["status"].astype(str),
            "error": rows["error"].astype(object).fillna("").astype(str),
            "machine": rows["machine"].astype(object).fillna("").astype(str),
            **{name: rows[name].astype(float).astype(int) for name in ("k", "n", "d", "r", "concurrency", *REPETITION)},
            **{name: rows[name].astype(float) for name in (*_VALUES, "total_seconds")},
        }
    )
    return table.sort_values([*_LINE, *REPETITION, "concurrency"], kind="stable")


def _paired(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each quantity of each line over paired repetitions, with its interval, and ``runs``."""
    # A trial that was run twice, in parallel and serially for its time, counts once.
    ok = ok_rows(table)
    ok = ok[np.isfinite(ok["objective"])].drop_duplicates([*_LINE, *REPETITION])
    none = ok[ok["method"] == REFERENCE].drop_duplicates([*_BLOCK, *REPETITION])
    none = none.set_index([*_BLOCK, *REPETITION])[[*_VALUES]].add_suffix("_none")
    pairs = ok.join(none, on=[*_BLOCK, *REPETITION], how="inner")
    values = {name: pairs[name] - pairs[f"{name}_none"] for name in _VALUES[1:]}
    F, F_none = pairs["objective"], pairs["objective_none"]
    loss = F.div(F_none.where(F_none > LEAST)) - 1
    values = {"loss": loss.mask(F_none == F, 0.0), **values}
    pairs = pairs[_LINE].assign(**values).reset_index(drop=True)  # without pairs, its index has the names of columns
    parts = [pairs.groupby(_LINE).size().rename("runs")]
    for name in QUANTITIES:
        # In ascending order, so that the sums do not depend on the order of the rows.
        moments = (
            pairs.sort_values(name, kind="stable").groupby(_LINE)[name].agg(["mean", "std", "count", "min", "max"])
        )
        n, equal = moments["count"], moments["min"] == moments["max"]
        mean = moments["mean"].mask(equal, moments["min"])
        quantiles = pd.Series(stdtrit(n.where(n > 1, 2).to_numpy() - 1.0, 1 - LEVEL / 2), moments.index)
        half = (quantiles * moments["std"] / n**0.5).mask(equal, 0.0).where(n > 1)
        parts += [mean.rename(name), (mean - half).rename(f"{name}_low"), (mean + half).rename(f"{name}_high")]
    joined: pd.DataFrame = pd.concat(parts, axis=1)
    return joined


def _seconds(table: pd.DataFrame) -> "pd.Series[float]":
    """Return the median time of each line, over the serial rows of the machine with the most of them for these data."""
    timed = serial_rows(ok_rows(table)).dropna(subset="total_seconds")
    counts = timed.groupby([*_BLOCK, "machine"]).size().sort_values(ascending=False, kind="stable")
    most = counts.reset_index().drop_duplicates(_BLOCK)[[*_BLOCK, "machine"]]
    return timed.merge(most).groupby(_LINE)["total_seconds"].median().rename("seconds")


def _failures(table: pd.DataFrame) -> "pd.Series[str]":
    """Return, for each line with failed trials, the most frequent message, and their number if others succeeded."""
    trials = table.assign(bad=table["status"] != "ok").sort_values("bad", kind="stable")
    trials = trials.drop_duplicates([*_LINE, *REPETITION])  # one that succeeded when it was run again did not fail
    bad = trials[trials["bad"]]
    bad = bad.assign(error=bad["error"].map(single_line).replace("", "no message"))
    messages = bad.groupby([*_LINE, "error"]).size().sort_values(ascending=False, kind="stable").reset_index()
    first = messages.drop_duplicates(_LINE).set_index(_LINE)["error"]
    counts = trials.groupby(_LINE)["bad"].agg(["sum", "size"]).loc[first.index]
    several = zip(first, counts["sum"], counts["size"], strict=True)
    texts = [text if few == all_ else f"{few} of {counted(all_, 'trial')}: {text}" for text, few, all_ in several]
    return pd.Series(texts, first.index, name="failed", dtype=object)


def _has_one_r(lines: pd.DataFrame) -> "pd.Series[bool]":
    """Return a mask of the lines of methods that have one r on all data, where others have several."""
    sizes = _sizes(lines)
    return (lines["method"] == REFERENCE) | (sizes.eq(1) & (sizes.max() > 1))


def _sizes(lines: pd.DataFrame) -> "pd.Series[int]":
    """Return, for each line, the largest number of r that its method has on the same data."""
    sizes = lines.groupby([*_BLOCK, "method"])["r"].nunique()
    return lines["method"].map(sizes.groupby("method").max())
