"""Recompute the tables of the atlas from its rows, without any of kmdr's code.

``python scripts/recompute_atlas.py [DIR]`` (by default ``results/reference/atlas``) computes every effect with its
interval, and the average ranks, Friedman statistic, p-value and critical difference of every ranking again, and
compares them with ``facts/effects.csv``, ``ranks.csv`` and ``outcomes.csv``. Only json, yaml, numpy, pandas and scipy
are used. Which datasets and methods a ranking omits is taken from the table, and checked to leave no gap.

It prints how many numbers of each file are equal or different, and exits with 1 if any differs. Files have 8 digits;
numbers are equal within 1e-6 of their size, or of 1 for differences and losses.
"""

import argparse
import json
import sys
from collections import Counter
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy import stats

ATLAS = Path(__file__).parents[1] / "src/kmdr/atlas/atlas.yaml"
# Datasets made from the same recordings or texts are one block.
SOURCE = {
    "orl_64x64": "orl", "orlraws10p": "orl", "coil20_128x128": "coil20", "light": "pie", "warppie10p": "pie",
    "allaml": "leukemia", "basehock": "20 newsgroups", "pcmac": "20 newsgroups", "relathe": "20 newsgroups",
}  # fmt: skip
TOLERANCE = 1e-6
CELL = ["dataset", "form", "method", "r"]
DATA = ["dataset", "form"]
SCORES = {"loss": "objective", "accuracy": "accuracy", "ari": "ari", "nmi": "nmi"}
MOST_SHOWN = 20


def stored(path: Path) -> Path:
    """Return the path of a file, or of its compressed form if there is only that."""
    return path if path.is_file() else path.with_name(f"{path.name}.xz")


def named_rows(folder: Path) -> pd.DataFrame:
    """Return the rows of the atlas with the columns ``form`` and ``method``, by the file of the atlas."""
    table = next(path for name in ("rows.csv", "rows.csv.xz") if (path := folder / name).is_file())
    rows = pd.read_csv(table, low_memory=False, keep_default_na=False)
    for name in ("objective", "accuracy", "ari", "nmi", "total_seconds"):
        rows[name] = pd.to_numeric(rows[name])
    tree = yaml.safe_load(ATLAS.read_text("utf-8"))
    forms = {options: form_name(tree, options) for options in rows["options"].unique()}
    columns = ["reducer", "params", "engine", "kmeans"]
    runs = list(rows[columns].itertuples(index=False, name=None))
    methods = {run: method_name(tree, *run) for run in {*runs}}
    return rows.assign(form=rows["options"].map(forms), method=[methods[run] for run in runs])


def form_name(tree: dict[str, Any], options: str) -> str:
    """Return the name of a form of the data."""
    stated = json.loads(options or "{}")
    return next(str(name) for name, form in tree["forms"].items() if form["options"] == stated)


def method_name(tree: dict[str, Any], reducer: str, params: str, engine: str, kmeans: str) -> str:
    """Return the name of the method with the engine of a row, and the most settings that the row agrees with."""
    matching: list[tuple[int, str]] = []
    values, arguments = json.loads(params), json.loads(kmeans or "{}").get("args", {})
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    for name, method in tree["methods"].items():
        clusters = {"args": {}, **tree["kmeans"], **method.get("kmeans", {})}
        settings = method.get("settings", {})
        path, settings = settings.get("path", method["reducer"]), settings.get("args", settings)
        if (path, clusters["engine"], clusters["args"]) == (reducer, engine, arguments) and all(
            values.get(key) == value for key, value in settings.items()
        ):
            matching.append((len(settings), str(name)))
    return max(matching)[1] if matching else f"{reducer}, {engine}"


def recomputed_effects(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each method at each r on each form of each dataset, by a loop over these."""
    ok = rows[rows["status"] == "ok"].sort_values("concurrency", kind="stable")
    timed = ok[ok["concurrency"] == 1]
    once = ok.drop_duplicates([*CELL, "seed", "repeat"])
    repetition = [*DATA, "seed", "repeat"]
    none = once.loc[once["method"] == "none", [*repetition, *SCORES.values()]]
    once = once.merge(none, how="left", on=repetition, suffixes=("", "_none"), indicator="paired")
    machine = timed.groupby(DATA)["machine"].agg(lambda names: Counter(names).most_common(1)[0][0])
    timed = timed[timed["machine"].to_numpy() == machine.reindex(pd.MultiIndex.from_frame(timed[DATA])).to_numpy()]
    seconds = timed.groupby(CELL)["total_seconds"].median()
    lines = []
    for cell, some in once.groupby(CELL):
        pairs = some[some["paired"] == "both"]
        line: dict[str, Any] = {**dict(zip(CELL, cell, strict=True)), "k": some["k"].iloc[0], "d": some["d"].iloc[0]}
        line["runs"] = len(pairs)
        for name, column in SCORES.items():
            ours, theirs = pairs[column].to_numpy(float), pairs[f"{column}_none"].to_numpy(float)
            values = ours / theirs - 1 if name == "loss" else ours - theirs
            values = values[np.isfinite(values)]
            half = np.nan
            if len(values) > 1:
                half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / sqrt(len(values))
            mean = values.mean() if len(values) else np.nan
            line |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
        line["seconds"] = seconds.get(cell, np.nan)
        lines.append(line)
    table = pd.DataFrame(lines)
    reference = table[table["method"] == "none"].set_index(DATA)["seconds"]
    table["seconds_none"] = reference.reindex(pd.MultiIndex.from_frame(table[DATA])).to_numpy()
    table["speedup"] = table["seconds_none"] / table["seconds"]
    return table


def values_of(effects: pd.DataFrame, quantity: str, condition: str, form: str, multiples: list[float]) -> pd.DataFrame:
    """Return a quantity of each method, one row per source of data; infinite if no r is fast enough."""
    table = effects[effects["loss"].notna()].assign(time=effects["seconds"] / effects["seconds_none"])
    table = table if form == "all forms" else table[table["form"] == form]
    per_data = effects.groupby([*DATA, "method"])["r"].nunique().groupby("method").max()
    one = table["method"].map(per_data) == 1
    number = float(condition.split()[2])
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for key, some in table.groupby(DATA):
        k, d = int(some["k"].iloc[0]), int(some["d"].iloc[0])
        column = cells.setdefault((str(key[0]), str(key[1])), {})
        for method, lines in some.groupby("method"):
            if condition.startswith("r"):
                if ceil(number * k) >= d:
                    continue
                nearest = [multiples[int(np.argmin(abs(np.log(r / k / np.array(multiples)))))] for r in lines["r"]]
                fits = np.array(nearest) == number
                if method == "none":
                    fits = np.ones(len(lines), dtype=bool)
                elif one[lines.index].all():
                    fits = (lines["r"] <= ceil(number * k)).to_numpy()
                if fits.any():
                    column[str(method)] = lines[fits].sort_values("r")[quantity].iloc[0]
            elif not (method == "none" and number < 100) and lines["time"].notna().any():
                fast = lines[lines["time"] <= number / 100].sort_values(["loss", "r"])
                worst = inf if quantity in ("loss", "time") else -inf
                known = lines[quantity].notna().any()
                column[str(method)] = fast[quantity].iloc[0] if len(fast) else worst if known else np.nan
    frame = pd.DataFrame(cells).T
    frame = frame.dropna(how="all").dropna(axis=1, how="all")
    by_dataset = complete_means(frame, list(frame.index.get_level_values(0)))
    return complete_means(by_dataset, [SOURCE.get(str(name), str(name)) for name in by_dataset.index])


def complete_means(table: pd.DataFrame, groups: list[str]) -> pd.DataFrame:
    """Return the means of groups of rows, with a gap where a row has one."""
    groups_of = table.groupby(np.array(groups))
    means: pd.DataFrame = groups_of.mean().where(groups_of.count().eq(groups_of.size(), axis=0))
    return means


class Count:
    """Equal and different numbers by file, and the differences."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.differences: list[str] = []

    def check(self, file: str, where: str, ours: float, printed: float) -> None:
        """Count a number, and keep it if it differs."""
        both_missing = np.isnan(ours) and np.isnan(printed)
        equal = both_missing or ours == printed or abs(ours - printed) <= TOLERANCE * max(1.0, abs(printed))
        self.counts.setdefault(file, Counter())["equal" if equal else "different"] += 1
        if not equal:
            self.differences.append(f"{file}: {where}: printed {printed!r}, recomputed {ours!r}")


def check_effects(folder: Path, ours: pd.DataFrame, count: Count) -> None:
    """Compare every effect."""
    printed = pd.read_csv(stored(folder / "facts/effects.csv"))
    both = printed.merge(ours, on=CELL, how="left", suffixes=("", "_ours"))
    names = ["runs", "seconds", "seconds_none", "speedup", *(f"{n}{e}" for n in SCORES for e in ("", "_low", "_high"))]
    known = both["loss_ours"].notna() | both["loss"].notna()
    for line in both[known].to_dict("records"):
        where = ", ".join(str(line[name]) for name in CELL)
        for name in names:
            count.check("effects.csv", f"{where}: {name}", float(line[f"{name}_ours"]), float(line[name]))
    missing = len(ours) - int(both["loss_ours"].notna().sum())
    if missing > int(ours["loss"].isna().sum()):
        count.differences.append(f"effects.csv: {missing} cells of the rows are not in the table")


def check_rankings(folder: Path, effects: pd.DataFrame, count: Count) -> None:
    """Compare average ranks and tests of every ranking."""
    ranks, outcomes = (
        pd.read_csv(stored(folder / f"facts/{n}.csv"), keep_default_na=False) for n in ("ranks", "outcomes")
    )
    multiples = [float(m) for m in yaml.safe_load(ATLAS.read_text("utf-8"))["multiples"]]
    for line in outcomes.to_dict("records"):
        key = [str(line[name]) for name in ("form", "quantity", "condition")]
        where = ", ".join(key)
        values = values_of(effects, key[1], key[2], key[0], multiples)
        values = values.drop(columns=[m for m in str(line["omitted_methods"]).split("; ") if m])
        values = values.drop(index=[d for d in str(line["omitted_datasets"]).split("; ") if d], errors="ignore")
        if values.isna().any(axis=None):
            count.differences.append(f"outcomes.csv: {where}: its block has gaps")
            continue
        sign = 1.0 if key[1] in ("loss", "time") else -1.0
        by_dataset = stats.rankdata(np.round(sign * values.to_numpy(), 11), axis=1)
        mean = pd.Series(by_dataset.mean(axis=0), values.columns)
        printed = ranks[(ranks[["form", "quantity", "condition"]] == key).all(axis=1)].set_index("method")
        for method in sorted(set(mean.index) | set(printed.index)):
            stated = float(printed["rank"].get(method, np.nan))
            count.check("ranks.csv", f"{where}: {method}", float(mean.get(method, np.nan)), stated)
        N, k = values.shape
        count.check("outcomes.csv", f"{where}: datasets", N, float(line["datasets"]))
        count.check("outcomes.csv", f"{where}: methods", k, float(line["methods"]))
        if line["p"] == "":
            continue
        statistic, F, p = 0.0, 0.0, 1.0
        if (np.ptp(by_dataset, axis=1) > 0).any():
            statistic = float(stats.friedmanchisquare(*by_dataset.T).statistic)
            rest = N * (k - 1) - statistic
            F = (N - 1) * statistic / rest if rest > 1e-9 * statistic else inf
            p = float(stats.f.sf(F, k - 1, (k - 1) * (N - 1)))
        distance = stats.studentized_range.ppf(0.95, k, np.inf) * sqrt(k * (k + 1) / (12 * N))
        for name, value in {"chi2": statistic, "F": F, "p": p, "critical_difference": distance}.items():
            count.check("outcomes.csv", f"{where}: {name}", float(value), float(line[name]))
        best = sorted(mean.index[mean <= mean.min() + (distance if p <= 0.05 else inf)])
        if best != sorted(str(line["leaders"]).split("; ")):
            count.differences.append(f"outcomes.csv: {where}: leaders: recomputed {best}")
        winner = best[0] if len(best) == 1 and p <= 0.05 else ""
        if winner != line["winner"]:
            count.differences.append(f"outcomes.csv: {where}: winner: recomputed {winner!r}")


def main() -> int:
    """Check a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default="results/reference/atlas")
    folder = parser.parse_args().folder
    count = Count()
    effects = recomputed_effects(named_rows(folder))
    check_effects(folder, effects, count)
    check_rankings(folder, effects, count)
    for text in count.differences[:MOST_SHOWN]:
        print(text)
    for file, counts in count.counts.items():
        print(file, dict(counts))
    return int(bool(count.differences))


if __name__ == "__main__":
    sys.exit(main())
