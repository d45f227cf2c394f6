"""Which machine made what of some rows."""

import pandas as pd

from kmdr.analysis.rows import TOLD_APART, ok_rows, timed_rows


def environment_notes(rows: pd.DataFrame) -> list[str]:
    """Say, a sentence a study, whose times on which data are from several environments, and so in one curve.

    Parameters
    ----------
    rows : DataFrame
        Of one study or of several.
    """
    ok = ok_rows(rows)
    timed = pd.concat([ok.iloc[:0], *(timed_rows(of_study) for _, of_study in ok.groupby("study"))])
    timed = timed[timed["total_seconds"].notna()]
    curve = ["study", "dataset", "reducer", "params", *(name for name in TOLD_APART if name in rows)]
    curves = timed.groupby(curve, dropna=False)["env_hash"].nunique()
    told: dict[str, dict[str, None]] = {}
    for study, dataset, reducer, *_ in curves[curves > 1].index:
        told.setdefault(str(study), {})[f"{reducer} on {dataset}"] = None
    return [
        f"{study}: times of several environments are in one curve: {', '.join(of_study)}"
        for study, of_study in told.items()
    ]


def rows_by_environment(rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many rows of each study each environment made."""
    return {
        str(study): {str(key): int(count) for key, count in of_study["env_hash"].value_counts().sort_index().items()}
        for study, of_study in rows.groupby("study", sort=True)
    }
