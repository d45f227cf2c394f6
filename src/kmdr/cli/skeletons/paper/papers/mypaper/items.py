"""mypaper's Figure 1."""

from kmdr.analysis.results import Results
from kmdr.claims.catalogue import figure
from kmdr.figures.canvas import Drawing
from kmdr.figures.panels import paper_grid

STUDY = "mypaper_fig1"


@figure("mypaper_fig1", "Objective and accuracy of random signs on Synth", studies=[STUDY])
def figure1(results: Results) -> Drawing:
    """Draw F and P against r, one panel each, as means with 95 % confidence intervals, and k-means on all features."""
    return paper_grid(results.rows(STUDY), ["synth"], ("objective", "accuracy"))


ITEMS = (figure1,)
