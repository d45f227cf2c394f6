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


def central(verdicts: pd.DataFrame, components: pd.DataFrame) -> pd.DataFrame:
    """Return the central statements of ``components.csv`` with the verdicts on their claims."""
    statements = components[components["decides"] == "yes"].drop_duplicates(_STATEMENT)
    return statements.merge(verdicts[["claim", "verdict"]], on="claim")[COLUMNS]


def read_earlier(folder: Path) -> pd.DataFrame | None:
    """Return the statements of the earlier seed; None if the folder has none.

    Raises
    ------
    UserError
        If the file is not a table of such statements.
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

    Where one of them has no verdict on the paper, because it ran other settings, ``same_verdict`` is empty.
    """
    both = now.merge(earlier, on=_STATEMENT, suffixes=("", ", earlier seed"))
    agrees = (both["verdict"] == both[_EARLIER]).astype(object).mask(_is_incomparable(both), "")
    same = both["statement_verdict"] == both["statement_verdict, earlier seed"]
    return both.assign(same_statement=same, same_verdict=agrees).drop(columns="unit, earlier seed")


def _is_incomparable(table: pd.DataFrame) -> "pd.Series[bool]":
    return table[["verdict", _EARLIER]].isin([*_WITHOUT]).any(axis=1)


def sentence(table: pd.DataFrame) -> str:
    """Return the numbers of verdicts and central statements that both seeds share, and the verdicts that differ."""
    judged = table[~_is_incomparable(table)]
    claims = judged.drop_duplicates("claim")
    other = claims[claims["verdict"] != claims[_EARLIER]]
    if claims.empty:
        return "No verdict is compared with that of another seed."
    text = (
        f"With another seed, {len(claims) - len(other)} of the {counted(len(claims), 'verdict')} that both runs have "
        f"and {int(judged['same_statement'].sum())} of {counted(len(judged), 'central statement')} are the same"
    )
    if not other.empty:
        is_open = (other[["verdict", _EARLIER]] == "undecided").any(axis=1)
        end = ", and each of these claims is undecided with one of the seeds" if is_open.all() else ""
        text += f"; the verdicts on {', '.join(other['claim'])} differ{end}"
    for without, reason in _WITHOUT.items():
        rest = table.loc[(table[["verdict", _EARLIER]] == without).any(axis=1), "claim"].unique()
        text += f". Not compared, because {reason}: {', '.join(rest)}" if len(rest) else ""
    return f"{text}."


def files(table: pd.DataFrame) -> dict[Path, bytes]:
    """Return the comparison as CSV: hundreds of lines are for programs."""
    return {TABLE.with_suffix(".csv"): spreadsheet_csv(table)}
