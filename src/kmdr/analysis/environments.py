"""Environments and machines of rows, and notes on times that come from several of them."""

import pandas as pd

from kmdr.analysis.rows import CELL, SETTING_COLUMNS, count_by_machine, fairly_timed, ok_rows, timed_rows

ENVIRONMENT_COLUMNS = [
    "study",
    *CELL,
    *SETTING_COLUMNS,
    "status",
    "concurrency",
    "machine",
    "env_hash",
    "total_seconds",
]


def environment_notes(rows: pd.DataFrame) -> list[str]:
    """Return sentences on studies whose times come from several environments, or were measured on several machines."""
    ok = ok_rows(rows)
    timed = pd.concat([ok.iloc[:0], *(timed_rows(of_study) for _, of_study in ok.groupby("study"))])
    timed = timed[timed["total_seconds"].notna()]
    curve = ["study", "dataset", "reducer", "params", *(name for name in SETTING_COLUMNS if name in rows)]
    curves = timed.groupby(curve, dropna=False)["env_hash"].nunique()
    mixed: dict[str, dict[str, None]] = {}
    for study, dataset, reducer, *_ in curves[curves > 1].index:
        mixed.setdefault(str(study), {})[f"{reducer} on {dataset}"] = None
    return [
        f"{study}: some curves have times from several environments: {', '.join(of_study)}"
        for study, of_study in mixed.items()
    ] + _machine_notes(ok[ok["total_seconds"].notna()])


def _machine_notes(rows: pd.DataFrame) -> list[str]:
    """Return one sentence for each study with datasets that were timed on several machines, of which one is used."""
    notes = []
    for study, of_study in rows.groupby("study"):
        shares = [
            f"{of_dataset.max()} of {of_dataset.sum()} on {dataset}"
            for dataset, of_dataset in count_by_machine(fairly_timed(of_study)).groupby("dataset")
            if len(of_dataset) > 1
        ]
        if shares:
            notes.append(f"{study}: only times from the machine with the most trials are used: {', '.join(shares)}")
    return notes


def rows_by_environment(rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return the number of rows by study and environment."""
    return {
        str(study): {str(key): int(count) for key, count in of_study["env_hash"].value_counts().sort_index().items()}
        for study, of_study in rows[["study", "env_hash"]].groupby("study", sort=True)
    }
