"""The claims of mypaper, each with its test."""

from kmdr.analysis.results import Results
from kmdr.analysis.statistics import Margin, below
from kmdr.claims.catalogue import Finding, claim
from kmdr.claims.effects import estimate, mean_by_repetition, paired, together

STUDY = "mypaper_fig1"
WITHIN = Margin(0.1, "negligible change of log F")  # our choice: the report shows the verdict for others


@claim("mypaper-1", "Random signs keep the objective of k-means on all features.", "§1", studies=[STUDY])
def objective_is_kept(results: Results) -> Finding:
    """F with random signs is at most a tenth above that with all features.

    Unit: a repetition, with the difference of log F averaged over r; t test against log 1.1, a bound of our choice.
    """
    F = together(results.wide(STUDY, "objective", datasets=["synth"]).droplevel("dataset"), "random_sign", "none")
    change = below(
        "log of F with random signs over F",
        mean_by_repetition(paired(F, "random_sign", "none", logs=True)),
        WITHIN,
        "log F",
    )
    return Finding([change], f"On Synth the logarithm of F changes by {estimate(change, '+.3f')}.")


CLAIMS = (objective_is_kept,)
