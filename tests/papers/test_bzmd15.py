"""bzmd15: each claim on rows made so that it is true, false or undecided, and what figures and Table 1 show."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from kmdr.analysis.results import NotRunError, Recorder
from kmdr.analysis.statistics import retest
from kmdr.claims import catalogue
from kmdr.claims.register import Flip, flipped
from kmdr.claims.verdicts import uncorrected
from kmdr.datasets import Dataset
from kmdr.figures.panels import dataset_label
from kmdr.figures.style import KNOWN
from kmdr.papers.bzmd15 import claims
from kmdr.papers.bzmd15.facts import BOUNDS, COLUMNS, FACTS, FIGURES, NAMES, REDUCED, TIMES
from rows import make_results, make_rows

GRID = (5, 20, 30, 100)
STUDY = {name: study for study, names in COLUMNS.items() for name in names}
K = 10
SINGLE = {"none": 256, "svd": K, "approx_svd": K}  # the only r of these
REPEATS = 12


def noise(name, r, repeat, size=1.0):
    """Independent normal errors, the same at every call."""
    return size * np.random.default_rng([*name.encode(), r, repeat]).normal()


def excess(r):
    """How far F is above that of k-means on all features in the made-up results: 40 % at r = 5, 2 % at 100."""
    return 1 / r


def gap(reducer, r):
    return 0.0 if reducer == "none" else 0.01 if reducer in SINGLE else excess(r)


def results(datasets=tuple(STUDY), *, repeats=REPEATS, grid=GRID, folder=None, facts=None, **methods):
    """Results in which all claims but 7's facts are true, unless ``methods`` says otherwise.

    ``methods`` maps a reducer to the columns (objective, accuracy, seconds; functions of dataset, r and repetition)
    in which it departs from that.
    """
    frames = []
    for dataset in datasets:
        for reducer in ("none", *REDUCED):
            # Laplacian scores: worse on all but PIE and COIL20, where they are the most accurate.
            scores = reducer == "laplacian_score"
            led = scores and dataset in ("pie", "coil20")

            def objective(r, t, dataset=dataset, reducer=reducer, scores=scores):
                base = 0.2 * (1 + gap(reducer, r) + (0.3 if scores else 0))
                return base + noise(dataset + reducer, r, t, 2e-4)

            def accuracy(r, t, dataset=dataset, reducer=reducer, scores=scores, led=led):
                level = 0.8 if led else 0.5 if scores and dataset != "synth" else 0.68 if scores else 0.7
                return level + noise(reducer + dataset, r, t, 2e-3)

            def seconds(r, t, dataset=dataset, reducer=reducer):
                return (1.0 if reducer == "none" else 0.1 + r / 1000) * math.exp(noise("t" + reducer, r, t, 0.05))

            columns = {"objective": objective, "accuracy": accuracy, "seconds": seconds}
            for column, value in methods.get(reducer, {}).items():
                columns[column] = lambda r, t, value=value, dataset=dataset: value(dataset, r, t)
            sizes = [SINGLE[reducer]] if reducer in SINGLE else grid
            frames.append(make_rows(STUDY[dataset], dataset, reducer, sizes, repeats, k=K, **columns))
    return make_results(frames, folder, facts)


def claim(number):
    return next(claim for claim in catalogue.claims() if claim.id == f"bzmd15-{number}")


def verdict(number, *args, **kwargs):
    return uncorrected(claim(number), results(*args, **kwargs))


@pytest.mark.parametrize("number", range(1, 7))
def test_true_claims_are_reproduced(number):
    judged = verdict(number)
    assert judged.outcome == "supported", judged.sentence
    assert all(component.n == REPEATS for component in judged.components)


def better(dataset, r, t):
    return 0.9 + noise("better" + dataset, r, t, 2e-3)


@pytest.mark.parametrize("number", [1, 6])
def test_a_method_that_is_more_accurate_than_kmeans_is_accurate(number):
    assert verdict(number, random_sign={"accuracy": better}).outcome == "supported"


def slow(dataset, r, t):
    return 2.0 * math.exp(noise("slow", r, t, 0.05))


def rising(dataset, r, t):
    return 0.2 + r / 1000 + noise("up" + dataset, r, t, 1e-3)


def far(dataset, r, t):
    return 0.2 * (1.5 + excess(r)) + noise("far" + dataset, r, t, 1e-3)


def low(dataset, r, t):
    return 0.3 + noise("low" + dataset, r, t, 1e-3)


def good_at_100_alone(dataset, r, t):
    return 0.2 * (1 + (0.01 if r == 100 else 0.3 - r / 1000)) + noise("late" + dataset, r, t, 1e-4)


@pytest.mark.parametrize(
    ("number", "methods"),
    [
        (1, {"laplacian_score": {"seconds": slow}}),
        (1, {"random_sign": {"accuracy": low}}),
        (2, {"random_sign": {"objective": rising}}),
        (3, {"leverage": {"objective": far}}),
        (3, {"random_sign": {"objective": rising}}),
        (4, {"leverage": {"accuracy": low}}),
        (4, {"approx_svd": {"objective": far}}),
        (5, {"laplacian_score": {"accuracy": low}}),
        (6, {"leverage_approx": {"objective": good_at_100_alone}}),
        (6, {"random_sign": {"accuracy": low}}),
    ],
)
def test_false_claims_are_not_reproduced(number, methods):
    judged = verdict(number, **methods)
    assert judged.outcome == "not supported", judged.sentence


def wild(dataset, r, t):
    return 0.25 + noise("wild" + dataset, r, t, 0.2)


def wild_seconds(dataset, r, t):
    return math.exp(noise("wild", 0, t, 3.0) - 0.1)


@pytest.mark.parametrize(
    ("number", "methods"),
    [
        (1, {"svd": {"seconds": wild_seconds}}),
        (2, {"random_sign": {"objective": wild}}),
        (3, {"random_sign": {"objective": wild}}),
        (5, {"random_sign": {"accuracy": lambda d, r, t: 0.8 + noise("p" + d, r, t, 0.3)}}),
    ],
)
def test_noise_leaves_claims_open(number, methods):
    judged = verdict(number, repeats=4, **methods)
    assert judged.outcome == "undecided", judged.sentence


@pytest.mark.parametrize("number", range(1, 7))
def test_one_repetition_decides_nothing(number):
    assert verdict(number, repeats=1).outcome == "undecided"


def judge_poor(repeats=REPEATS, **levels):
    """Test claim 8 on made-up levels of P of k-means on all features, with a stand-in for LIGHT."""
    level = FULL | levels
    poor = {"none": {"accuracy": lambda d, r, t: level[d] + noise("full" + d, r, t, 2e-3)}}
    rows = results(repeats=repeats, **poor).all_rows
    return uncorrected(claim(8), make_results([rows.assign(stand_in=np.where(rows["dataset"] == "light", "x", ""))]))


FULL = {"usps": 0.7, "coil20": 0.4, "light": 0.2, "pie": 0.3, "orl_64x64": 0.6, "synth": 1.0}


@pytest.mark.parametrize(
    ("coil20", "pie", "repeats", "expected"),
    [
        (0.4, 0.3, REPEATS, "supported"),
        # Above ½ and above ORL, but far below Synth, whose clusters are well-separated: the readings disagree.
        (0.65, 0.3, REPEATS, "undecided"),
        (0.55, 0.3, REPEATS, "undecided"),
        (0.99, 0.3, REPEATS, "undecided"),
        (1.1, 0.3, REPEATS, "not supported"),  # no reading calls this poor
        (1.1, 1.1, REPEATS, "not supported"),
        (0.4, 0.3, 1, "undecided"),
    ],
)
def test_poor_is_judged_in_every_reading(coil20, pie, repeats, expected):
    judged = judge_poor(repeats, coil20=coil20, pie=pie)
    assert judged.outcome == expected, judged.sentence
    assert [component.unit for component in judged.components] == ["readings"] * 2
    assert len(judged.aside["one of several"]) == 8  # LIGHT, on which k-means is poorest, decides nothing
    assert "LIGHT (stand-in) 0.2" in judged.sentence


def test_the_margin_of_poor_moves_one_reading():
    judged = judge_poor(coil20=0.55)  # below USPS, ORL and Synth, but above one half
    (coil20,) = [component for component in judged.components if "COIL20" in component.label]
    assert (coil20.effect, coil20.p_for <= 0.05, coil20.p_against <= 0.05) == (2, False, False)
    assert retest(coil20, 0.6).p_for <= 0.05
    again = retest(coil20, 0.5)
    assert (again.p_for, again.p_against, again.unit) == (coil20.p_for, coil20.p_against, "readings")


def slow_on_light(dataset, r, t):
    return slow(dataset, r, t) if dataset == "light" else 0.1


@pytest.mark.parametrize(
    ("methods", "stand_in", "expected"),
    [
        ({}, False, "supported"),
        ({"leverage": {"seconds": slow}}, False, "not supported"),
        ({"random_sign": {"accuracy": low}}, False, "not supported"),
        ({"leverage": {"seconds": slow_on_light}}, False, "not supported"),
        ({"leverage": {"seconds": slow_on_light}}, True, "supported"),
        ({"leverage": {"accuracy": lambda d, r, t: low(d, r, t) + 0.4 * (r >= 20)}}, False, "supported"),
    ],
)
def test_faster_and_almost_as_accurate(methods, stand_in, expected):
    made = results(**methods)
    light = (made.all_rows["dataset"] == "light") & stand_in
    judged = uncorrected(claim(9), make_results([made.all_rows.assign(stand_in=np.where(light, "x", ""))]))
    assert judged.outcome == expected, judged.sentence
    assert ("not counted" in judged.sentence) == stand_in


def test_claims_8_and_9_need_full_and_reduced():
    for number in (8, 9):
        rows = results(("synth",)).all_rows
        assert uncorrected(claim(number), make_results([rows])).outcome == "not run"
    assert uncorrected(claim(9), results(repeats=1)).outcome == "undecided"


@pytest.mark.parametrize("number", [2, 3])
def test_trends_need_several_r(number):
    assert verdict(number, ("usps",), grid=(20,)).outcome == "not run"


@pytest.mark.parametrize("number", range(1, 8))
def test_claims_need_rows(number):
    empty = make_results([make_rows("lst17_coil20", "coil20", "none")])
    with pytest.raises(NotRunError):
        claim(number).test(empty)


def test_claims_use_the_datasets_there_are():
    judged = verdict(3, ("coil20",))
    assert all("COIL20" in component.label for component in judged.components)
    assert "COIL20" in judged.sentence
    with pytest.raises(NotRunError):
        claims.laplacian_scores_lead(results(("usps",)))


def test_columns_that_do_not_depend_on_r_have_no_trend():
    finding = claims.objective_falls(results(("usps",)))
    assert [component.label.partition(" on ")[0] for component in finding.components] == [
        NAMES[name] for name in ("leverage", "leverage_approx", "random_sign", "laplacian_score")
    ]


def test_a_trend_is_the_slope_times_the_span_of_log_r():
    rows = results(("usps",), random_sign={"objective": lambda d, r, t: 1 - 0.1 * math.log(r) + 0.01 * t})
    component = next(c for c in claims.objective_falls(rows).components if c.label.startswith("RP"))
    assert component.effect == pytest.approx(-0.1 * math.log(20))


@pytest.mark.parametrize(
    "test",
    [
        claims.objective_falls, claims.objective_converges, claims.better_than_laplacian_scores,
        claims.few_dimensions_suffice, claims.ratios_hold, claims.faster_and_almost_as_accurate,
    ],
)  # fmt: skip
def test_stand_ins_are_marked_and_decide_nothing(test):
    rows = results(("light", "usps")).all_rows
    light = rows["dataset"] == "light"
    own = test(make_results([rows.assign(stand_in="")]))
    of_stand_in = test(make_results([rows.assign(stand_in=np.where(light, "reconstructed", ""))]))
    without = test(make_results([rows[~light]]))

    def on_light(components):
        return {c.label.partition(":")[0] for c in components if "LIGHT" in c.label}

    def told(components):
        return [c._replace(against=None) for c in components]

    assert [c for c in of_stand_in.components if "LIGHT" not in c.label] == list(of_stand_in.components)
    if test is claims.ratios_hold:
        assert "LIGHT (stand-in) excluded" in of_stand_in.sentence
        assert len(own.components) == 2 * len(of_stand_in.components)
        return
    assert told(of_stand_in.components) == told(without.components)
    single = [*own.components, *own.aside.get("one of several", ())]
    assert on_light(single)
    assert "stands in" not in own.aside
    assert on_light(of_stand_in.aside["stands in"]) == {f"{name} (stand-in)" for name in on_light(single)}
    assert "On stand-ins, not counted" in of_stand_in.sentence
    with pytest.raises(NotRunError, match="the paper's own data"):
        test(make_results([rows[light].assign(stand_in="reconstructed")]))


def test_a_flip_to_rank_r_gives_svd_a_trend():
    base = results(("usps",))
    flip_rows = make_rows(
        "flip_rank", "usps", "approx_svd", GRID, REPEATS, k=K, params='{"rank":"r"}',
        objective=lambda r, t: 0.2 * (1 + excess(r)) + noise("svd", r, t, 1e-4),
    )  # fmt: skip
    both = make_results([base.all_rows, flip_rows])
    before, after = flipped(both, Flip("flip_rank", "", "rank", FIGURES, ("bzmd15-2",)))
    assert not any(c.label.startswith("ApprSVD") for c in claims.objective_falls(before).components)
    assert any(c.label.startswith("ApprSVD") for c in claims.objective_falls(after).components)


# --- claim 7 ---


def bound(value, names=("usps", "coil20")):
    return {BOUNDS[name]: pd.DataFrame({"dataset": [name], "k": [K], "bound": [value]}) for name in names}


@pytest.mark.parametrize(("repeats", "expected"), [(300, "supported"), (20, "undecided")])
def test_a_failure_probability_of_one_percent_takes_many_trials(repeats, expected, tmp_path):
    # with no failure in n trials, the probability of that at 1 % is 0.99^n, which is below 5 % from n = 299 on
    rows = results(("usps",), repeats=repeats, grid=(5, 20), folder=tmp_path, facts=bound(0.1))
    judged = uncorrected(claim(7), rows)
    assert judged.outcome == expected, judged.sentence
    thirteenth = judged.components[2]
    assert thirteenth.p_for == pytest.approx(0.99**repeats)
    assert [round(component.p_against, 12) for component in judged.components] == [1.0] * 3


def test_a_broken_bound_refutes():
    broken = {"random_sign": {"objective": lambda d, r, t: 0.6 if r == 5 and t < 5 else 0.21}}
    finding = claims.ratios_hold(results(("usps", "coil20"), **broken))
    twelfth, elsewhere = (component for component in finding.components if component.label.startswith("Theorem 12"))
    if "USPS" not in twelfth.label:
        twelfth, elsewhere = elsewhere, twelfth
    assert twelfth.effect == 5 / REPEATS
    assert twelfth.p_against < 0.05 < twelfth.p_for
    assert "only if F_opt" not in finding.sentence


def test_runs_that_exceed_a_bound_are_placed_and_those_of_fewer_than_k_dimensions_are_not_promised():
    """The page of bzmd15 did not say that its one such run has r = 5 and k = 68."""
    k = int(results(("usps",)).all_rows["k"].iloc[0])
    for grid in ((k - 1, k + 10), (k + 10, k - 1)):
        broken = {"random_sign": {"objective": lambda d, r, t, at=grid[0]: 0.6 if r == at and t == 0 else 0.21}}
        sentence = claims.ratios_hold(results(("usps",), grid=sorted(grid), **broken)).sentence
        assert f"RP on USPS at r = {grid[0]}, k = {k}" in sentence
        assert ("promise nothing for r < k" in sentence) == (grid[0] < k)
    assert "at r =" not in claims.ratios_hold(results(("usps",))).sentence


def test_where_f_decides_the_sentence_says_what_p_does():
    behind = {"random_sign": {"accuracy": lambda d, r, t: 0.7 - 0.2 * (d == "usps") + noise("P", r, t, 1e-4)}}
    finding = claims.few_dimensions_suffice(results(**behind))
    said = r"P on real datasets, which decides nothing here, changes by -0\.2\d* \(RP on USPS\)"
    assert re.search(said, finding.sentence)
    assert not any("P −" in component.label and "Synth" not in component.label for component in finding.components)


def test_the_explanation_says_by_how_much_the_smallest_f_may_hide_a_broken_bound():
    """One trial of 600 above the bound left the text without it, though the test is lenient all the same."""
    rare = {"random_sign": {"objective": lambda d, r, t: 0.6 if t == 0 else 0.35 if t == 1 else 0.21}}
    full = {"none": {"objective": lambda d, r, t: 0.2}}
    rows = results(("usps",), repeats=30, **rare, **full)
    sentence = claims.ratios_hold(rows).sentence
    assert "1 of 30 trials for Theorem 12" in sentence
    # One of 30 may be above; the second largest ratio is 0.35/0.2, and the bound 7/3.
    assert "only if F_opt were 25% below the smallest F of any trial" in sentence


def test_the_lower_bound_proves_trials(tmp_path):
    # F ≤ 0.2·1.4·(1 + noise) on all trials: proved by ‖A − A_k‖² = 0.19 at any of the ratios, by 0.05 at none
    for value, expected in ((0.19, "100%"), (0.05, "0%")):
        rows = results(("usps", "coil20"), folder=tmp_path, facts=bound(value))
        assert f"‖A − A_k‖² proves it for {expected} of the trials" in claims.ratios_hold(rows).sentence


def test_datasets_on_which_lloyd_fails_by_itself_are_set_aside():
    # as on Synth: a run finds all clusters or misses one, whatever the features
    def coin(dataset, r, t):
        return (1e-6 if t % 3 else 0.02) if dataset == "synth" else 0.2

    finding = claims.ratios_hold(results(("synth", "usps"), none={"objective": coin}, random_sign={"objective": coin}))
    assert "Synth excluded" in finding.sentence
    assert {component.n for component in finding.components} == {REPEATS}


def test_without_kmeans_on_all_features_the_theorems_cannot_be_tested():
    rows = results(("usps", "coil20")).all_rows
    rows = rows[(rows["reducer"] != "none") | (rows["dataset"] == "coil20")]
    finding = claims.ratios_hold(make_results([rows]))
    assert "USPS excluded" in finding.sentence
    with pytest.raises(NotRunError):
        claims.ratios_hold(make_results([rows[rows["dataset"] == "usps"]]))


def test_lower_bound_is_that_of_all_partitions(rng):
    A = rng.random((40, 7)).astype(np.float32)
    table = FACTS[0]([Dataset("tiny", A, None, 3, "", "", "")], results(("usps",)))
    values = np.linalg.svd(A.astype(float), compute_uv=False)
    assert table["bound"].item() == pytest.approx((values[3:] ** 2).sum() / (values**2).sum(), rel=1e-9)
    # no partition into 3 is below it
    labels = rng.integers(3, size=(200, 40))
    for partition in labels:
        inside = sum(((A[partition == j] - A[partition == j].mean(axis=0)) ** 2).sum() for j in set(partition))
        assert inside / (A.astype(float) ** 2).sum() >= table["bound"].item()


# --- figures and Table 1 ---


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_figures_have_the_papers_panels(number):
    drawing = catalogue.item(f"bzmd15_fig{number}").make(results(repeats=7))
    left, right = COLUMNS[f"bzmd15_fig{number}"]
    titles = [ax.get_title(loc="left") for ax in drawing.figure.axes]
    names = [dataset_label(name) for name in (left, right)]
    kinds = ("Running time", "Objective", "Accuracy of clustering")
    assert titles == [f"({'abcdef'[2 * i + j]}) {names[j]} – {kinds[i]}" for i in range(3) for j in range(2)]
    labels = [text.get_text() for text in drawing.figure.legends[0].get_texts()]
    assert labels == ["leverage", "leverage_approx", "random_sign", "svd", "approx_svd", "laplacian_score", "none"]
    assert "Sampl/SVD" in drawing.figure.get_supxlabel(), "the caption lists the paper's names"


def test_marks_are_means_of_five_and_lines_and_bands_of_all():
    rows = results(("synth", "usps"), repeats=30)
    drawing = catalogue.item("bzmd15_fig1").make(rows)
    numbers = drawing.numbers
    for panel, dataset, column in (
        ("a", "synth", "total_seconds"),
        ("d", "usps", "objective"),
        ("f", "usps", "accuracy"),
    ):
        trials = rows.all_rows[rows.all_rows["dataset"] == dataset]
        drawn = numbers[numbers["panel"] == panel].set_index(["reducer", "r"])
        name = "median" if column == "total_seconds" else "mean"
        first = trials[trials["repeat"] < 5].groupby(["reducer", "r"])[column].agg(name)
        whole = trials.groupby(["reducer", "r"])[column].agg(name)
        assert len(drawn) == len(first)
        np.testing.assert_allclose(drawn["shown"], first.reindex(drawn.index), rtol=1e-12)
        np.testing.assert_allclose(drawn[name], whole.reindex(drawn.index), rtol=1e-12)
        assert set(drawn["shown_count"]) == {5}
        assert set(drawn["count"]) == {30}
    line = next(line for line in drawing.figure.axes[3].get_lines() if line.get_label() == "random_sign")
    expected = numbers[(numbers["panel"] == "d") & (numbers["reducer"] == "random_sign")]
    np.testing.assert_array_equal(line.get_ydata(), expected["mean"])
    assert to_hex(line.get_color()).upper() == KNOWN["random_sign"].color
    note = drawing.figure.get_supxlabel().replace("\n", " ")
    assert "Markers: the same of the first 5, the number of repetitions in the paper" in note


def test_a_missing_dataset_leaves_a_panel_that_says_why():
    rows = make_results([results(("light",)).all_rows], missing={"coil20": "its address does not answer"})
    drawing = catalogue.item("bzmd15_fig2").make(rows)
    assert "Not shown: COIL20 (no rows; its address does not answer)." in drawing.figure.get_supxlabel().replace(
        "\n", " "
    )
    with pytest.raises(NotRunError):
        catalogue.item("bzmd15_fig1").make(rows)


@pytest.mark.parametrize("figure", COLUMNS)
def test_a_figure_rests_on_rows_of_its_own_datasets_alone(figure):
    rows = results().all_rows
    timed = rows.assign(study=rows["study"].where(rows["dataset"] == "synth", TIMES))
    recorder = Recorder(make_results([rows, timed.assign(stand_in="made up")]))
    catalogue.item(figure).make(recorder)
    assert {*recorder.rows_read(["dataset"])["dataset"]} == {*COLUMNS[figure]}


def test_convergence_states_the_share_of_the_curve_that_is_left():
    sentence = verdict(3).sentence
    assert "The margin ±0.05 is relative to F" in sentence
    assert "; 5 % (" in sentence  # excess(100) / excess(5)


def table1_rows(a=1.0, b=2.0, c=0.5):
    """Synth of several sizes, with a reduction time of n^a d^b r^c."""
    frames = []
    for n, d in ((500, 1000), (1000, 1000), (4000, 1000), (1000, 500), (1000, 4000)):
        for reducer, params, sizes in (
            ("random_sign", "{}", (10, 50, 200)),
            ("leverage_approx", "{}", (10, 50, 200)),
            ("svd", '{"rank":"k"}', (5,)),
            ("svd", '{"rank":"r"}', (10, 50, 200)),
            ("approx_svd", '{"rank":"k"}', (5,)),
        ):
            frames.append(
                make_rows(
                    "bzmd15_table1", "synth", reducer, sizes, 3, n=n, d=d, params=params,
                    seconds=lambda r, t, n=n, d=d: (n**a * d**b * r**c) * 1e-12,
                )
            )  # fmt: skip
    return frames


def test_table1_measures_exponents_and_ratios():
    low_f = {"svd": {"objective": lambda d, r, t: 0.1}}
    rows = results(("usps", "coil20"), **low_f).all_rows
    rows.loc[rows["reducer"].isin(["svd", "approx_svd"]), "params"] = '{"rank":"k"}'
    made = catalogue.item("bzmd15_table1").make(make_results([*table1_rows(), rows]))
    frame = made.frame.set_index(["reference", "description"])
    assert list(frame.index) == [
        ("Folklore", "RP"), ("[12]", "Exact SVD"), ("[14]", "Exact SVD"), ("Theorem 11", "RS"), ("Theorem 12", "RP"),
        ("Theorem 13", "Approx. SVD"),
    ]  # fmt: skip
    np.testing.assert_allclose(frame["exponent of n"], 1.0, atol=1e-9)
    np.testing.assert_allclose(frame["exponent of d"], 2.0, atol=1e-9)
    np.testing.assert_allclose(frame["exponent of r"].dropna(), 0.5, atol=1e-9)
    assert frame["exponent of r"].isna().tolist() == [False, True, False, False, False, True]
    assert frame["reported, ε = 1/3"].tolist() == pytest.approx([4 / 3, 2, 4 / 3, 10 / 3, 7 / 3, 7 / 3])
    assert frame.loc[("[12]", "Exact SVD"), "ours"] == 1.0
    at_20 = rows[(rows["reducer"] == "random_sign") & (rows["r"] == 20)]["objective"] / 0.1
    assert frame.loc[("Theorem 12", "RP"), "ours"] == pytest.approx(at_20.mean())
    assert frame.loc[("Theorem 12", "RP"), "largest"] == pytest.approx(at_20.max())
    assert math.isnan(frame.loc[("[14]", "Exact SVD"), "ours"])
    assert "Ratios are measured on USPS, COIL20." in made.note
    marked = rows.assign(stand_in=rows["dataset"].map({"coil20": "made from another"}).fillna(""))
    assert "on USPS, COIL20 (stand-in)." in catalogue.item("bzmd15_table1").make(make_results([marked])).note


def test_table1_is_made_of_either_half():
    times = catalogue.item("bzmd15_table1").make(make_results(table1_rows())).frame
    assert times["exponent of n"].notna().all()
    assert times["ours"].isna().all()
    ratios = catalogue.item("bzmd15_table1").make(results(("usps",))).frame
    assert ratios["exponent of n"].isna().all()
    assert ratios["largest"].notna().any()


def test_the_open_point_on_the_laplacian_code_states_what_was_measured():
    """It said that only the points of the width were varied; a flip has the other version on five datasets."""
    flip = [
        make_rows("flip_matlab_bzmd15", name, "laplacian_score", GRID, 3, accuracy=level)
        for name, level in (("pie", 0.4), ("coil20", 0.5))
    ]
    both = make_results([results(laplacian_score={"accuracy": lambda d, r, t: 0.2}).all_rows, *flip])
    answer = claims.ANSWERS["laplacian_code"](both)
    assert "at r = 100 goes 0.200 → 0.500 on COIL20, 0.200 → 0.400 on PIE" in answer
    with pytest.raises(NotRunError):
        claims.ANSWERS["laplacian_code"](results())


@pytest.mark.filterwarnings("error")
def test_accuracies_that_are_equal_but_for_rounding_are_compared_without_a_warning(rng):
    lower, higher = pd.Series(rng.uniform(0.4, 0.5, 10)), pd.Series(np.repeat([0.9, 0.9 + 1e-16], 5))
    component = claims._mean_below("", lower, higher)
    assert component.p_for < 1e-6 < component.p_against
    assert component.low < component.effect < component.high < 0
