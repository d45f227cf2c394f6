"""The verdicts of two seeds side by side, which show how much a verdict depends on the draws.

``seeds.csv`` in a folder of results has the central statements of an earlier run of the same studies with another seed,
judged by the same tests; ``scripts/compare_seeds.py`` writes it. The report compares its own verdicts with them.
"""

from pathlib import Path

import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.text import counted
from kmdr.figures.escape import spreadsheet_csv
from kmdr.results.table_stream import open_table

FILE = "seeds.csv"
TABLE = Path("tables", "seeds")
_STATEMENT = ["claim", "label"]
_NUMBERS = ["effect", "low", "high"]
COLUMNS = [*_STATEMENT, "verdict", "statement_verdict", *_NUMBERS, "unit"]
_EARLIER = "verdict, earlier seed"
# Outcomes without a verdict on the paper, so that there is nothing to compare, and why.
_WITHOUT = {"changed": "one of the runs had other settings", "not run": "one of the runs lacks them"}
_FEW = "one of the runs has too few values for an interval, such as single timings"


def central(verdicts: pd.DataFrame, components: pd.DataFrame) -> pd.DataFrame:
    """Return the central statements of ``components.csv`` with the verdicts on their claims."""
    statements = components[components["decides"] == "yes"].drop_duplicates(_STATEMENT)
    return statements.merge(verdicts[["claim", "verdict"]], on="claim")[COLUMNS]


def read_earlier(folder: Path) -> pd.DataFrame | None:
    """Return the statements of the earlier seed; None if the folder has none.

    Raise `UserError` if the file is not a table of such statements.
    """
    with open_table(folder, FILE) as file:
        if file is None:
            return None
        try:
            kinds = {name: float if name in _NUMBERS else str for name in COLUMNS}
            empty = {name: [""] for name in _NUMBERS}
            return pd.read_csv(file, usecols=COLUMNS, dtype=kinds, keep_default_na=False, na_values=empty)
        except ValueError as error:
            raise UserError(f"{FILE} is not a table of statements; write it by scripts/compare_seeds.py") from error


def side_by_side(earlier: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Return one line per central statement that both seeds have, with effects, intervals and verdicts of both.

    ``same_statement`` and ``same_verdict`` are empty where there is nothing to compare: one of the runs has no verdict
    on the paper, because it ran other settings, or too few values for an interval.
    """
    both = now.merge(earlier, on=_STATEMENT, suffixes=("", ", earlier seed"))
    both = both.drop(columns="unit, earlier seed")
    reasons = _reasons(both)
    same_statement = (both["statement_verdict"] == both["statement_verdict, earlier seed"]).astype(object)
    same_verdict = (both["verdict"] == both[_EARLIER]).astype(object)
    of_claim = reasons.groupby(both["claim"]).transform("max")
    return both.assign(
        same_statement=same_statement.mask(reasons != "", ""), same_verdict=same_verdict.mask(of_claim != "", "")
    )


def _reasons(table: pd.DataFrame) -> "pd.Series[str]":
    """Return why the statements of a table cannot be compared; empty text for those that can."""
    has_no_interval = [table[name].isna() for name in ("low", "low, earlier seed")]
    reasons = pd.Series("", index=table.index).mask(has_no_interval[0] != has_no_interval[1], _FEW)
    for without, reason in _WITHOUT.items():
        reasons = reasons.mask((table[["verdict", _EARLIER]] == without).any(axis=1), reason)
    return reasons


def sentence(table: pd.DataFrame) -> str:
    """Return the numbers of verdicts and central statements that both seeds share, and the verdicts that differ."""
    claims = table[table["same_verdict"] != ""].drop_duplicates("claim")
    statements = table.loc[table["same_statement"] != "", "same_statement"]
    other = claims[claims["verdict"] != claims[_EARLIER]]
    if claims.empty:
        text = "No verdict is compared with that of another seed."
    else:
        text = (
            f"With another seed, {len(claims) - len(other)} of {counted(len(claims), 'verdict')} and "
            f"{int(statements.sum())} of {counted(len(statements), 'central statement')} agree."
        )
    if not other.empty:
        rest = "The other verdict" if len(other) == 1 else f"The other {counted(len(other), 'verdict')}"
        is_open = (other[["verdict", _EARLIER]] == "undecided").any(axis=1).all()
        verb = "is" if len(other) == 1 else "are"
        listed = ", ".join(other["claim"])
        text += f" {rest} ({listed}) {verb} undecided with one of the two seeds." if is_open else f" {rest}: {listed}."
    reasons = _reasons(table)
    for reason in (*_WITHOUT.values(), _FEW):
        without = table.loc[reasons == reason, "claim"].unique()
        text += f" Not compared, because {reason}: {', '.join(without)}." if len(without) else ""
    return text


def files(table: pd.DataFrame) -> dict[Path, bytes]:
    """Return the comparison as CSV: hundreds of lines are for programs."""
    return {TABLE.with_suffix(".csv"): spreadsheet_csv(table)}
