"""A report beside that of an earlier seed."""

import pandas as pd
import pytest

from kmdr.base.errors import UserError
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
        "With another seed, 0 of the 1 verdicts that both runs have and 1 of 2 central statements are the same; the "
        "verdicts on bzd10-1 differ."
    )
    same = "With another seed, 1 of the 1 verdicts that both runs have and 2 of 2 central statements are the same."
    assert sentence(side_by_side(now, now)) == same


def test_the_file_is_read_as_it_was_written_and_refused_if_it_is_not_such_a_table(tmp_path):
    assert read_earlier(tmp_path) is None
    written = statements("supported")
    written.to_csv(tmp_path / FILE, index=False)
    pd.testing.assert_frame_equal(read_earlier(tmp_path), written)
    (tmp_path / FILE).write_text("claim,label\n")
    with pytest.raises(UserError, match="not a table of statements"):
        read_earlier(tmp_path)
