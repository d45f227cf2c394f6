"""Which machine made what of some rows."""

import pandas as pd

from kmdr.analysis.rows import SETTING_COLUMNS, count_by_machine, fairly_timed, ok_rows, timed_rows


def environment_notes(rows: pd.DataFrame) -> list[str]:
    """Say, a sentence a study, whose times are from several environments, and which leave out those of other machines.

    Parameters
    ----------
    rows : DataFrame
        Of one study or of several.
    """
    ok = ok_rows(rows)
    timed = pd.concat([ok.iloc[:0], *(timed_rows(of_study) for _, of_study in ok.groupby("study"))])
    timed = timed[timed["total_seconds"].notna()]
    curve = ["study", "dataset", "reducer", "params", *(name for name in SETTING_COLUMNS if name in rows)]
    curves = timed.groupby(curve, dropna=False)["env_hash"].nunique()
    told: dict[str, dict[str, None]] = {}
    for study, dataset, reducer, *_ in curves[curves > 1].index:
        told.setdefault(str(study), {})[f"{reducer} on {dataset}"] = None
    return [
        f"{study}: times of several environments are in one curve: {', '.join(of_study)}"
        for study, of_study in told.items()
    ] + _machine_notes(ok[ok["total_seconds"].notna()])


def _machine_notes(rows: pd.DataFrame) -> list[str]:
    """Say, a sentence a study, on which datasets times are of one of several machines."""
    notes = []
    for study, of_study in rows.groupby("study"):
        shares = [
            f"{of_dataset.max()} of {of_dataset.sum()} on {dataset}"
            for dataset, of_dataset in count_by_machine(fairly_timed(of_study)).groupby("dataset")
            if len(of_dataset) > 1
        ]
        if shares:
            notes.append(f"{study}: times are of one machine, that which timed most trials: {', '.join(shares)}")
    return notes


def rows_by_environment(rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many rows of each study each environment made."""
    return {
        str(study): {str(key): int(count) for key, count in of_study["env_hash"].value_counts().sort_index().items()}
        for study, of_study in rows[["study", "env_hash"]].groupby("study", sort=True)
    }
