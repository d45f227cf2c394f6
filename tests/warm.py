"""What every command would read, compose and load first, done once in the server that forks commands and workers.

Only what depends on this package alone is kept: the syntax trees and normal forms of its modules, compiled kernels that
were loaded, what Hydra knows of its plugins, and times of committed rows. Whatever depends on variables, files or
installed packages is looked up again by each command. Run the module to see what a command takes with and without it.
"""

import sys
import tempfile

from kmdr import reducers
from kmdr.base.identity import modules, reach
from kmdr.base.threads import pinned
from kmdr.cli.jobs import from_command_line
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import entry_points
from kmdr.datasets import validation
from kmdr.datasets.sources import loaders
from kmdr.harness.compiled import is_compiled
from kmdr.harness.plan import reference_means
from kmdr.harness.task import warm_up


def warm() -> None:
    """Fill the caches."""
    points = {point for name in reducers.names() for point in entry_points(name, "synth")}
    reach(*sorted(points), loaders.__name__, validation.__name__)
    for cached in (modules.is_source, modules.distribution, modules.distributions, modules.imported_names):
        cached.cache_clear()
    reference_means()
    if is_compiled():
        with pinned(1):  # threads do not outlive a fork
            for name in ("none", "random_sign", "svd", "leverage"):
                warm_up(name, "{}", Protocol(1, 2), False, False, "float64", True)
        warm_up.cache_clear()
    arguments, sys.argv = sys.argv, ["kmdr", f"out={tempfile.gettempdir()}/none"]
    try:
        from_command_line()
    finally:
        sys.argv = arguments


warm()
