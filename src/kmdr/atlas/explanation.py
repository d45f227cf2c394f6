"""Which traits of data explain which family of methods loses least: a small regression, judged on held-out data.

The target is the loss of a family (the median over its methods) minus that of random projections, on each form of each
dataset. It is predicted from all traits by ridge regression, and from each trait or the domain alone by least squares.
Each source of data is held out in turn; the error is the mean absolute error on these, with equal weight for each
source, and is compared with that of the mean of the other sources. A last target asks for a choice: the regret of the
family with the least predicted loss, compared with always choosing the one with the least mean loss.

The intervals of the gain are from a bootstrap over sources, with predictions as they are. Many traits are tried, so the
p-values are Holm-adjusted over the whole table, and only then does a trait count as an explanation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kmdr.analysis.significance import LEVEL, holm
from kmdr.atlas.design import design
from kmdr.atlas.effects import DATA, source_names
from kmdr.atlas.ranking import Condition, chosen_lines
from kmdr.base.text import format_number, typeset

Floats = NDArray[np.float64]
Names = NDArray[Any]

# Families of methods, by the beginnings of their reducers' names; the longest that matches counts.
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("random_sign", "gaussian", "achlioptas", "fjlt", "srht", "sparse_embedding", "osnap"),
                    "random projections"),
    **dict.fromkeys(("svd", "approx_svd", "left_singular_vectors", "pca"), "singular vectors"),
    **dict.fromkeys(("leverage", "ridge_leverage"), "sampled features"),
    **dict.fromkeys(("top_leverage", "variance", "laplacian_score"), "selected features"),
}  # fmt: skip
BASE = "random projections"
ALL_TRAITS, CHOICE = "all traits", "choice of a family"
COLUMNS = ["target", "traits", "sources", "error", "error_mean", "gain", "low", "high", "p", "explains"]
_AT = Condition(multiple=20.0)  # where losses are compared
_FEWEST_SOURCES = 8
_SAMPLES, _SEED = 10_000, 0
_SPREAD = 20.0  # traits that vary by more than this factor enter by their logarithm


def family_of(method: str) -> str:
    """Return the family of a method of the atlas, or of a reducer; empty for those that belong to none.

    Examples
    --------
    >>> family_of("leverage, not rescaled"), family_of("PCA, whitened"), family_of("LLE")
    ('sampled features', 'singular vectors', '')
    """
    known = design().methods.get(method)
    name = (known.settings.get("path", known.reducer) if known else method).rpartition(".")[2].lower()
    matching = [beginning for beginning in FAMILIES if name.startswith(beginning)]
    return FAMILIES[max(matching, key=len)] if matching else ""


def family_losses(effects: pd.DataFrame) -> pd.DataFrame:
    """Return the loss of each family at r = 20 k, the median over its methods, on each (dataset, form) that has all."""
    lines = chosen_lines(effects, _AT)
    lines = lines.assign(family=lines["method"].map({name: family_of(name) for name in lines["method"].unique()}))
    lines = lines[(lines["family"] != "") & np.isfinite(lines["loss"].astype(float))]
    losses: pd.DataFrame = lines.pivot_table(index=DATA, columns="family", values="loss", aggfunc="median").dropna()
    return losses


def explain(effects: pd.DataFrame, traits: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy with which traits predict the losses of families on held-out data.

    Parameters
    ----------
    effects : DataFrame
        From `kmdr.atlas.effects.effects`.
    traits : DataFrame
        Columns ``dataset``, ``form`` and numbers; the domain is that of the effects.

    Returns
    -------
    DataFrame
        One line per target and set of traits: ``error``, ``error_mean`` (without traits), ``gain`` = 1 − their ratio,
        its 95 % interval over sources, the adjusted ``p`` of no gain, and ``explains``. Empty with fewer than 8 sources
        or one family.
    """
    losses = family_losses(effects)
    table = traits.drop_duplicates(DATA).set_index(DATA)
    numbers = table.select_dtypes("number").astype(float)
    numbers = numbers.reindex(losses.index).dropna(axis=1, how="all").dropna()
    losses = losses.loc[numbers.index]
    sources: Names = source_names(losses.index.get_level_values("dataset").to_series()).to_numpy()
    if BASE not in losses or losses.shape[1] < 2 or len(set(sources)) < _FEWEST_SOURCES:
        return pd.DataFrame(columns=COLUMNS)
    domains = effects.drop_duplicates(DATA).set_index(DATA)["domain"].reindex(losses.index)
    predictors = {str(name): _scaled(numbers[name])[:, None] for name in numbers if numbers[name].nunique() > 1}
    dummies = pd.get_dummies(domains, dtype=float).to_numpy()
    if domains.nunique() > 1:
        predictors["domain"] = dummies
    every = np.hstack(list(predictors.values()))
    lines = []
    for family in (name for name in losses if name != BASE):
        target = (losses[family] - losses[BASE]).to_numpy(dtype=float)
        mean = _errors(target, _least_squares(every[:, :0], target, sources), sources)
        for name, X in {ALL_TRAITS: every, **predictors}.items():
            errors = _errors(target, (_ridge if name == ALL_TRAITS else _least_squares)(X, target, sources), sources)
            lines.append({"target": f"{family} − {BASE}", "traits": name, **_compared(errors, mean)})
    lines.append({"target": CHOICE, "traits": ALL_TRAITS, **_choice(losses, every, sources)})
    frame = pd.DataFrame(lines)
    frame["p"] = holm(frame["p"].tolist())
    return frame.assign(explains=frame["p"] <= LEVEL)[COLUMNS]


def _scaled(values: "pd.Series[float]") -> Floats:
    """Return a trait, or its logarithm if it spans orders of magnitude."""
    x = values.to_numpy(dtype=float)
    return np.asarray(np.log(x) if x.min() > 0 and x.max() / x.min() > _SPREAD else x)


def _least_squares(X: Floats, y: Floats, sources: Names) -> Floats:
    """Return, for each line, the prediction by least squares on the lines of other sources: without X, their mean."""
    predicted = np.empty(len(y))
    with_constant = np.column_stack([np.ones(len(y)), X])
    for source in np.unique(sources):
        held_out = sources == source
        predicted[held_out] = with_constant[held_out] @ np.linalg.lstsq(with_constant[~held_out], y[~held_out])[0]
    return predicted


def _ridge(X: Floats, y: Floats, sources: Names) -> Floats:
    """Return, for each line, the prediction by ridge regression on the lines of other sources."""
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
    return np.asarray(cross_val_predict(model, X, y, groups=sources, cv=LeaveOneGroupOut()), dtype=float)


def _errors(y: Floats, predicted: Floats, sources: Names) -> Floats:
    means = pd.Series(abs(y - predicted)).groupby(pd.Series(sources)).mean()
    return np.asarray(means, dtype=np.float64)


def _compared(errors: Floats, mean: Floats) -> dict[str, float]:
    """Return two mean errors, the gain of the first, its bootstrap interval, and the probability of no gain."""
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(len(errors), size=(_SAMPLES, len(errors)))
    ours, theirs = errors[drawn].mean(axis=1), mean[drawn].mean(axis=1)
    gains = np.divide(theirs - ours, theirs, out=np.zeros(_SAMPLES), where=theirs > 0)
    low, high = np.quantile(gains, [LEVEL / 2, 1 - LEVEL / 2])
    average = float(mean.mean())
    return {
        "sources": len(errors), "error": float(errors.mean()), "error_mean": average,
        "gain": 1 - float(errors.mean()) / average if average > 0 else 0.0,
        "low": float(low), "high": float(high), "p": (1 + np.count_nonzero(gains <= 0)) / (_SAMPLES + 1),
    }  # fmt: skip


def _choice(losses: pd.DataFrame, X: Floats, sources: Names) -> dict[str, float]:
    """Return the regret of the family with the least predicted loss, and of the one with the least mean loss."""
    y = losses.to_numpy(dtype=float)
    columns = range(y.shape[1])
    best, lines = y.min(axis=1), np.arange(len(y))
    regrets = []
    for predict, traits in ((_ridge, X), (_least_squares, X[:, :0])):
        predicted = np.stack([predict(traits, y[:, i], sources) for i in columns], axis=1)
        regrets.append(_errors(y[lines, predicted.argmin(axis=1)], best, sources))
    return _compared(*regrets)


def sentence_of(explained: pd.DataFrame) -> str:
    """Return in words what the traits explain, or that they explain nothing."""
    if explained.empty:
        return "There are too few sources of data to ask which traits explain the losses."
    choice = explained[explained["target"] == CHOICE].iloc[0]
    first = (
        f"On {int(choice['sources'])} sources of data, each held out in turn, choosing a family of methods by the "
        f"traits of the data loses {_share(choice['error'])} of F against the best family, and always choosing the "
        f"family that is best on average {_share(choice['error_mean'])}."
    )
    single = explained[explained["target"] != CHOICE].sort_values(["p", "gain"], ascending=[True, False], kind="stable")
    significant = single[single["explains"]]
    shown = significant if len(significant) else single.head(1)
    named = "; ".join(
        f"{line['traits']} for {line['target']} ({_gain(line)} less error, adjusted p = {line['p']:.2g})"
        for _, line in shown.iterrows()
    )
    better = f"the difference between two families better than its mean does ({len(explained)} tests, Holm-adjusted)"
    if len(significant):
        return f"{first} These predict {better}: {named}."
    return f"{first} No trait is shown to predict {better}; the closest is {named}."


def summary_of(explained: pd.DataFrame) -> pd.DataFrame:
    """Return the lines that a page shows: for each target all traits together and the best single one."""
    single = explained[explained["traits"] != ALL_TRAITS].sort_values(["p", "gain"], ascending=[True, False])
    both = pd.concat([explained[explained["traits"] == ALL_TRAITS], single.drop_duplicates("target")])
    order = {target: number for number, target in enumerate(explained["target"].unique())}
    both = both.sort_values("target", key=lambda targets: targets.map(order), kind="stable")
    return pd.DataFrame(
        {
            "predicted": both["target"],
            "from": both["traits"],
            "sources": both["sources"],
            "mean error": both["error"].map(_share),
            "of the mean": both["error_mean"].map(_share),
            "less error [95 % interval]": [_gain(line) for _, line in both.iterrows()],
            "adjusted p": both["p"],
        }
    ).reset_index(drop=True)


def _share(value: float) -> str:
    return f"{format_number(100 * value, '.2g')} %"


def _gain(line: "pd.Series[Any]") -> str:
    """Return the share by which an error is smaller than that of the mean, with its interval."""
    gain, low, high = (typeset(format_number(100 * line[name], ".0f")) for name in ("gain", "low", "high"))
    return f"{gain} % [{low}, {high}]"
