"""The register of what the papers leave open: what we chose, and what choosing otherwise does to F, P and the verdicts.

An entry is an `OpenPoint`. Most are answered by studies that flip the choice; such a study (``study.flip`` in its
YAML) names the entry, the base studies whose trials it repeats under the other choice, and the claims that may depend
on it. Seeds are addressed by name, so that a flipped trial pairs with the trial of the same dataset, reducer, r and
repetition. The others are answered by a function.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kmdr.report.statistics import Component, equal
from kmdr.studies.catalogue import claims
from kmdr.studies.results import NotRunError, Results, attempt
from kmdr.studies.verdicts import Diagnosis, uncorrected

# Changes up to these count as none, in F relatively and in P absolutely.
F_MARGIN, P_MARGIN = 0.01, 0.02
_UNCHANGED = "no trial changed"


@dataclass(frozen=True)
class Flip:
    """A study that flips one choice of other studies.

    Attributes
    ----------
    study, title : str
        Its name and what it does, in words.
    entry : str
        The open point it answers, or the diagnosis it serves.
    base : tuple of str
        The studies whose trials it repeats.
    claims : tuple of str
        Ids of the claims that may depend on the choice.
    datasets, reducers : mapping
        Which dataset or reducer of the base one of another name stands for.
    """

    study: str
    title: str
    entry: str
    base: tuple[str, ...]
    claims: tuple[str, ...]
    datasets: Mapping[str, str] = field(default_factory=dict)
    reducers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_study(cls, study: Mapping[str, Any]) -> "Flip | None":
        """Read the ``study`` tree of a configuration; None for a study that flips nothing."""
        flip = study.get("flip")
        if not flip:
            return None
        return cls(
            study["name"], study["title"], flip["entry"], tuple(flip["base"]), tuple(flip["claims"]),
            dict(flip.get("datasets") or {}), dict(flip.get("reducers") or {}),
        )  # fmt: skip


def flipped(results: Results, flip: Flip) -> tuple[Results, Results]:
    """Return the trials that base and flip share, under the papers' choice and under the other.

    The first holds the base's rows on the flip's datasets, r and repetitions (a reducer with a single r is kept
    whatever its r); the second is the same with the rows of the flipped reducers in place of the base's, under the
    base's names.

    Raises
    ------
    NotRunError
        When either has no rows.
    """
    other = results.rows(flip.study)
    other = other.assign(
        dataset=other["dataset"].replace(dict(flip.datasets)), reducer=other["reducer"].replace(dict(flip.reducers))
    )
    base = results.rows(flip.base, datasets=sorted(set(other["dataset"])))
    single = base.groupby(["dataset", "reducer"])["r"].transform("nunique") == 1
    base = base[(base["r"].isin(set(other["r"])) | single) & (base["repeat"] <= other["repeat"].max())]
    if base.empty:
        raise NotRunError(f"{flip.study} shares no trial with {', '.join(flip.base)}")
    names = base.groupby("dataset")["study"].first()
    other = other.assign(study=other["dataset"].map(names))
    changed = set(zip(other["dataset"], other["reducer"], strict=True))
    kept = base[[key not in changed for key in zip(base["dataset"], base["reducer"], strict=True)]]
    # Rows of studies that the flip does not touch stay for claims that read several.
    rest = results.all_rows[~results.all_rows["study"].isin([*flip.base, flip.study])]
    before = pd.concat([base, rest])
    after = pd.concat([kept, other, rest], ignore_index=True)
    return results.replaced(before), results.replaced(after)


@dataclass(frozen=True)
class Change:
    """What flipping one choice does.

    Attributes
    ----------
    flip : Flip
    objective, accuracy : Component or None
        Mean of F_flipped/F − 1 and of P_flipped − P over the flipped trials, a value a repetition, tested for
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
    """Return the mean change of F (relative) or P over the flipped methods, a value a repetition."""
    old, new = (side.wide(flip.base, quantity) for side in (before, after))
    methods = [name for name in new.columns if name in old.columns]
    # A method whose C has one width in the base and several in the flip pairs by the r of the flip.
    old = old[methods]
    if set(old.index) != set(new.index):
        old = old.reindex(new.index)
        for dataset in new.index.get_level_values("dataset").unique():
            fill = old.xs(dataset, level="dataset").groupby("repeat").mean()
            part = old.loc[[dataset]]
            lines = fill.reindex(part.index.get_level_values("repeat")).set_axis(part.index)
            old.loc[[dataset]] = part.fillna(lines)
    change = new[methods] / old - 1 if quantity == "objective" else new[methods] - old
    change = change.loc[:, (change != 0).any()]
    by_repeat = change.mean(axis=1).groupby("repeat").mean().dropna()
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
            was, _, _ = uncorrected(claim, before)
            now, _, sentence = uncorrected(claim, after)
            diagnoses[claim.id] = Diagnosis(flip.study, flip.title, was, now, sentence)
    return Change(
        flip,
        _mean_change(before, after, flip, "objective"),
        _mean_change(before, after, flip, "accuracy"),
        diagnoses,
    )


def change(results: Results, flip: Flip) -> Change:
    """Return what flipping one choice does to F, P and the claims that the flip names."""
    try:
        return attempt(lambda rows: _changed(rows, flip), results)
    except NotRunError as reason:
        return Change(flip, None, None, {}, str(reason))


@dataclass(frozen=True)
class OpenPoint:
    """A choice that the papers leave open.

    Attributes
    ----------
    id : str
        The ``entry`` of the studies that flip it.
    question : str
    papers : str
        Which papers leave it open.
    chosen : str
        What we chose, and why.
    other : str
        What else it could be.
    answer : callable, optional
        For a point that no study flips: from `Results` to a sentence.
    """

    id: str
    question: str
    papers: str
    chosen: str
    other: str
    answer: Callable[[Results], str] | None = None


def _lst17_repetitions(results: Results) -> str:
    """How far one run is from the mean of many."""
    table = results.wide("lst17_coil20", "accuracy").drop(columns="none", errors="ignore")
    spread = float(table.groupby(["dataset", "r"]).std().mean().mean())
    difference = (table["sparse_embedding"] - table["random_sign"]).dropna()
    mean = difference.groupby(["dataset", "r"]).transform("mean")
    return (
        f"On COIL20 P of a single run has a standard deviation of {spread:.3f}; comparing SE with RP in a single run "
        f"puts them in the other order than their means in {(difference * mean < 0).mean():.0%} of the trials."
    )


def _drawing_counted(results: Results) -> str:
    """Share of drawing R in the reduction by random signs."""
    times = results.fact("lf20_sign_times")
    draw = (times["draw_seconds"] / (times["draw_seconds"] + times["apply_seconds"])).groupby(times["r"]).median()
    return (
        f"Drawing R is {draw.min():.0%} to {draw.max():.0%} of the reduction by random signs on ORL "
        f"(r = {draw.index.min()} to {draw.index.max()}); leaving it out changes no F and no P."
    )


def _iterations(results: Results) -> str:
    rows = results.rows("lf20_orl")
    return (
        f"The longest of {len(rows)} runs took {int(rows['n_iter'].max())} iterations, so any limit of at least that "
        "gives the same partitions."
    )


def _r_of_fig10(results: Results) -> str:
    rows = results.rows("lf20_nips_runs", reducers=["leverage", "leverage_sqrt"])
    good = (rows["accuracy"] >= 0.5).groupby([rows["reducer"], rows["r"]]).mean()
    parts = [
        f"r = {r}: {good['leverage', r]:.0%} squared, {good['leverage_sqrt', r]:.0%} unsquared"
        for r in sorted(set(rows["r"]))
    ]
    return "Share of runs with P ≥ 0.5 at " + "; ".join(parts) + "."


OPEN_POINTS: Sequence[OpenPoint] = (
    OpenPoint(
        "starts", "Which initial centres does k-means take?", "all",
        "rows drawn uniformly (MATLAB's 'sample', its default at the time of bmd09 and bzmd15); for lf20 on ORL the "
        "first image of each person, as the report says",
        "k-means++, MATLAB's default since 2014; for lf20 sampled rows",
    ),
    OpenPoint(
        "centred", "Are singular vectors those of A or of the column-centred A?", "bmd09, bzmd15, lf20",
        "of A, as the algorithms are written", "centred, as a principal component analysis does (lf20's code)",
    ),
    OpenPoint(
        "rank", "What do SVD and ApprSVD mean against r?", "bzmd15",
        "A·V_k with k columns whatever r, so that the curve is flat: the text says 'exactly the top k'",
        "the top r singular vectors",
    ),
    OpenPoint(
        "coil20_size", "At which resolution is COIL20 taken?", "lst17 (bzmd15 says 32×32)", "32×32",
        "128×128, the originals",
    ),
    OpenPoint(
        "pixels", "On what scale are the pixels of ORL and PIE?", "bzmd15, lf20",
        "as in the files, 0 to 255; dividing all by one number changes no F, P or score",
        "each image scaled to Euclidean length one",
    ),
    OpenPoint(
        "width", "From which points does the Laplacian score take its kernel width for n > 3000?", "bzmd15, lst17",
        "3000 drawn at random, as the MATLAB code does", "all points",
    ),
    OpenPoint(
        "drawing", "Is the time of generating R counted?", "bzmd15, lst17, lf20", "yes",
        "no, as in lf20's code", _drawing_counted,
    ),
    OpenPoint(
        "merged", "Does r count draws, or distinct columns?", "bmd09, bzmd15, lf20",
        "draws, as Algorithm 1 is written: a column drawn twice is taken twice", "distinct columns: repeats merged",
    ),
    OpenPoint(
        "rescaled", "Are the sampled columns rescaled by 1/√(r p_i) before k-means?", "bmd09, lf20",
        "yes, as the algorithm is written", "no: the columns as they are",
    ),
    OpenPoint(
        "repetitions", "How often was each experiment of lst17 repeated?", "lst17",
        "30 times on COIL20, 2 to 5 on the text collections; means and intervals", "once", _lst17_repetitions,
    ),
    OpenPoint(
        "text_variant", "Which variants of SECTOR and RCV1?", "lst17",
        "SECTOR with its test part, RCV1 without; where neither can be had a generated stand-in of the same shape",
        "SECTOR's training part alone",
    ),
    OpenPoint(
        "fjlt_density", "What is the density q of FJLT's sparse matrix?", "lf20",
        "q = min(1, 2 ln²(n)/d), which is 0.018 on ORL at 64×64", "0.07, which the text names",
    ),
    OpenPoint(
        "iterations", "How many iterations may lf20's k-means on ORL take?", "lf20", "500", "any other limit",
        _iterations,
    ),
    OpenPoint(
        "r_of_fig10", "At which r were the 100 runs of lf20's Figure 10 made?", "lf20",
        "30, the r of its Figure 6", "15 or 60", _r_of_fig10,
    ),
)  # fmt: skip


def describe(component: Component | None) -> str:
    """Return effect and interval in words of one table cell."""
    if component is None:
        return "not run"
    if component.label == _UNCHANGED:
        return "unchanged"
    shown = "{:+.1%}" if component.unit == "F" else "{:+.3f}"
    low, high = shown.format(component.low), shown.format(component.high)
    return f"{shown.format(component.effect)} [{low}, {high}]".replace("-", "−")


def flips(studies: Sequence[Mapping[str, Any]]) -> list[Flip]:
    """Return the flips among some studies, in their order."""
    return [flip for study in studies if (flip := Flip.from_study(study)) is not None]
