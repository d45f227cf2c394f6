"""Count the combinations that tests/project/test_metamorphic.py gets wrong: ``battery.py [EXAMPLES] [--seed SEED]``.

All properties are run to the end, whatever fails. A combination is a property with a form, its packing, container, type
and layout, and a reducer with its parameters; of points that are moved, a property with the type and a reducer. What is
wrong is printed with the combination.
"""

import argparse
import importlib
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis

hypothesis.settings.register_profile("battery", deadline=None)  # an example runs whole commands
hypothesis.settings.load_profile("battery")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", nargs="?", type=int, default=200, help="the unit of examples of a property (200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=0, help="stop after so long and count what was tried (no limit)")
    return parser.parse_args()


def _run(battery: Any, seed: int) -> None:
    """Run every property; a wrong combination is noted and does not end it."""
    import numpy as np

    for name, test in vars(battery).items():
        if hasattr(test, "hypothesis"):
            hypothesis.seed(seed)(test)()
            print(f"{name}: {len(battery.ACCOUNT.tried)} combinations so far", flush=True)
    for number, reducer in enumerate(battery.EXCHANGEABLE):
        battery.test_random_reducers_do_not_depend_on_the_order_of_features(
            reducer, np.random.default_rng([seed, number])
        )
    battery.test_the_entries_that_sparsified_keeps_do_not_depend_on_the_order_of_points(np.random.default_rng(seed))


def main() -> int:
    """Return 0 when no combination is wrong, 1 otherwise."""
    arguments = _arguments()
    os.environ |= {"KMDR_EXAMPLES": str(arguments.examples), "KMDR_TEST_SEED": str(arguments.seed)}
    tests = Path(__file__).parents[1] / "tests"
    sys.path[:0] = [str(tests), str(tests / "project")]
    battery = importlib.import_module("test_metamorphic")
    account = battery.ACCOUNT
    account.to_the_end = True
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(arguments.seconds)
    with battery.own_cache(), suppress(KeyboardInterrupt):
        _run(battery, arguments.seed)
    signal.alarm(0)
    for combination, what in account.wrong.items():
        print(f"wrong: {' '.join(combination)}: {' '.join(what.split())[:200]}")
    properties, wrong = (Counter(name for name, *_ in combinations) for combinations in (account.tried, account.wrong))
    for name, count in properties.items():
        compared = f", clusters compared in {account.compared[name]} trials" if name in account.compared else ""
        print(f"{name}: {count} combinations, {wrong[name]} wrong{compared}")
    for form in importlib.import_module("forms").FORMS.values():
        if not form.usable:
            print(f"form {form.name} was not tried, for {form.needs} is not installed")
    print(account)
    return int(bool(account.wrong))


if __name__ == "__main__":
    sys.exit(main())
