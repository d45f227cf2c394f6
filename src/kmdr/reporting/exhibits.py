"""Tables and figures as a report's page shows them: pictures, tables as text, and numbers next to the paper's."""

import io
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from PIL import Image

from kmdr.analysis.rows import centres
from kmdr.claims.catalogue import Paper
from kmdr.claims.reported import reported
from kmdr.figures.panels import dataset_label, quantity_label
from kmdr.figures.tables import Table, cells
from kmdr.reporting.model import Reproduction
from kmdr.reporting.numbers import number

_DOTS_PER_PIXEL = 1.5  # of a figure, so that its 144 dots per inch are 96 pixels, which is actual size
_MOST_LINES = 300


class Picture(NamedTuple):
    """A figure in the page: a ``data:`` address and its size in pixels."""

    source: str
    width: int
    height: int


class Grid(NamedTuple):
    """A table as text: headings, lines, numeric columns, number of lines that only the CSV has, and bold cells."""

    names: list[str]
    lines: list[list[str]]
    numeric: frozenset[int]
    omitted: int = 0
    bold: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Exhibit:
    """A table or figure as the page shows it.

    Attributes
    ----------
    alt : str
        The alternative text of the figure.
    grid : Grid or None
        The item itself if it is a table.
    numbers : Grid or None
        The numbers in a figure.
    compared : Grid or None
        The numbers that the paper reports for a figure, next to ours.
    """

    reproduction: Reproduction
    alt: str
    picture: Picture | None
    grid: Grid | None
    numbers: Grid | None
    compared: Grid | None

    def file(self, kind: str) -> Path | None:
        """Return the item's file with an extension, relative to the folder, if there is one."""
        return next((file for file in self.reproduction.files if file.suffix == f".{kind}"), None)


def embedded(content: bytes) -> Picture:
    """Return a PNG as a ``data:`` address, with its size on the page; lossless WebP takes a fifth less than PNG."""
    with Image.open(io.BytesIO(content)) as image:
        packed = io.BytesIO()
        image.convert("RGB").save(packed, "WEBP", lossless=True, quality=100, method=4)
        source = "data:image/webp;base64," + b64encode(packed.getvalue()).decode("ascii")
        return Picture(source, round(image.width / _DOTS_PER_PIXEL), round(image.height / _DOTS_PER_PIXEL))


def _grid(frame: pd.DataFrame) -> Grid:
    """Return the first `_MOST_LINES` rows of a table as text."""
    names = [str(name).replace("_", " ") for name in frame.columns]
    numeric = frozenset(i for i, kind in enumerate(frame.dtypes) if pd.api.types.is_numeric_dtype(kind))
    lines = [
        [
            number(float(value), 4) if i in numeric else ("" if pd.isna(value) else str(value))
            for i, value in enumerate(line)
        ]
        for line in frame.head(_MOST_LINES).itertuples(index=False)
    ]
    return Grid(names, lines, numeric, max(0, len(frame) - _MOST_LINES))


def figure_numbers(numbers: pd.DataFrame) -> Grid | None:
    """Return the numbers of a figure, with one column per curve if it shows curves; None if there are none."""
    if numbers.empty:
        return None
    lines = [name for name in ("panel", "quantity", "dataset", "r") if name in numbers]
    if {"quantity", "dataset", "reducer", "r", "label"} <= set(numbers) and {"mean", "median"} & set(numbers):
        curves = numbers.assign(centre=centres(numbers)).dropna(subset=[*lines, "label", "centre"])
        shared = curves.groupby("label")["reducer"].transform("nunique") > 1
        curves = curves.assign(
            label=curves["label"].where(~shared, curves["reducer"] + ", " + curves["label"]),
            quantity=[quantity_label(name)[1] for name in curves["quantity"]],
            dataset=curves["dataset"].map(dataset_label),
        )
        if len(curves) and not curves.duplicated([*lines, "label"]).any():
            wide = curves.pivot_table(index=lines, columns="label", values="centre", sort=False).sort_index()
            return _grid(wide[list(dict.fromkeys(curves["label"]))].reset_index())
    return _grid(_labelled(numbers.loc[:, numbers.notna().any() & (numbers.astype(str) != "").any()]))


def _labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with datasets and quantities by the names that figures have."""
    names = {"dataset": dataset_label, "quantity": lambda name: quantity_label(name)[1].replace("_", " ")}
    return frame.assign(**{
        column: frame[column].map(label, na_action="ignore") for column, label in names.items() if column in frame
    })  # fmt: skip


def compared(reproduction: Reproduction) -> Grid | None:
    """Return the numbers that the paper reports for a figure, next to our means or, of times, medians.

    The result is None if the paper reports none, or if several of our curves correspond to one of the paper's; the
    numbers of the figure contain them all.
    """
    theirs = reported(reproduction.item.paper)
    theirs = theirs[(theirs["id"] == reproduction.item.id) & (theirs["method"] != "")]
    if theirs.empty:
        return None
    keys = ["dataset", "reducer", "quantity"]
    ours: dict[tuple[Any, ...], set[float]] = {}
    numbers = reproduction.numbers
    if {*keys, "r", "drawn_as"} <= set(numbers) and {"mean", "median"} & set(numbers):
        numbers = numbers[numbers["drawn_as"] != "reported"]
        numbers = numbers.assign(r=pd.to_numeric(numbers["r"], errors="coerce"), centre=centres(numbers))
        for *key, r, centre in numbers[[*keys, "r", "centre"]].dropna(subset=[*keys, "centre"]).itertuples(index=False):
            # A reported number without r may be compared with a mean at a single r.
            for address in ((*key, r), (*key, None)):
                ours.setdefault(address, set()).add(float(centre))
    values = []
    for dataset, name, quantity, r in theirs[["dataset", "method", "quantity", "r"]].itertuples(index=False):
        candidates = ours.get((dataset, name, quantity, None if pd.isna(r) else r), set())
        if len(candidates) > 1:
            return None
        values.append(next(iter(candidates), math.nan))
    table = theirs.rename(columns={"value": "reported", "where": "in the paper"}).assign(ours=values)
    table["difference"] = table["ours"] - table["reported"]
    shown = ["dataset", "method", "quantity", "r", "reported", "ours", "difference", "in the paper"]
    return _grid(_labelled(table[shown]))


def described(reproduction: Reproduction, paper: Paper) -> str:
    """Return the alternative text of a figure: its title, and its quantities, datasets, r and curves."""
    numbers = reproduction.numbers
    parts = [f"{reproduction.item.label} of {paper.authors} ({paper.venue}): {reproduction.item.title.rstrip('.')}."]
    if {"quantity", "dataset"} <= set(numbers):
        names = map(str, numbers["quantity"].dropna().unique())
        quantities = [quantity_label(name)[0].lower() for name in names]
        data = [dataset_label(str(name)) for name in numbers["dataset"].dropna().unique() if str(name)]
        parts.append(f"It shows {', '.join(quantities)} on {', '.join(data)}")
        curves = numbers[numbers["drawn_as"] == "curve"] if "drawn_as" in numbers else numbers
        r = pd.to_numeric(curves.get("r", pd.Series(dtype=float)), errors="coerce")
        if r.nunique() > 1:
            parts[-1] += f" for r from {number(r.min())} to {number(r.max())}"
        if "label" in numbers:
            labels = [str(name).replace("_", " ") for name in numbers["label"].dropna().unique()]
            parts[-1] += f"; curves: {', '.join(labels)}"
        parts[-1] += "; its numbers are in the CSV file."
    elif len(numbers):
        parts.append("Its numbers are in the CSV file.")
    return " ".join(parts)


def table_grid(table: Table) -> Grid:
    """Return a table as text."""
    names, lines = cells(table)
    numeric = frozenset(i for i, name in enumerate(names) if name in table.formats)
    return Grid(names, lines, numeric, bold=frozenset((line, names.index(name)) for line, name in table.bold))


def pictures(files: Mapping[Path, bytes]) -> list[Picture]:
    """Return the pictures among some files."""
    return [embedded(content) for path, content in files.items() if path.suffix == ".png"]


def exhibit(reproduction: Reproduction, paper: Paper) -> Exhibit:
    """Return a table or figure of a paper as the page shows it."""
    is_figure = reproduction.item.kind == "figure"
    return Exhibit(
        reproduction,
        described(reproduction, paper) if is_figure else "",
        next(iter(pictures(reproduction.files)), None),
        table_grid(reproduction.table) if reproduction.table is not None else None,
        figure_numbers(reproduction.numbers) if is_figure else None,
        compared(reproduction) if is_figure else None,
    )
