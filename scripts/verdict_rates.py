"""Simulate the error rates and the power of every procedure that decides a claim.

``python scripts/verdict_rates.py [RUNS]`` prints one line per procedure. Rows are simulated from a truth at the
boundary of the null hypothesis: *for, though false* and *against, though true* are the rates of these verdicts, which
should be at most the level of 5 % (in RUNS = 1000 simulations up to 6.9 % by chance, once in 200 lines). This holds
except for t tests of five skewed values, whose sample skewness is too small to correct for fully (up to 8 %;
Student's test has 16 %). *Power* is the rate of the right verdict at a stated effect, of the size found in the
papers. A second table has the rates of the grades of claims with side statements, and how often any of a paper's nine
claims gets a wrong one: above the true one, or not supported though its central statements are true.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from kmdr.analysis.significance import LEVEL, directional
from kmdr.analysis.statistics import Component, above, below, conjunction, equal, median_below, several, share
from kmdr.base.seeding import generator
from kmdr.claims.catalogue import Claim, Finding
from kmdr.claims.draws import judge_best, judge_run, judge_share, judge_together
from kmdr.claims.effects import OUTCOMES, Outcome, decided
from kmdr.claims.reported import Number
from kmdr.claims.verdicts import grade, grouped
from kmdr.linalg import Dense

# From a generator and a truth to the p-values for and against.
Simulated = Callable[[np.random.Generator, float], tuple[float, float]]
REPEATS = 30
FEW = 5  # as the studies of other choices have
TIMED = 12  # timed repetitions of most studies
EDGE = float(stats.norm.isf(LEVEL / 2))  # where a normal number is at the end of the central 95 %
OWN = float("nan")  # a number that is a draw of the law itself


class Procedure(NamedTuple):
    """A procedure, and three truths: just false, just true, and an effect as large as in the papers."""

    name: str
    simulated: Simulated
    just_false: float
    just_true: float
    effect: float
    verdict: str = "supported"


def p(component: Component) -> tuple[float, float]:
    """Return both p-values."""
    return component.p_for, component.p_against


def normal(rng: np.random.Generator, mean: float, n: int = REPEATS) -> Dense:
    """Return normal values about a mean."""
    return np.asarray(rng.normal(mean, 1.0, n))


# Laws of mean 0 and variance 1, from a generator and a number of values.
LAWS: Mapping[str, Callable[[np.random.Generator, int], Dense]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewness 1": lambda rng, n: rng.gamma(4.0, 0.5, n) - 2,
    "skewness 2": lambda rng, n: rng.exponential(size=n) - 1,
    "heavy tails": lambda rng, n: rng.standard_t(5, n) / np.sqrt(5 / 3),
}


def reported(value: float) -> Number:
    """Return an F that a paper reports."""
    return Number("", "", "", float("nan"), "objective", value, 0.0)


def simulate_means(
    law: str,
    n: int,
    test: Callable[[str, Dense, float], Component],
    bound: float,
    rng: np.random.Generator,
    mean: float,
) -> tuple[float, float]:
    """Test a mean of n values against a bound."""
    return p(test("", LAWS[law](rng, n) + mean, bound))


def ratio_of_times(rng: np.random.Generator, ratio: float) -> tuple[float, float]:
    """Test the median of ratios of times that scatter by a fifth."""
    return p(median_below("", ratio * np.exp(rng.normal(0, 0.2, TIMED)), 1.0))


def failures(rng: np.random.Generator, rate: float) -> tuple[float, float]:
    """Test whether less than 4 % of 150 trials fail."""
    return p(share("", int((rng.random(150) < rate).sum()), 150, 0.04, at_most=True))


def simulate_share(rng: np.random.Generator, rate: float) -> tuple[float, float]:
    """Judge 30 successes of 100 by 1000 trials of ours of some rate; with NaN, both are drawn at a rate of 0.3."""
    ours = 0.3 if np.isnan(rate) else rate
    theirs = rng.binomial(100, ours) / 100 if np.isnan(rate) else 0.3
    return p(judge_share("", reported(theirs), 100, int(rng.binomial(1000, ours)), 1000).component)


def three_of_five(rng: np.random.Generator, mean: float) -> tuple[float, float]:
    """Test whether three of five groups are below 0: two are, and three as near as can be, or three so and two not."""
    means = [-2.0, -2.0, mean, mean, mean] if mean >= 0 else [2.0, 2.0, mean, mean, mean]
    groups = {str(i): [below("", normal(rng, value))] for i, value in enumerate(means)}
    return p(several("", groups, 3))


def eight(rng: np.random.Generator, mean: float) -> tuple[float, float]:
    """Test eight statements that are all to hold, where seven clearly do unless all are as near."""
    means = [mean, *[-2.0 if mean >= 0 else mean] * 7]
    return conjunction([below("", normal(rng, value)) for value in means])


def simulate_one_run(rng: np.random.Generator, value: float) -> tuple[float, float]:
    """Judge a number of one run by thirty of ours."""
    x = normal(rng, 0.0)
    return p(judge_run("", reported(float(rng.normal()) if np.isnan(value) else value), x).component)


def simulate_best_run(m: int, N: int, cells: int = 1) -> Simulated:
    """Judge numbers of the best of m, by N runs of ours: the first at a quantile of its law, the others its draws."""

    def simulated(rng: np.random.Generator, quantile: float) -> tuple[float, float]:
        draws = []
        for cell in range(cells):
            F = rng.normal(size=N)
            theirs = float(rng.normal(size=m).min())
            if quantile < 0:  # all of them, so many deviations of a run too low
                theirs += quantile
            elif cell == 0 and not np.isnan(quantile):
                theirs = float(stats.norm.ppf(-np.expm1(np.log1p(-quantile) / m)))
            draws.append(judge_best("", reported(theirs), F, F, m))
        return p(judge_together("", draws)) if cells > 1 else p(draws[0].component)

    return simulated


def procedures() -> Iterator[Procedure]:
    """Give every procedure."""
    for law in LAWS:
        for n in (FEW, 10, REPEATS):
            test = partial(simulate_means, law, n)
            yield Procedure(f"t test of {n}, above 0 ({law})", partial(test, above, 0.0), 0.0, 0.0, 1.0)
            yield Procedure(f"two t tests of {n}, within ±1 ({law})", partial(test, equal, 1.0), 1.0, 1.0, 0.0)
    yield Procedure(f"sign test of {TIMED} ratios of times, below 1", ratio_of_times, 1.0, 1.0, 0.5)
    yield Procedure("binomial, share of 150 below .04", failures, 0.04, 0.04, 0.0)
    edge = float(stats.beta.isf(LEVEL / 2, 31, 70))  # with which 30 or fewer of 100 have 2.5 %
    yield Procedure("a share of 100 runs, by 1000", simulate_share, edge, OWN, 0.3)
    yield Procedure("3 of 5 groups hold, t tests below 0", three_of_five, 0.0, -1e-9, -1.0)
    yield Procedure("all of 8 statements hold, t tests below 0", eight, 0.0, -1e-9, -1.0)
    yield Procedure("a number of one normal run, by 30", simulate_one_run, EDGE, OWN, 0.0)
    for N, m in ((1000, 30), (1000, 100), (10_000, 30)):
        yield Procedure(f"a number of the best of {m}, by {N}", simulate_best_run(m, N), LEVEL / 2, OWN, 0.5)
    for N in (1000, 10_000):
        yield Procedure(
            f"three bests of 30 together, by {N}", simulate_best_run(30, N, 3), LEVEL / 2, OWN, -2.0, "not supported"
        )


def papers(rng: np.random.Generator) -> tuple[bool, bool]:
    """Return whether any of nine claims, corrected together, is confirmed though false, and refuted though true."""
    means = np.array([-1e-9, 1e-9, -1e-9, 1e-9, -1e-9, -0.5, 0.5, -2.0, 2.0])
    adjusted = directional([p(above("", normal(rng, mean))) for mean in means])
    verdicts = [decided(*pair) for pair in adjusted]
    return (
        any(v == "supported" for v, mean in zip(verdicts, means, strict=True) if mean < 0),
        any(v == "not supported" for v, mean in zip(verdicts, means, strict=True) if mean > 0),
    )


# Claims of three central and two side statements, each of a mean below 0: (central, side).
TRUTHS: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "all just true": ((-1e-9, -1e-9, -1e-9), (-1e-9, -1e-9)),
    "one central statement just false": ((1e-9, -2.0, -2.0), (-2.0, -2.0)),
    "one side statement just false": ((-2.0, -2.0, -2.0), (1e-9, -2.0)),
    "all true": ((-2.0, -2.0, -2.0), (-2.0, -2.0)),
    "one side statement false": ((-2.0, -2.0, -2.0), (2.0, -2.0)),
    "one central statement false": ((2.0, -2.0, -2.0), (-2.0, -2.0)),
}


def grades(rng: np.random.Generator, truths: Sequence[str]) -> list[Outcome]:
    """Return the grades of claims of one paper, corrected together."""
    claim = Claim("simulated-1", "", "", (), (), (), lambda _: Finding((), ""), {"": "central"}, {"more": "side"})
    of_claims = []
    for truth in truths:
        parts = [
            below("", normal(rng, mean))._replace(part=part)
            for part, means in zip(("", "more"), TRUTHS[truth], strict=True)
            for mean in means
        ]
        of_claims.append((parts, {name: conjunction(group) for name, group in grouped(claim, parts).items()}))
    adjusted = iter(directional([pair for _, pairs in of_claims for pair in pairs.values()]))
    return [grade(claim, {name: decided(*next(adjusted)) for name in pairs}, parts) for parts, pairs in of_claims]


def grade_rates(runs: int) -> pd.DataFrame:
    """Return how often a claim of each kind gets each grade among nine like it, and how often any gets a wrong one."""
    wrong: Mapping[str, Sequence[Outcome]] = {
        "all just true": ("not supported",),
        "one central statement just false": ("supported", "mostly supported"),
        "one side statement just false": ("supported", "not supported"),
        "all true": ("not supported",),
        "one side statement false": ("supported", "not supported"),
        "one central statement false": ("supported", "mostly supported"),
    }
    lines: list[dict[str, object]] = []
    for truth in TRUTHS:
        rng = generator(0, "grades", truth)
        outcomes = [grades(rng, [truth] * 9) for _ in range(runs)]
        counts = {name: np.mean([of_run.count(name) / 9 for of_run in outcomes]) for name in OUTCOMES[:4]}
        any_wrong = np.mean([any(of_claim in wrong[truth] for of_claim in of_run) for of_run in outcomes])
        lines.append({"nine claims": truth} | counts | {"any wrong": any_wrong})
    return pd.DataFrame(lines)


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=1000)
    runs = parser.parse_args().runs

    def rate(procedure: Procedure, truth: float, verdict: str) -> float:
        rng = generator(0, procedure.name, verdict)
        return float(np.mean([decided(*procedure.simulated(rng, truth)) == verdict for _ in range(runs)]))

    lines = [
        {
            "procedure": procedure.name,
            "for, though false": rate(procedure, procedure.just_false, "supported"),
            "against, though true": rate(procedure, procedure.just_true, "not supported"),
            "power": rate(procedure, procedure.effect, procedure.verdict),
            "at": procedure.effect,
        }
        for procedure in procedures()
    ]
    rng = generator(0, "papers")
    wrong = np.mean([papers(rng) for _ in range(runs)], axis=0)
    lines.append({"procedure": "any of 9 claims", "for, though false": wrong[0], "against, though true": wrong[1]})
    print(f"{runs} simulations each")
    print(pd.DataFrame(lines).to_string(index=False, na_rep="", float_format="{:.3f}".format))
    print("\nGrades of claims of three central and two side statements, nine of a paper")
    print(grade_rates(runs).to_string(index=False, float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
