"""The evidence behind the advice: effects and traits of the atlas, from a folder of results or as kmdr ships them.

``python -m kmdr.atlas.evidence`` makes the shipped files again from the committed results. They have four significant
digits.
"""

import argparse
import io
import lzma
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kmdr.atlas.advice import Choice, Evidence, Goal, evidence
from kmdr.atlas.design import STUDY, TIMES, Method, design
from kmdr.atlas.effects import effects, form_of
from kmdr.base.errors import UserError
from kmdr.base.paths import CHECKOUT
from kmdr.base.text import override
from kmdr.config.protocols import choice
from kmdr.results.folder import has_file
from kmdr.results.paths import ATLAS, COMPRESSED_TABLE, TABLE
from kmdr.results.reader import facts_of
from kmdr.results.table import rows_of

TRAITS_FACT = "traits"
_FOLDER = Path(__file__).with_name("evidence")
_EFFECTS, _TRAITS = _FOLDER / "effects.csv.xz", _FOLDER / "traits.csv"
_COLUMNS = [
    "dataset", "domain", "form", "method", "k", "n", "d", "r", "multiple", "loss", "accuracy", "speedup", "failed",
]  # fmt: skip
_DIGITS = "%.4g"
_FAILED = "failed"


def atlas_folder(folder: Path) -> Path:
    """Return the folder with the rows of the atlas: the subfolder ``atlas``, or the folder itself."""
    inside = any(has_file(folder, f"{ATLAS}/{name}") for name in (TABLE, COMPRESSED_TABLE))
    return folder / ATLAS if inside else folder


def select_atlas(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the atlas and of its times."""
    return rows[rows["study"].isin([STUDY, TIMES])]


def read_folder(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the effects and the traits of an atlas that was run into a folder, or into its subfolder ``atlas``.

    Raise `UserError` if it has no rows of an atlas, or no traits.
    """
    home = atlas_folder(folder)
    rows = select_atlas(rows_of(home))
    traits = facts_of(home).get(TRAITS_FACT)
    if isinstance(traits, UserError):
        raise traits
    if rows.empty or traits is None:
        raise UserError(f"{home} has no {'traits' if len(rows) else 'rows'} of an atlas; name a folder of 'kmdr atlas'")
    return effects(rows), with_forms(traits)


def with_forms(traits: pd.DataFrame) -> pd.DataFrame:
    """Return traits with a column ``form``, made from the options of the dataset if need be."""
    if "form" in traits:
        return traits.assign(form=traits["form"].fillna("raw"))
    options = traits["options"].fillna("") if "options" in traits else pd.Series("", traits.index)
    return traits.assign(form=options.astype(str).map(form_of))


@cache
def stored() -> Evidence:
    """Return the evidence that kmdr ships; raise `UserError` if this installation has none."""
    if not (_EFFECTS.is_file() and _TRAITS.is_file()):
        raise UserError(
            "this installation has no results of the atlas; run 'kmdr atlas', and name its folder with atlas=DIR"
        )
    table = pd.read_csv(io.BytesIO(lzma.decompress(_EFFECTS.read_bytes())), keep_default_na=False, na_values=[""])
    return evidence(table.assign(failed=table["failed"].fillna("")), pd.read_csv(_TRAITS))


def files_of(effects_: pd.DataFrame, traits: pd.DataFrame) -> dict[Path, bytes]:
    """Return the content of the shipped files."""
    short = effects_[_COLUMNS].assign(failed=np.where(effects_["failed"] == "", "", _FAILED))
    texts = [table.to_csv(index=False, lineterminator="\n", float_format=_DIGITS) for table in (short, traits)]
    return {_EFFECTS: lzma.compress(texts[0].encode(), preset=9 | lzma.PRESET_EXTREME), _TRAITS: texts[1].encode()}


# -- methods by name -------------------------------------------------------------------------------------------------


def _find(known: Evidence, reducer: str, settings: Mapping[str, object]) -> str | None:
    """Return the method of a reducer with some settings and, beyond these, the fewest others."""
    matching = {
        name: len(method.settings)
        for name in dict.fromkeys(choice.method for choice in known.choices)
        for method in [design().methods.get(name, Method(name))]
        if method.reducer == reducer and settings.items() <= method.settings.items()
    }
    return min(matching, key=lambda name: matching[name], default=None)


def rules(known: Evidence, goal: Goal) -> dict[str, Choice]:
    """Return the simple rules that advice must beat, as far as the atlas has their methods.

    Raise `UserError` if it has no random signs, which are the first.
    """
    signs, svd = _find(known, "random_sign", {}), _find(known, "svd", {"rank": "k"})
    if signs is None:
        raise UserError("the atlas has no rows of random signs, with which its advice is compared; run 'kmdr atlas'")
    if (nearest := goal.nearest(known.multiples)) is not None:
        return {"random signs at this r": Choice(signs, nearest)}
    named = {"random signs at r = 20 k": Choice(signs, 20.0)}
    return named | ({} if svd is None else {"the exact SVD at r = k": Choice(svd, "k")})


def settings_of(name: str) -> list[str]:
    """Return the settings with which a run uses a method: ``reducer=svd reducer.rank=k``."""
    method = design().methods.get(name, Method(name))
    return [f"reducer={method.reducer}", *_settings("reducer", method.settings), *_settings("kmeans", method.kmeans)]


def _settings(group: str, values: Mapping[str, Any]) -> list[str]:
    """Return values of a group as on the command line, each of its ``args`` by itself and last."""
    nested = {f"args.{name}": value for name, value in values.get("args", {}).items()}
    plain = {name: value for name, value in values.items() if name != "args"}
    return [f"{group}.{name}={override(value)}" for name, value in (plain | nested).items()]


def protocol(n: int, d: int, k: int) -> list[str]:
    """Return the settings of k-means that the atlas has for an n × d matrix and that differ from a run's defaults."""
    usual = choice("kmeans", "bzmd15")
    settings = design().kmeans_of(n, d, k)
    return [f"kmeans.{key}={override(value)}" for key, value in settings.items() if usual.get(key) != value]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help instead of writing
    _FOLDER.mkdir(exist_ok=True)
    for path, content in files_of(*read_folder(CHECKOUT / "results" / "reference")).items():
        path.write_bytes(content)
