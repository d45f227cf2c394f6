"""The palette of methods: any two differ for every reader, in colour and in grey."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from kmdr.figures.canvas import canvas, finish, text_width
from kmdr.figures.style import (
    COLUMN_WIDTH,
    KNOWN,
    PRINT,
    TEXT_WIDTH,
    Style,
    label_styles,
    method_styles,
    print_style,
    reducer_styles,
    sort_for_legend,
)
from kmdr.reducers import names

# Machado, Oliveira and Fernandes (2009), severity 1: what a dichromat sees of linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
LEAST = 15  # CIE76; a difference of 2.3 is just noticeable side by side
CUSTOM = ("mine", "package.module.Own", "sklearn.decomposition.PCA", "sklearn.decomposition.NMF", "theirs")
SETTINGS = ("{}", '{"rank":"k"}', '{"rank":"r"}')


def lab(color: str, vision: str) -> np.ndarray:
    srgb = np.array(to_rgb(color))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    )
    x, y, z = ((value if value > 0 else 0.0) for value in xyz @ seen / [0.95047, 1, 1.08883])
    fx, fy, fz = (np.cbrt(value) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def colour_distance(one: Style, other: Style) -> float:
    return min(np.linalg.norm(lab(one.color, vision) - lab(other.color, vision)) for vision in VISION)


def assert_distinguishable(one: Style, other: Style) -> None:
    """In grey by marker or line; in colour, with any vision, also where no marker is drawn."""
    assert (one.marker, one.filled, one.linestyle) != (other.marker, other.filled, other.linestyle)
    assert one.linestyle != other.linestyle or colour_distance(one, other) >= LEAST
    assert one.label != other.label


def test_every_method_has_a_style_under_its_own_name():
    assert set(KNOWN) == set(names())
    assert [style.label for style in KNOWN.values()] == list(KNOWN)


@pytest.mark.parametrize(("one", "other"), list(combinations([*KNOWN, "sklearn.decomposition.PCA"], 2)))
def test_any_two_methods_differ_in_colour_and_in_grey(one, other):
    styles = reducer_styles([one, other])
    assert_distinguishable(styles[one], styles[other])
    assert (styles[one].marker, styles[one].filled) != (styles[other].marker, styles[other].filled)


@settings(max_examples=200)
@given(st.lists(st.sampled_from([*KNOWN, *CUSTOM]), min_size=1, max_size=8, unique=True))
def test_any_eight_methods_of_one_figure_differ_one_of_them_in_three_settings(methods):
    styles = method_styles([*((name, "{}") for name in methods), *((methods[0], params) for params in SETTINGS)])
    for one, other in combinations(styles.values(), 2):
        assert_distinguishable(one, other)


@given(st.sets(st.sampled_from([*KNOWN, *CUSTOM]), min_size=1))
def test_a_known_method_looks_the_same_in_every_figure(methods):
    styles = reducer_styles(methods)
    assert all(styles[name] == KNOWN[name] for name in methods & set(KNOWN))


def test_custom_reducers_keep_their_look_and_do_not_collide():
    custom = [f"mine_{i}" for i in range(30)]
    looks = {style._replace(label="") for style in reducer_styles([*custom, *KNOWN]).values()}
    assert len(looks) == len(custom) + len(KNOWN)
    assert reducer_styles(["mine_3"])["mine_3"] == reducer_styles(["mine_3", "svd", "none"])["mine_3"]
    assert len(reducer_styles(f"mine_{i}" for i in range(200))) == 200


@pytest.mark.slow
def test_custom_look_does_not_depend_on_the_process():
    code = "from kmdr.figures.style import reducer_styles; print(reducer_styles(['mine'])['mine'].color)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == reducer_styles(["mine"])["mine"].color


@given(st.dictionaries(st.text(min_size=1), st.sampled_from([*KNOWN, *CUSTOM]), max_size=40))
def test_no_two_labels_of_a_page_look_alike(reducers):
    """Dashes and colour, where no marker is drawn, and dashes and marker, in grey."""
    styles = label_styles({f"{name} {label}": name for label, name in reducers.items()})
    assert {label: style.label for label, style in styles.items()} == {label: label for label in styles}
    assert len({(style.color, style.linestyle) for style in styles.values()}) == len(styles)
    assert len({(style.marker, style.filled, style.linestyle) for style in styles.values()}) == len(styles)


def test_custom_methods_come_before_all_features_in_legends():
    methods = [(name, "{}") for name in ("none", "laplacian_score", "zeta", "random_sign", "alpha", "leverage")]
    ordered = [name for name, _ in sort_for_legend(methods)]
    assert ordered == ["leverage", "random_sign", "laplacian_score", "alpha", "zeta", "none"]


def test_settings_of_one_reducer_are_told_apart():
    styles = method_styles([("svd", '{"rank":"r","tol":0}'), ("svd", '{"rank":"k","tol":0}'), ("none", "{}")])
    assert [style.label for style in styles.values()] == ["svd (rank = k)", "svd (rank = r)", "none"]
    k, r, _ = styles.values()
    assert k.color == r.color
    assert k.linestyle != r.linestyle
    assert method_styles([("x", "a"), ("x", "b")])["x", "a"].label == "x (a)"
    assert method_styles([("x", ""), ("x", '{"c":2}')])["x", ""].label == "x (c = default)"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text("abcmwW il,.√", min_size=1, max_size=60), min_size=1, max_size=30, unique=True),
    st.integers(1, 9), st.sampled_from([COLUMN_WIDTH, TEXT_WIDTH]),
)  # fmt: skip
def test_a_legend_is_within_its_figure_unless_one_label_is_wider(labels, most, width):
    with print_style():
        fig, (ax,) = canvas(1, 2.0, width)
        for label in labels:
            ax.plot([0, 1], [0, 1], marker="o", label=label)
        finish(fig, legend_columns=most)
        fig.canvas.draw()
        box = fig.legends[0].get_window_extent()
        assert len(fig.legends[0].get_texts()) == len([label for label in labels if not label.startswith("_")])
        if max(text_width(label, PRINT["legend.fontsize"]) for label in labels) < fig.get_figwidth() - 0.6:
            assert 0 <= box.x0 <= box.x1 <= fig.bbox.width
