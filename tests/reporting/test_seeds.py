"""A report beside that of an earlier seed."""

from pathlib import Path

import pandas as pd
import pytest

from kmdr.base.errors import UserError
from kmdr.reporting import seeds
from kmdr.reporting.seeds import COLUMNS, FILE, central, read_earlier, sentence, side_by_side


def statements(*outcomes):
    return pd.DataFrame(
        [["bzd10-1", f"slope {i}", "undecided", outcome, 0.1 * i, 0.0, 1.0, "F"] for i, outcome in enumerate(outcomes)],
        columns=COLUMNS,
    )


def test_central_statements_take_the_verdict_of_their_claim():
    verdicts = pd.DataFrame({"claim": ["bzd10-1"], "verdict": ["undecided"]})
    components = statements("supported", "undecided").drop(columns="verdict").assign(decides=["yes", "side"])
    assert central(verdicts, components)["label"].tolist() == ["slope 0"]
    assert central(verdicts, components)["verdict"].tolist() == ["undecided"]


def test_differences_between_seeds_are_counted_and_claims_of_another_verdict_named():
    now = statements("supported", "undecided")
    table = side_by_side(now.assign(verdict="supported"), now.assign(statement_verdict="supported"))
    assert table["same_statement"].tolist() == [True, False]
    assert sentence(table) == (
        "With another seed, 0 of 1 verdict and 1 of 2 central statements agree. The other verdict (bzd10-1) is "
        "undecided with one of the two seeds."
    )
    reversed_ = side_by_side(now.assign(verdict="supported"), now.assign(verdict="not supported"))
    assert sentence(reversed_).endswith(" agree. The other verdict: bzd10-1.")
    same = "With another seed, 1 of 1 verdict and 2 of 2 central statements agree."
    assert sentence(side_by_side(now, now)) == same


def test_the_pages_link_to_the_table_that_is_written():
    """The Markdown page linked to a Markdown table, which does not exist."""
    (file,) = seeds.files(side_by_side(statements("supported"), statements("supported")))
    for template in ("home.html.j2", "index.md.j2"):
        text = (Path(seeds.__file__).parent / "templates" / template).read_text("utf-8")
        assert f"../{file.as_posix()}" in text


@pytest.mark.parametrize(
    ("without", "reason"),
    [("changed", "one of the runs had other settings"), ("not run", "one of the runs lacks them")],
)
def test_claims_without_a_verdict_for_one_seed_are_not_compared(without, reason):
    """The verdicts on all claims of a paper whose earlier rows had other settings were counted as different."""
    now = statements("supported", "undecided").assign(verdict="supported")
    other = now.assign(claim="lst17-1")
    table = side_by_side(pd.concat([now, other]), pd.concat([now, other.assign(verdict=without)]))
    assert table["same_verdict"].tolist() == [True, True, "", ""]
    assert sentence(table) == (
        "With another seed, 1 of 1 verdict and 2 of 2 central statements agree. Not compared, because "
        f"{reason}: lst17-1."
    )
    assert sentence(table.tail(2)).startswith("No verdict is compared with that of another seed.")


def test_single_timings_are_not_taken_for_the_effect_of_the_seed():
    """Claims on times counted as different because the earlier run had one timing, which has no interval."""
    now = statements("not supported", "supported").assign(verdict="not supported")
    single = now.assign(statement_verdict=["undecided", "supported"], verdict="undecided", low=[float("nan"), 0.0])
    other = now.assign(claim="bzd10-2")
    table = side_by_side(pd.concat([single, other]), pd.concat([now, other]))
    assert table["same_statement"].tolist() == ["", True, True, True]
    assert table["same_verdict"].tolist() == ["", "", True, True]
    assert sentence(table) == (
        "With another seed, 1 of 1 verdict and 3 of 3 central statements agree. Not compared, because one of the runs "
        "has too few values for an interval, such as single timings: bzd10-1."
    )
    none = now.assign(low=float("nan"), high=float("nan"))  # facts, which have no interval with either seed
    assert side_by_side(none, none)["same_verdict"].tolist() == [True, True]


def test_the_file_is_read_as_it_was_written_and_refused_if_it_is_not_such_a_table(tmp_path):
    assert read_earlier(tmp_path) is None
    written = statements("supported")
    written.to_csv(tmp_path / FILE, index=False)
    pd.testing.assert_frame_equal(read_earlier(tmp_path), written)
    (tmp_path / FILE).write_text("claim,label\n")
    with pytest.raises(UserError, match="not a table of statements"):
        read_earlier(tmp_path)
