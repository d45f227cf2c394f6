"""The register of choices that the papers leave open: ours, and the effect of alternatives on F, P and the verdicts.

An entry is an `OpenPoint` of a paper. Most are answered by studies that flip the choice; such a study (``study.flip``
in its YAML) names the entry, the base studies whose trials it repeats under the other choice, and the claims that may
depend on it. Seeds are derived from names, so that a flipped trial pairs with the trial of the same dataset, reducer, r
and repetition. The other entries are answered by a function of the paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.analysis.rows import REPETITION, rows_where
from kmdr.analysis.statistics import Component, equal
from kmdr.base.text import counted, typeset
from kmdr.claims.catalogue import OpenPoint, Paper, claims, papers
from kmdr.claims.verdicts import Diagnosis, uncorrected

# Smaller changes count as none: relative for F, absolute for P.
F_MARGIN, P_MARGIN = 0.01, 0.02
_UNCHANGED = "no trial changed"
# The entry of studies that time the methods of claims with other implementations.
SPEED = "speed"


@dataclass(frozen=True)
class Flip:
    """A study that flips one choice of other studies.

    Attributes
    ----------
    entry : str
        The open point or the diagnosis that it belongs to.
    base : tuple of str
        The studies whose trials it repeats.
    claims : tuple of str
        Ids of the claims that may depend on the choice.
    datasets, reducers : mapping
        The dataset or reducer of the base that one of another name replaces.
    departs : str
        What in the paper it departs from, or the error that it repeats; empty if the paper leaves the choice open.
    """

    study: str
    title: str
    entry: str
    base: tuple[str, ...]
    claims: tuple[str, ...]
    datasets: Mapping[str, str] = field(default_factory=dict)
    reducers: Mapping[str, str] = field(default_factory=dict)
    departs: str = ""

    @classmethod
    def from_study(cls, study: Mapping[str, Any]) -> "Flip | None":
        """Return the flip of a ``study`` tree of a configuration; None if it flips nothing."""
        flip = study.get("flip")
        if not flip:
            return None
        return cls(
            study["name"], study["title"], flip["entry"], tuple(flip["base"]), tuple(flip["claims"]),
            dict(flip.get("datasets") or {}), dict(flip.get("reducers") or {}), flip.get("departs", ""),
        )  # fmt: skip


def named_as_base(rows: pd.DataFrame, flip: Flip) -> pd.DataFrame:
    """Return rows of a flip with the names of the datasets and reducers that they replace."""
    return rows.assign(
        dataset=rows["dataset"].replace(dict(flip.datasets)), reducer=rows["reducer"].replace(dict(flip.reducers))
    )


def rows_of_methods(rows: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of datasets and reducers that other rows have, too."""
    return rows.merge(theirs[["dataset", "reducer"]].drop_duplicates(), on=["dataset", "reducer"])


def flipped(results: Results, flip: Flip) -> tuple[Results, Results]:
    """Return the trials that base and flip share, under the papers' choice and under the other.

    The first result holds the base's rows on the flip's datasets, r and repetitions (all rows of a reducer with a
    single r). The second replaces the base's rows of the flipped reducers by the flip's, under the base's names.

    Raises
    ------
    NotRunError
        If either has no rows.
    """
    other = results.rows(flip.study, mixed=True)  # verdicts on either side refuse mixed settings
    other = named_as_base(other, flip)
    base = results.rows(flip.base, datasets=sorted(set(other["dataset"])), mixed=True)
    single = base.groupby(["dataset", "reducer"])["r"].transform("nunique") == 1
    base = base[(base["r"].isin(set(other["r"])) | single) & (base["repeat"] <= other["repeat"].max())]
    if base.empty:
        raise NotRunError(f"{flip.study} shares no trial with {', '.join(flip.base)}")
    names = base.groupby("dataset")["study"].first()
    other = other.assign(study=other["dataset"].map(names))
    changed = set(zip(other["dataset"], other["reducer"], strict=True))
    kept = base[rows_where(base, ("dataset", "reducer"), lambda *pair: pair not in changed)]
    # Keep rows of other studies for claims that read several.
    touched = (*flip.base, flip.study)
    return results.replaced(base, touched), results.replaced(pd.concat([kept, other]), touched)


@dataclass(frozen=True)
class Change:
    """The effect of flipping one choice.

    Attributes
    ----------
    objective, accuracy : Component or None
        Mean of F_flipped/F − 1 and of P_flipped − P over the flipped trials, one value per repetition, tested for
        equality with zero; None without rows.
    diagnoses : mapping of str to Diagnosis
        By claim.
    reason : str
        Why there are no rows, if there are none.
    """

    flip: Flip
    objective: Component | None
    accuracy: Component | None
    diagnoses: Mapping[str, Diagnosis]
    reason: str = ""


def _mean_change(before: Results, after: Results, flip: Flip, quantity: str) -> Component | None:
    """Return the mean change of F (relative) or P over the flipped methods, one value per repetition."""
    old, new = (side.wide(flip.base, quantity) for side in (before, after))
    methods = [name for name in new.columns if name in old.columns]
    # A method with a single r in the base and several in the flip is paired at the r of the flip.
    old = old[methods]
    if not old.index.equals(new.index):
        old = old.reindex(new.index)
        for dataset in new.index.get_level_values("dataset").unique():
            fill = old.xs(dataset, level="dataset").groupby(REPETITION).mean()
            part = old.loc[[dataset]]
            lines = fill.reindex(part.reset_index(["dataset", "r"]).index).set_axis(part.index)
            old.loc[[dataset]] = part.fillna(lines)
    change = new[methods] / old - 1 if quantity == "objective" else new[methods] - old
    change = change.loc[:, (change != 0).any()]
    by_repeat = change.mean(axis=1).groupby(REPETITION).mean().dropna()
    if by_repeat.empty:
        return equal(_UNCHANGED, np.zeros(2), F_MARGIN, "")
    label, margin, unit = (
        ("relative change of F", F_MARGIN, "F") if quantity == "objective" else ("change of P", P_MARGIN, "P")
    )
    return equal(label, by_repeat.to_numpy(), margin, unit)


def _changed(results: Results, flip: Flip) -> Change:
    before, after = flipped(results, flip)
    diagnoses = {}
    for claim in claims():
        if claim.id in flip.claims:
            sides, title = [before, after], flip.title
            if flip.entry == SPEED:  # a ratio of times of two implementations would compare these, not the methods
                theirs = named_as_base(results.rows(flip.study, mixed=True), flip)
                touched = (*claim.studies, *flip.base, flip.study)
                alone = (rows_of_methods(side.rows(flip.base, mixed=True), theirs) for side in sides)
                sides = [results.replaced(rows, touched) for rows in alone]
            was, now = (uncorrected(claim, side) for side in sides)
            if flip.entry == SPEED and (missing := len(uncorrected(claim, before).components) - len(now.components)):
                title += f" ({counted(missing, 'statement')} not measured there)"
            decides = now.weakest
            alike = next((part for part in was.components if decides and part.label == decides.label), None)
            diagnoses[claim.id] = Diagnosis(
                flip.study, title, was.outcome, now.outcome, now.sentence, flip.departs, (alike, decides)
            )
    return Change(
        flip,
        _mean_change(before, after, flip, "objective"),
        _mean_change(before, after, flip, "accuracy"),
        diagnoses,
    )


def change(results: Results, flip: Flip) -> Change:
    """Return the effect of flipping one choice on F, P and the claims that the flip names."""
    try:
        return attempt(lambda rows: _changed(rows, flip), results)
    except NotRunError as reason:
        return Change(flip, None, None, {}, str(reason))


def open_points(chosen: Sequence[Paper] | None = None) -> list[OpenPoint]:
    """Return the choices that some papers, or all, leave open, merging points that several papers share."""
    by_id: dict[str, list[OpenPoint]] = {}
    for paper in papers() if chosen is None else chosen:
        for point in paper.points:
            answer = paper.answers.get(point.id)
            by_id.setdefault(point.id, []).append(replace(point, answers={paper.name: answer} if answer else {}))
    return [
        OpenPoint(
            id_,
            points[0].question,
            tuple(name for point in points for name in point.papers),
            "; ".join(dict.fromkeys(point.chosen for point in points)),
            "; ".join(dict.fromkeys(point.other for point in points)),
            {name: answer for point in points for name, answer in point.answers.items()},
        )
        for id_, points in by_id.items()
    ]


def answered(point: OpenPoint, results: Results) -> str:
    """Return the answers of the papers' functions to an open point, and the reasons for missing ones.

    An answer is about the data of its own paper, which is named if several papers leave the point open.
    """
    sentences = []
    for name, answer in point.answers.items():
        try:
            sentence = attempt(answer, results)
        except NotRunError as reason:
            sentence = f"Not run: {reason}."
        sentences.append(f"{name}: {sentence}" if len(point.papers) > 1 else sentence)
    return typeset(" ".join(sentences))


def describe(component: Component | None) -> str:
    """Return effect and interval as the text of a table cell."""
    if component is None:
        return "not run"
    if component.label == _UNCHANGED:
        return "unchanged"
    shown = "{:+z.1%}" if component.unit == "F" else "{:+z.3f}"
    low, high = shown.format(component.low), shown.format(component.high)
    return typeset(f"{shown.format(component.effect)} [{low}, {high}]")


def flips(studies: Sequence[Mapping[str, Any]]) -> list[Flip]:
    """Return the flips among some studies, in their order."""
    return [flip for study in studies if (flip := Flip.from_study(study)) is not None]
