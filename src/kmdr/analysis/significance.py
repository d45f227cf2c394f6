"""The significance level of every test, and its adjustment for several tests."""

from collections.abc import Sequence

LEVEL = 0.05


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values, which control the family-wise error rate under any dependence.

    Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = largest
    return adjusted


def directional(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return p-values for and against several claims: the smaller of each pair Holm-adjusted, the other 1.

    Either a claim or its negation is true, so each claim can be decided wrongly in one direction only: with m claims
    there are m possible errors, and the probability of any is at most α. For the first step, Bonferroni's, this holds
    under any dependence; for the others, if the claims are independent (Shaffer, Annals of Statistics 8, 1980).
    """
    adjusted = holm([min(pair) for pair in pairs])
    return [(p, 1.0) if p_for <= p_against else (1.0, p) for p, (p_for, p_against) in zip(adjusted, pairs, strict=True)]


def final_level(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the level at which `directional` has tested each of some pairs in the end.

    Holm's procedure rejects the pairs whose smaller p-value is at most `LEVEL` divided by the number of pairs that it
    does not reject (by 1 if it rejects all).
    """
    rejected = sum(min(pair) <= LEVEL for pair in directional(pairs))
    return LEVEL / max(1, len(pairs) - rejected)
