"""Folders of versions 0.1 and 0.2, which had fewer columns, give the same table as those of today.

Both versions wrote each configuration into a file of its own, ``configs/<hash>.json``. A newer version may have more
columns.
"""

import json

import pandas as pd
import pytest

from kmdr.base.errors import UserError
from kmdr.cli.arguments import COMMANDS
from kmdr.config.task import SETTINGS
from kmdr.results.reader import read_rows
from kmdr.results.row_check import config_of
from kmdr.results.table import load_rows
from rows import make_rows, write_rows

LATER = {"0.2": ("machine",), "0.1": ("machine", "metrics", "guests", "code_hash", *SETTINGS)}


@pytest.mark.parametrize("version", LATER)
@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_an_older_version_gives_the_same_table(version, packed, tmp_path, capsys):
    for name in ("today", "older"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name, make_rows("s", "d", "none"), make_rows("s", "d", "svd", objective=0.6))
    path = tmp_path / "older" / "rows.csv"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    (path.parent / "configs").mkdir()
    for row in rows.to_dict("records"):
        content = json.dumps(config_of(row), indent=2, sort_keys=True) + "\n"
        (path.parent / "configs" / f"{row['config_hash']}.json").write_text(content)
    rows = rows.drop(columns=list(LATER[version]))
    rows.to_csv(path.with_suffix(".csv.xz") if packed else path, index=False)
    if packed:
        path.unlink()
    shown = []
    for name in ("today", "older"):
        COMMANDS["table"]([str(tmp_path / name)])
        shown.append(capsys.readouterr().out)
    assert "svd" in shown[0]
    assert shown[0] == shown[1]


def test_rows_without_options_take_those_of_rows_of_the_same_data_if_these_agree(tmp_path):
    def rows(dataset, method, options):
        return make_rows("s", dataset, method, options=options)

    scaled, units = '{"scale":"standard"}', '{"rows":"unit"}'
    write_rows(
        tmp_path,
        *(rows("one", "none", ""), rows("one", "svd", scaled)),
        *(rows("two", "none", scaled), rows("two", "svd", units), rows("two", "rp", "")),
        rows("alone", "svd", ""),
    )
    read = load_rows(tmp_path)[0].astype(str).groupby(["dataset", "reducer"])["options"].unique().map(list).to_dict()
    assert read == {
        ("one", "none"): [scaled], ("one", "svd"): [scaled],
        ("two", "none"): [scaled], ("two", "svd"): [units], ("two", "rp"): [""], ("alone", "svd"): [""],
    }  # fmt: skip


@pytest.mark.parametrize("places", [[0], [20], [-1], [0, 20, -1]])
def test_columns_of_a_newer_version_are_ignored_in_a_frame_and_refused_where_rows_are_written_again(places, tmp_path):
    path = write_rows(tmp_path, make_rows("s", "d", "none"), make_rows("s", "d", "svd")) / "rows.csv"
    before, newer = load_rows(tmp_path)[0], pd.read_csv(path, dtype=str, keep_default_na=False)
    for place in places:
        newer.insert(place % (newer.shape[1] + 1), f"new_{place}", "text, or 1")
    newer.to_csv(path, index=False)
    pd.testing.assert_frame_equal(load_rows(tmp_path)[0], before)
    with pytest.raises(UserError, match=r"has other columns than this version of kmdr \('new_"):
        read_rows(path)
