"""Printed numbers against a search over all fractions, written out digit by digit."""

from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from kmdr.base.errors import UserError
from kmdr.base.plugins import PaperFolder
from kmdr.claims import granularity
from kmdr.claims.catalogue import papers
from kmdr.claims.granularity import Printed, agreement, chance, counts, possible, printed, runs_averaged, shares

HEAD = "subject,dataset,stated,made_of,where,implies\n"


def digits(j, n, places, rounding):
    """j/n as a printer would set it, from sixty digits."""
    with localcontext() as context:
        context.prec = 60
        return (Decimal(j) / n).quantize(Decimal(1).scaleb(-places), rounding)


@pytest.mark.parametrize("places", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 7, 31, 32, 183, 184, 400])
def test_wholes_are_those_whose_digits_are_printed(n, places):
    rng = np.random.default_rng(n + places)
    for _ in range(60):
        value = Decimal(int(rng.integers(10**places + 1))).scaleb(-places)
        number = Printed(Fraction(value), Fraction(1, 10**places))
        rounded = [
            j for j in range(n + 1) if value in (digits(j, n, places, way) for way in (ROUND_HALF_UP, ROUND_HALF_DOWN))
        ]
        assert list(number.wholes(n)) == rounded
        assert list(number.wholes(n, cut=True)) == [
            j for j in range(n + 1) if digits(j, n, places, ROUND_DOWN) == value
        ]


@pytest.mark.parametrize(("n", "places"), [(1, 1), (3, 2), (31, 3), (184, 3), (400, 2), (2000, 3)])
def test_the_chance_is_the_share_of_all_numbers_of_these_digits(n, places):
    unit = Fraction(1, 10**places)
    met = sum(bool(Printed(i * unit, unit).wholes(n)) for i in range(10**places + 1)) / (10**places + 1)
    assert chance([Printed(Fraction(0), unit)], n) == pytest.approx(met)
    assert chance([Printed(i * unit, unit) for i in range(3)], n) == pytest.approx(met**3)
    assert (met == 1) == (n >= 10**places)


def test_means_of_runs_by_search():
    for values, n in ((["0.6255", "0.59"], 400), (["0.847", "0.859", "0.881"], 184), (["0.5"], 7), (["0.3"], 10)):
        unit = Fraction(1, 10 ** max(len(value) - 2 for value in values))
        numbers = [Printed(Fraction(value), unit) for value in values]
        m = runs_averaged(numbers, n)
        for runs in range(1, m + 1):
            every = [Fraction(j, n * runs) for j in range(n * runs + 1)]
            met = all(any(abs(part - number.value) <= unit / 2 for part in every) for number in numbers)
            assert met == (runs == m)


def test_an_exact_number_has_the_digits_of_the_longest_beside_it():
    numbers = printed([(0.2725, 0.0), (0.48, 0.0), (0.48, 0.0), (0.742, 0.0005)])
    unit = Fraction(1, 10_000)
    assert numbers == [
        Printed(Fraction(109, 400), unit),
        Printed(Fraction(12, 25), unit),
        Printed(Fraction(371, 500), Fraction(1, 1000)),
    ]
    assert possible(numbers[:2], 400)
    assert not possible(numbers[:2], 399)


@pytest.fixture
def paper(tmp_path):
    folder = tmp_path / "toy"
    folder.mkdir()

    def made(text=HEAD + "points,data,32,4 * 8,§1,P is j/32\nseconds,,1.2,1 + 0.1,§2,a slip\n"):
        (folder / "counts.csv").write_text(text)
        return PaperFolder("toy", folder, "toy")

    return made


def test_counts_and_what_they_are_made_of(paper):
    table = agreement(paper()).frame
    assert table["difference"].tolist() == ["agrees", "+0.1"]
    assert table["components"].tolist() == ["4 × 8", "1 + 0.1"]
    assert agreement(PaperFolder("none", paper().folder.parent, "none")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "has the columns a, b; it needs subject, dataset, stated, made_of, where, implies"),
        (HEAD + "points,data,many,,§1,\n", "states 'many' of 'points'; give a number, of points a whole one"),
        (HEAD + "points,data,1.5,,§1,\n", "states '1.5' of 'points'; give a number, of points a whole one"),
        (HEAD + "points,data,0,,§1,\n", "states '0' of 'points'"),
        (HEAD + "points,data,8,2 ** 3,§1,\n", r"makes 'points' of '2 \*\* 3'; write numbers with ' \+ ' and ' \* '"),
        (HEAD + "points,data,8\n1,2,3,4,5,6,7,8\n", "cannot be read"),
    ],
)
def test_a_malformed_file_is_refused_in_one_sentence(text, said, paper):
    with pytest.raises(UserError, match=said):
        counts(paper(text))


def test_shares_of_a_paper(paper, monkeypatch):
    """Of 32 points .47 is 15/32 = .46875 rounded, and none cut."""
    numbers = pd.DataFrame(
        [("toy_table1", "data", "accuracy", 0.47, 0.005), ("toy_table1", "data", "accuracy", 0.5, 0.005)],
        columns=["id", "dataset", "quantity", "value", "reading_error"],
    )
    monkeypatch.setattr(granularity, "reported", lambda name: numbers)
    (line,) = shares(paper()).frame.to_dict("records")
    assert (line["points"], line["numbers"], line["multiples of 1/points"]) == (32, 2, "all, rounded")
    assert line["conclusion"].startswith("nothing: random numbers") == (line["by chance"] > 0.05)
    others = [n for n in range(22, 43) if n != 32]
    for ways, column in (
        ((ROUND_HALF_UP, ROUND_HALF_DOWN), "other points, rounded"),
        ((ROUND_DOWN,), "other points, truncated"),
    ):
        set_as = {n: {digits(j, n, 2, way) for j in range(n + 1) for way in ways} for n in others}
        met = [n for n in others if {Decimal("0.47"), Decimal("0.50")} <= set_as[n]]
        told = [
            range(int(part.split("–")[0]), int(part.split("–")[-1]) + 1) for part in line[column].split(", ") if part
        ]
        assert [n for part in told for n in part] == met
    assert shares(paper(HEAD)) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.2725, 0.48, 0.765), "each is the P of one partition of 400 points"),
        ((0.2725, 0.6255), "0.6255: impossible for a single partition of 400 points; a misprint"),
        ((0.6255, 0.2725, 0.5003), "0.6255 and 0.5003: impossible for a single partition"),
    ],
)
def test_what_the_numbers_imply(values, said, paper, monkeypatch):
    lines = [("toy_table1", "data", "accuracy", value, 0.00005) for value in values]
    columns = ["id", "dataset", "quantity", "value", "reading_error"]
    monkeypatch.setattr(granularity, "reported", lambda name: pd.DataFrame(lines, columns=columns))
    (line,) = shares(paper(HEAD + "points,data,400,40 * 10,§1,P is j/400\n")).frame.to_dict("records")
    assert line["conclusion"].startswith(said)


def test_every_reported_p_of_counted_points_is_judged():
    """In the papers' own folders; every count says what it implies."""
    judged = 0
    for paper_ in papers():
        table = counts(paper_.folder)
        assert table["implies"].str.len().gt(0).all()
        made = shares(paper_.folder)
        if made is not None:
            judged += len(made.frame)
            assert (made.frame["multiples of 1/points"] != "").all()
            assert made.frame["by chance"].between(0, 1).all()
    assert judged > 3
