"""Every registered reducer: the contract all share, then the law of each."""

import itertools
import re

import numpy as np
import pytest
import scipy.sparse as sp
import yaml
from scipy.linalg import hadamard
from scipy.stats import binom, kstest
from sklearn.decomposition import PCA

from kmdr import reducers
from kmdr.base.errors import UserError
from kmdr.base.paths import CONF
from kmdr.linalg import fast_frobenius_svd, padded
from kmdr.linalg.matrix import treat_as_out_of_core
from kmdr.reducers import base, leverage
from kmdr.reducers.base import REGISTRY
from kmdr.reducers.fast_transform import successes
from kmdr.reducers.laplacian_score import heat_kernel_graph, laplacian_scores
from oracles import laplacian_scores_error, laplacian_scores_reference

# All of them with default parameters, so that a new one is tested too, and the parameters that change what is done.
VARIANTS = [(name, {}) for name in reducers.names()] + [
    ("svd", {"rank": "r"}),
    ("approx_svd", {"rank": "r"}),
    ("approx_svd", {"svd_eps": 0.5}),
    ("leverage_approx", {"svd_eps": 0.9}),
    ("leverage_approx", {"centred": True, "merged": True, "rescaled": False}),
    ("approx_svd", {"centred": True}),
    ("laplacian_score", {"n_neighbors": 3}),
    ("laplacian_score", {"width_sample": None}),
    ("laplacian_score", {"metric": "cosine", "loops": True}),
    ("laplacian_score", {"weights": "binary"}),
    ("lle", {"n_neighbors": 5, "ridge": 0, "constant": True}),
    ("leverage", {"centred": True}),
    ("leverage", {"merged": True}),
    ("leverage", {"rescaled": False}),
    ("leverage", {"solver": "lapack"}),
    ("leverage_sqrt", {"centred": True, "merged": True}),
    ("svd", {"centred": True}),
    ("svd", {"centred": True, "rank": "r", "solver": "lapack"}),
    ("svd", {"solver": "lapack"}),
    ("fjlt", {"c": 30.0}),  # a dense P
    ("osnap", {"s": 1}),
]
every_reducer = pytest.mark.parametrize(("name", "params"), VARIANTS, ids=str)
N, D, K = 60, 40, 3
LAYOUTS = {"dense64": np.float64, "dense32": np.float32, "csr64": np.float64, "csr32": np.float32}


def data(rng, n=N, d=D):
    """Sparse counts-like numbers with cluster structure, no two features or points alike."""
    return (rng.random((n, d)) + rng.random((K, d))[np.arange(n) % K]) * (rng.random((n, d)) < 0.6)


def in_layout(dense, layout):
    A = np.ascontiguousarray(dense, dtype=LAYOUTS[layout])
    if layout.startswith("csr"):
        A = sp.csr_array(A)
        assert A.indices.dtype == A.indptr.dtype == np.int32
    return A


def parts(A):
    return (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,)


def run(name, params, A, r, seed=5, k=K):
    reducer = reducers.make(name, params)
    reducer.check(*A.shape, k, r)
    state = reducer.prepare(A, k, np.random.default_rng([seed, 0]))
    return reducer.reduce(A, r, np.random.default_rng([seed, 1]), state)


def width(name, params, d, k, r):
    """Columns of C; sparsified points keep all of the rotated coordinates, most of them unknown."""
    return padded(d) if name == "sparsified" else reducers.make(name, params).fixed_r(d, k) or r


def dense_of(C):
    return C.toarray() if sp.issparse(C) else np.asarray(C)


def tolerance(dtype):
    return 1e-9 if dtype == np.float64 else 2e-4


@every_reducer
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shape_and_type(name, params, layout, rng):
    A = in_layout(data(rng), layout)
    for r in (1, 7, D):
        C = run(name, params, A, r)
        assert C.shape == (N, width(name, params, D, K, r))
        assert C.dtype == A.dtype
        assert isinstance(C, np.ndarray) or C is A or np.diff(C.indptr).tolist() == [r] * N
        assert np.isfinite(dense_of(C)).all()


@every_reducer
@pytest.mark.parametrize("layout", ["dense32", "csr64", "csr32"])
def test_all_layouts_give_the_same(name, params, layout, rng):
    dense = data(rng).astype(np.float32).astype(np.float64)  # the same numbers in both precisions
    C, expected = (dense_of(run(name, params, A, 9)) for A in (in_layout(dense, layout), dense))
    limit = tolerance(LAYOUTS[layout]) * np.abs(expected).max()
    np.testing.assert_allclose(C, expected, atol=limit, rtol=0)


@every_reducer
@pytest.mark.parametrize("layout", LAYOUTS)
def test_input_is_left_alone(name, params, layout, rng):
    A = in_layout(data(rng), layout)
    before = [part.copy() for part in parts(A)]
    run(name, params, A, 9)
    for part, copy in zip(parts(A), before, strict=True):
        np.testing.assert_array_equal(part, copy)


@every_reducer
@pytest.mark.parametrize("layout", LAYOUTS)
def test_read_only_memory_maps_will_do(name, params, layout, rng, tmp_path):
    A = in_layout(data(rng), layout)
    mapped = []
    for i, part in enumerate(parts(A)):
        np.save(tmp_path / f"{i}.npy", part)
        mapped.append(np.load(tmp_path / f"{i}.npy", mmap_mode="r"))
    B = sp.csr_array(tuple(mapped), shape=A.shape) if sp.issparse(A) else mapped[0]
    np.testing.assert_array_equal(dense_of(run(name, params, B, 9)), dense_of(run(name, params, A, 9)))


@every_reducer
def test_randomness_comes_from_the_generator_alone(name, params, rng):
    A = data(rng)
    first, same, other = (dense_of(run(name, params, A, 9, seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, same)
    if reducers.make(name, params).deterministic or name == "laplacian_score":  # random beyond its sample size alone
        np.testing.assert_array_equal(first, other)
    else:
        assert np.abs(first - other).max() > 1e-6 * np.abs(first).max()


@every_reducer
@pytest.mark.parametrize("layout", ["dense64", "csr64"])
def test_each_r_is_independent_of_the_others(name, params, layout, rng):
    A, reducer = in_layout(data(rng), layout), reducers.make(name, params)
    alone = dense_of(run(name, params, A, 5))
    state = reducer.prepare(A, K, np.random.default_rng([5, 0]))
    for r in (20, 1, 5, 11, 5):
        C = reducer.reduce(A, r, np.random.default_rng([5, 1]), state)
        if r == 5:
            np.testing.assert_array_equal(dense_of(C), alone)


@every_reducer
@pytest.mark.parametrize(
    ("n", "d", "k", "r"), [(30, 8, 3, 20), (8, 30, 9, 5), (30, 8, 9, 5), (20, 8, 3, 8), (3, 9, 2, 5)]
)
def test_what_check_lets_pass_works_and_what_it_refuses_is_a_user_error(name, params, n, d, k, r, rng):
    A, reducer = rng.random((n, d)), reducers.make(name, params)
    try:
        reducer.check(n, d, k, r)
    except UserError:
        return
    assert run(name, params, A, r, k=k).shape == (n, width(name, params, d, k, r))


@pytest.mark.parametrize(
    ("name", "params", "n", "d", "k", "r"),
    [
        ("svd", {}, 30, 8, 9, 5),
        ("svd", {}, 8, 30, 9, 5),
        ("svd", {"rank": "r"}, 30, 8, 3, 9),
        ("svd", {"rank": "r"}, 8, 30, 3, 9),
        ("approx_svd", {}, 8, 30, 9, 5),
        ("approx_svd", {"rank": "r"}, 30, 8, 3, 9),
        ("leverage", {}, 30, 8, 9, 5),
        ("leverage", {}, 8, 30, 9, 5),
        ("leverage_approx", {}, 30, 8, 9, 5),
        ("leverage_sqrt", {}, 30, 8, 9, 5),
        ("leverage", {"merged": True}, 30, 8, 3, 9),
        ("ridge_leverage", {}, 8, 30, 9, 5),
        ("top_leverage", {}, 30, 8, 9, 5),
        ("top_leverage", {}, 30, 8, 3, 9),
        ("variance", {}, 30, 8, 3, 9),
        ("srht", {}, 30, 9, 3, 17),
        ("sparsified", {}, 30, 9, 3, 17),
        ("laplacian_score", {}, 30, 8, 3, 9),
        ("laplacian_score", {}, 5, 8, 3, 5),
        ("laplacian_score", {"n_neighbors": 30}, 30, 8, 3, 5),
    ],
)
def test_what_cannot_be_given_is_refused(name, params, n, d, k, r):
    """The sentence names the value, the largest one that is possible, and the method."""
    with pytest.raises(UserError) as caught:
        reducers.make(name, params).check(n, d, k, r)
    if name == "laplacian_score" and d >= r:  # its number of neighbours is at fault
        assert re.search(r"\d", str(caught.value))
        return
    pattern = r"([rk]) = (\d+) is more than the (\d+) [\w ()]+ that ([\w ]+) can give; choose \1 ≤ \3"
    symbol, value, largest, method = re.fullmatch(pattern, str(caught.value)).groups()
    assert int(value) == {"r": r, "k": k}[symbol] > int(largest) > 0
    assert method in (name, "leverage sampling" if "leverage" in name else "a decomposition of this matrix")


@pytest.mark.parametrize(
    ("name", "params", "n", "d", "k", "r"),
    [
        ("svd", {}, 8, 8, 8, 100),  # k columns whatever r
        ("svd", {"rank": "r"}, 8, 9, 20, 8),  # r columns whatever k
        ("leverage", {}, 8, 9, 8, 100),  # draws are with replacement
        ("random_sign", {}, 2, 2, 2, 100),
        ("sparse_embedding", {}, 2, 2, 2, 100),
        ("osnap", {}, 2, 2, 2, 3),
        ("srht", {}, 30, 9, 3, 16),
        ("fjlt", {}, 30, 9, 3, 100),
        ("laplacian_score", {}, 6, 3, 2, 3),
    ],
)
def test_what_can_be_given_is_not_refused(name, params, n, d, k, r, rng):
    assert run(name, params, rng.random((n, d)), r, k=k).shape[0] == n


@every_reducer
def test_names_and_summaries(name, params):
    assert reducers.summary(name).endswith(".")
    with pytest.raises(UserError, match=f"did you mean '{name}'"):
        reducers.make(name + "_")
    with pytest.raises(UserError, match="nonsense"):
        reducers.make(name, {"nonsense": 1})


@pytest.mark.parametrize("name", reducers.names())
def test_defaults_are_those_of_the_configuration_file_and_those_added_later_are_not_recorded(name):
    configured = yaml.safe_load((CONF / "reducer" / f"{name}.yaml").read_text("utf-8"))
    defaults = reducers.settings(name)
    if name in ("svd", "approx_svd"):
        configured["rank"] = "k"  # that of the theorems; experiments have r columns
    assert {"name": name, **defaults} == configured
    later = REGISTRY.known()[name].later
    assert reducers.recorded(name, defaults) == {key: defaults[key] for key in defaults if key not in later}


def test_unknown_parameters_suggest_the_nearest():
    with pytest.raises(UserError, match=r"leverage_approx.*'svd_epss'.*did you mean 'svd_eps'"):
        reducers.make("leverage_approx", {"svd_epss": 0.1})
    with pytest.raises(UserError, match=r"did you mean 'n_neighbors'"):
        reducers.make("laplacian_score", {"neighbors": 5})
    with pytest.raises(UserError, match="takes no parameters"):
        reducers.make("random_sign", {"eps": 0.1})
    with pytest.raises(UserError, match=r"valid: .*random_sign"):
        reducers.make("zzzzzz")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *[
            (name, {"svd_eps": eps})
            for name in ("approx_svd", "leverage_approx")
            for eps in (0, 1, -0.5, 3, float("nan"))
        ],
        *[(name, {"rank": rank}) for name in ("svd", "approx_svd") for rank in ("x", "K", "", None)],
        *[("laplacian_score", {"n_neighbors": count}) for count in (0, -2)],
        *[("laplacian_score", {"width_sample": size}) for size in (0, 1)],
        *[(name, {"solver": solver}) for name in ("leverage", "svd") for solver in ("x", "", None)],
        *[("osnap", {"s": s}) for s in (0, -1)],
        *[("fjlt", {"c": c}) for c in (0, -1.0, float("nan"), float("inf"))],
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused(name, params):
    with pytest.raises(UserError, match=f"{next(iter(params))} = "):
        reducers.make(name, params)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("approx_svd", {"svd_eps": "a third"}),
        ("laplacian_score", {"n_neighbors": "5"}),
        ("laplacian_score", {"n_neighbors": 2.5}),
        ("laplacian_score", {"width_sample": 1e3}),
        ("laplacian_score", {"width_sample": True}),
        *[(name, {"centred": value}) for name in ("leverage", "leverage_sqrt", "svd") for value in ("yes", 1, None)],
        *[(name, {"merged": value}) for name in ("leverage", "leverage_sqrt") for value in ("no", 0, None, [])],
        ("leverage_approx", {"merged": "drawn"}),
        ("osnap", {"s": 1.5}),
        ("fjlt", {"c": "2"}),
        ("laplacian_score", {"metric": "manhattan"}),
        ("laplacian_score", {"weights": "heat"}),
        ("laplacian_score", {"loops": 1}),
        *[("lle", {"ridge": value}) for value in (-1e-3, 1, "0", True, float("nan"))],
        ("lle", {"constant": 0}),
    ],
    ids=str,
)
def test_parameters_of_the_wrong_type_are_refused(name, params):
    with pytest.raises(UserError, match=rf"\b{next(iter(params))}\b"):
        reducers.make(name, params)


# --- none, svd


def test_none_is_the_matrix_itself(rng):
    for layout in LAYOUTS:
        A = in_layout(data(rng), layout)
        assert run("none", {}, A, 5) is A


def same_up_to_signs(C, expected, atol):
    signs = np.sign(np.einsum("ij,ij->j", C, expected))
    np.testing.assert_allclose(C * signs, expected, atol=atol, rtol=0)


@pytest.mark.parametrize("shape", [(50, 20), (20, 50), (30, 30)])
def test_svd_gives_scores_on_the_top_singular_vectors(shape, rng):
    A = rng.standard_normal(shape)
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    same_up_to_signs(run("svd", {}, A, 11), (U * s)[:, :K], 1e-8)
    same_up_to_signs(run("svd", {"rank": "r"}, A, 11), (U * s)[:, :11], 1e-8)


@pytest.mark.parametrize("shape", [(50, 20), (20, 50)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("solver", ["kmdr", "lapack"])
def test_centred_svd_gives_the_scores_of_principal_components(shape, layout, solver, rng):
    A = in_layout(data(rng, *shape) + (layout.startswith("dense") * 50.0), layout)
    for params, width in [({}, K), ({"rank": "r"}, 11)]:
        C = run("svd", {"centred": True, "solver": solver, **params}, A, 11)
        expected = PCA(width, svd_solver="full").fit_transform(dense_of(A).astype(np.float64))
        same_up_to_signs(C, expected, 1e-8 if A.dtype == np.float64 else 1e-3)


def test_new_points_are_centred_by_the_mean_of_the_old(rng):
    A, new = data(rng) + 50, data(rng, n=7) + 50
    model = reducers.SVD(4, centred=True).fit(A)
    same_up_to_signs(model.transform(new), PCA(4, svd_solver="full").fit(A).transform(new), 1e-8)


@pytest.mark.parametrize("params", [{"rank": "r"}, {"rank": "r", "centred": True}])
def test_both_solvers_give_the_same_vectors(params, rng):
    for shape in ((70, 30), (30, 70)):
        A = rng.standard_normal(shape)
        first, second = (run("svd", {"solver": solver, **params}, A, 9) for solver in ("kmdr", "lapack"))
        np.testing.assert_allclose(first, second, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "params"),
    [(name, params) for name in ("svd", "leverage") for params in ({"solver": "lapack"}, {"centred": True})],
)
def test_what_needs_dense_data_refuses_what_does_not_fit(name, params, monkeypatch, rng):
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1}[name])
    with pytest.raises(UserError, match=rf"{name} needs .* GiB for a (dense|centred) copy"):
        reducers.make(name, params).prepare(in_layout(data(rng), "csr64"), K, rng)


@pytest.mark.parametrize("params", [{}, {"rank": "r"}])
def test_approx_svd_of_a_matrix_of_low_rank_is_the_svd(params, rng):
    A = rng.standard_normal((50, K)) @ rng.standard_normal((K, 40))
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    same_up_to_signs(run("approx_svd", params, A, K), (U * s)[:, :K], 1e-8)


@pytest.mark.parametrize("eps", [1 / 3, 0.5])
def test_approx_svd_passes_its_eps_on(eps, rng):
    A = rng.standard_normal((70, 60))
    for params, rank in [({"svd_eps": eps}, K), ({"svd_eps": eps, "rank": "r"}, 5)]:
        # rank k draws in prepare ([5, 0]), rank r in reduce ([5, 1])
        Z = fast_frobenius_svd(A, rank, eps, np.random.default_rng([5, int("rank" in params)]))
        np.testing.assert_allclose(run("approx_svd", params, A, 5), A @ Z, atol=1e-10)


# --- random_sign


def matrix_of(name, d, r, rng, dtype=np.float64, params=None):
    """The d×r matrix that a linear reducer multiplies with: its value at the identity."""
    return reducers.make(name, params).reduce(sp.eye_array(d, format="csr", dtype=dtype), r, rng, None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("d", "r"), [(40, 1), (13, 7), (40, 64), (3, 100)])
def test_random_sign_is_a_product_with_plus_and_minus_one_over_root_r(dtype, d, r, rng):
    R = matrix_of("random_sign", d, r, np.random.default_rng(8), dtype)
    assert set(np.abs(R).ravel().tolist()) == {float(dtype(1 / np.sqrt(r)))}
    A = data(rng, 20, d).astype(dtype)
    C = reducers.make("random_sign").reduce(A, r, np.random.default_rng(8), None)
    np.testing.assert_allclose(C, A.astype(np.float64) @ R, atol=1e-12 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize(("d", "r"), [(4000, 256), (8192, 125)])
def test_random_signs_are_fair_and_independent(d, r, rng, assert_frequencies):
    bits = (matrix_of("random_sign", d, r, rng) > 0).astype(int)
    assert_frequencies(np.bincount(bits.ravel(), minlength=2), [1 / 2, 1 / 2])
    # All patterns of eight successive entries, 4000 each: every dependence within such a block would show.
    octets = bits.reshape(-1, 8) @ (1 << np.arange(8))
    assert_frequencies(np.bincount(octets, minlength=256), np.full(256, 1 / 256))
    # Neighbours along a row, along a column, eight apart and diagonal, in disjoint pairs.
    even = 2 * (r // 2)
    for first, second in [
        (bits[:, 0:even:2], bits[:, 1:even:2]),
        (bits[0::2], bits[1::2]),
        (bits[0::2, :-1], bits[1::2, 1:]),
        (bits[:, 0:8], bits[:, 8:16]),
    ]:
        assert_frequencies(np.bincount((2 * first + second).ravel(), minlength=4), np.full(4, 1 / 4))


def test_random_sign_columns_are_each_balanced(rng):
    # Hoeffding: a sum of d signs exceeds √(2 d ln(2m/1e-7)) with probability ≤ 1e-7/m, for m columns and rows.
    d, r = 3000, 500
    R = matrix_of("random_sign", d, r, rng) * np.sqrt(r)
    m = d + r
    assert np.abs(R.sum(axis=0)).max() <= np.sqrt(2 * d * np.log(2 * m / 1e-7))
    assert np.abs(R.sum(axis=1)).max() <= np.sqrt(2 * r * np.log(2 * m / 1e-7))


@pytest.mark.parametrize(("r", "repeats"), [(1, 20_000), (4, 10_000), (50, 2000), (200_000, 1)])
def test_random_sign_keeps_squared_lengths_on_average(r, repeats, rng):
    # Mean of N = r·repeats squares (x·s)² with ‖x‖ = 1: P(|mean − 1| ≥ e) ≤ 2 exp(−N(e²/4 − e³/6)) (Achlioptas 2003,
    # Lemmas 5.1 and 5.2). Solved for 1e-7 over the five rows.
    x = np.vstack([rng.standard_normal((3, 12)), np.ones(12), np.eye(12)[0]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    reducer = reducers.make("random_sign")
    squares = np.mean([np.sum(reducer.reduce(x, r, rng, None) ** 2, axis=1) for _ in range(repeats)], axis=0)
    e = np.linspace(0, 1, 10_001)
    e = e[np.argmax(r * repeats * (e**2 / 4 - e**3 / 6) >= np.log(2 * 5 / 1e-7))]
    assert 0 < e < 0.1
    assert np.abs(squares - 1).max() < e
    assert squares[4] == pytest.approx(1, abs=1e-12)  # a coordinate vector keeps its length always


# --- sparse_embedding


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("d", "r"), [(40, 1), (40, 7), (5, 30)])
def test_sparse_embedding_is_a_product_with_one_sign_a_feature(layout, d, r, rng):
    QPhi = matrix_of("sparse_embedding", d, r, np.random.default_rng(8))
    assert np.count_nonzero(QPhi, axis=1).tolist() == [1] * d
    assert set(np.abs(QPhi).sum(axis=1).tolist()) == {1.0}
    A = in_layout(data(rng, 20, d), layout)
    C = reducers.make("sparse_embedding").reduce(A, r, np.random.default_rng(8), None)
    np.testing.assert_allclose(C, dense_of(A) @ QPhi, atol=1e-12 if A.dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("r", [2, 7, 64])
def test_sparse_embedding_buckets_and_signs_are_uniform_and_independent(r, rng, assert_frequencies):
    draws = [matrix_of("sparse_embedding", 2000, r, rng) for _ in range(70)]
    bucket = np.concatenate([np.abs(QPhi).argmax(axis=1) for QPhi in draws])
    sign = np.concatenate([QPhi.sum(axis=1) > 0 for QPhi in draws]).astype(int)
    both = 2 * bucket + sign
    assert_frequencies(np.bincount(both, minlength=2 * r), np.full(2 * r, 1 / (2 * r)))
    # Neighbouring features, in disjoint pairs; buckets by their parity, which for odd r is not quite fair.
    coarse = 2 * (bucket % 2) + sign
    odd = (r // 2) / r
    p = np.array([1 - odd, 1 - odd, odd, odd]) / 2
    assert_frequencies(np.bincount(4 * coarse[0::2] + coarse[1::2], minlength=16), np.outer(p, p))


@pytest.mark.parametrize("r", [1, 3, 20])
def test_sparse_embedding_keeps_inner_products_on_average(r, rng, bernstein):
    # (CCᵀ)_ab − a·b = Σ_{i≠j, one bucket} s_i s_j a_i b_j: mean 0, at most 2|a|₁|b|₁ in modulus, and of variance
    # (1/r)(‖a‖²‖b‖² + (a·b)² − 2Σa_i²b_i²) ≤ (2/r)‖a‖²‖b‖².
    A, repeats = rng.standard_normal((4, 6)), 8000
    reducer = reducers.make("sparse_embedding")
    draws = (reducer.reduce(A, r, rng, None) for _ in range(repeats))
    mean = sum(C @ C.T for C in draws) / repeats
    l2, l1 = np.linalg.norm(A, axis=1), np.abs(A).sum(axis=1)
    h = bernstein(repeats, 2 / r * np.outer(l2, l2) ** 2, 2 * np.outer(l1, l1), level=1e-7 / 10)
    assert (np.abs(mean - A @ A.T) < h).all()


# --- leverage sampling


def numpy_leverage(A, k):
    return (np.linalg.svd(A, full_matrices=False)[2][:k] ** 2).sum(axis=0) / k


@pytest.mark.parametrize("name", ["leverage", "leverage_approx"])
@pytest.mark.parametrize("shape", [(50, 20), (18, 25)])
def test_leverage_sampling_draws_by_the_scores_and_rescales(name, shape, rng, assert_frequencies):
    # For the approximate scores rank(A) = k, where they are exact.
    A = rng.standard_normal(shape)
    if name == "leverage_approx":
        A = A[:, :K] @ rng.standard_normal((K, shape[1]))
    d, r = shape[1], 400_000
    p = numpy_leverage(A, K)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    reducer = reducers.make(name)
    state = reducer.prepare(A, K, rng)
    # On the identity the sample shows what was drawn and its factor.
    C = reducer.reduce(np.eye(d), 8000, rng, state)
    assert (np.count_nonzero(C, axis=0) == 1).all()
    drawn = C.argmax(axis=0)
    np.testing.assert_allclose(C[drawn, np.arange(8000)], 1 / np.sqrt(8000 * p[drawn]), rtol=1e-9)
    # The same in bulk by a row that numbers the columns, rid of the factors.
    numbers = reducer.reduce(np.arange(1.0, d + 1)[None, :] * np.sqrt(p), r, rng, state)[0] * np.sqrt(r)
    np.testing.assert_allclose(numbers, np.rint(numbers), atol=1e-6)
    assert_frequencies(np.bincount(np.rint(numbers).astype(int) - 1, minlength=d), p)


def test_leverage_draws_are_independent_of_each_other(rng, assert_frequencies):
    A, r = rng.standard_normal((30, 6)), 200_000
    p = numpy_leverage(A, K)
    reducer = reducers.make("leverage")
    numbers = reducer.reduce(np.arange(1.0, 7)[None, :] * np.sqrt(p), r, rng, reducer.prepare(A, K, rng))[0]
    drawn = np.rint(numbers * np.sqrt(r)).astype(int) - 1
    assert_frequencies(np.bincount(6 * drawn[0::2] + drawn[1::2], minlength=36), np.outer(p, p))


@pytest.mark.parametrize(("r", "repeats"), [(1, 8000), (10, 3000), (100_000, 1)])
@pytest.mark.parametrize("name", ["leverage", "leverage_approx"])
def test_leverage_sampling_keeps_inner_products_on_average(name, r, repeats, rng, bernstein):
    # CCᵀ is a mean of r i.i.d. terms A_i A_iᵀ/p_i with expectation AAᵀ, entry variance Σ a_i²b_i²/p_i − (a·b)², and
    # entries at most max |a_i b_i|/p_i in modulus.
    A = rng.standard_normal((12, 9))
    reducer = reducers.make(name)
    state = reducer.prepare(A, K, rng)
    p = numpy_leverage(A, K) if name == "leverage" else state
    mean = sum(C @ C.T for C in (reducer.reduce(A, r, rng, state) for _ in range(repeats))) / repeats
    terms = A[:, None, :] * A[None, :, :]
    variance = (terms**2 / p).sum(axis=2) - (A @ A.T) ** 2
    bound = (np.abs(terms) / p).max(axis=2) + np.abs(A @ A.T)
    assert (np.abs(mean - A @ A.T) < bernstein(r * repeats, variance, bound, level=1e-7 / 78)).all()


def test_leverage_never_draws_a_feature_without_weight(rng):
    A = rng.standard_normal((30, 10))
    A[:, 4] = 0
    for name in ("leverage", "leverage_approx"):
        reducer = reducers.make(name)
        C = reducer.reduce(A, 5000, rng, reducer.prepare(A, K, rng))
        assert np.isfinite(C).all()
        assert (np.abs(C).sum(axis=0) > 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_centred_leverage_scores_are_those_of_principal_components(layout, rng):
    A = in_layout(data(rng), layout)
    V = PCA(K, svd_solver="full").fit(dense_of(A).astype(np.float64)).components_
    scores = (V**2).sum(axis=0)
    for solver in ("kmdr", "lapack"):
        p = reducers.make("leverage", {"centred": True, "solver": solver}).prepare(A, K, rng)
        np.testing.assert_allclose(p, scores / K, atol=1e-8)
    norms = np.sqrt(scores)
    p = reducers.make("leverage_sqrt", {"centred": True}).prepare(A, K, rng)
    np.testing.assert_allclose(p, norms / norms.sum(), atol=1e-8)
    # The columns are those of A, not of the centred matrix.
    C = run("leverage", {"centred": True}, A, 5)
    columns = dense_of(A) / np.linalg.norm(dense_of(A), axis=0)
    assert (np.abs(columns.T @ (C / np.linalg.norm(C, axis=0)) - 1).min(axis=0) < 1e-5).all()


def merged_draw_by_draw(p, r, seed):
    """One draw at a time, and a count of each column, until r have come up."""
    rng, counts = np.random.default_rng(seed), {}
    while len(counts) < r:
        column = int(rng.choice(len(p), p=p))
        counts[column] = counts.get(column, 0) + 1
    return counts


@pytest.mark.parametrize("r", [1, 2, 7, 12])
def test_merged_columns_are_those_of_draws_one_by_one(r, rng):
    p = np.exp(2 * rng.standard_normal(12))
    p /= p.sum()
    for seed in range(30):
        columns, scale = leverage.sample_distinct_columns(p, r, np.random.default_rng(seed))
        counts = merged_draw_by_draw(p, r, seed)
        M = sum(counts.values())
        assert columns.tolist() == list(counts)
        expected = [np.sqrt(times / (M * p[column])) for column, times in counts.items()]
        np.testing.assert_allclose(scale, expected, rtol=1e-12)
        # CCᵀ is that of all M draws, each with 1/√(M p_i).
        A = rng.standard_normal((5, 12))
        kept = [A[:, column] / np.sqrt(M * p[column]) for column in counts for _ in range(counts[column])]
        C = A[:, columns] * scale
        np.testing.assert_allclose(C @ C.T, np.array(kept).T @ np.array(kept), atol=1e-9)


def test_merged_columns_that_cannot_come_up_are_refused(monkeypatch, rng):
    with pytest.raises(UserError, match=r"r = 3 distinct .* only 2 have a positive"):
        leverage.sample_distinct_columns(np.array([0.5, 0, 0.5]), 3, rng)
    monkeypatch.setattr(leverage, "_MOST_DRAWS", 1000)
    with pytest.raises(UserError, match=r"r = 3 distinct columns .* draws gave only 2"):
        leverage.sample_distinct_columns(np.array([0.5, 1e-30, 0.5]), 3, rng)


def test_leverage_without_rescaling_takes_the_same_columns_as_they_are(rng):
    """Same draws; each column of C is one of A, and rescaling is by √(1/(r p_i)) with p from numpy's SVD."""
    A = data(rng)
    plain, rescaled = run("leverage", {"rescaled": False}, A, 7), run("leverage", {}, A, 7)
    scores = (np.linalg.svd(A)[2][:3] ** 2).sum(axis=0) / 3
    for column, other in zip(plain.T, rescaled.T, strict=True):
        i = int(np.flatnonzero((column[:, None] == A).all(axis=0))[0])
        np.testing.assert_allclose(other, A[:, i] / np.sqrt(7 * scores[i]), rtol=1e-10)


def test_merged_leverage_takes_each_column_once(rng):
    C = run("leverage", {"merged": True}, data(rng), D)
    columns = C / np.linalg.norm(C, axis=0)
    assert np.abs(np.triu(columns.T @ columns, 1)).max() < 1 - 1e-6
    assert C.shape == (N, D)


SAMPLING = ("leverage", "leverage_approx", "leverage_sqrt")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rescaled", [True, False])
@pytest.mark.parametrize("name", SAMPLING)
def test_repeated_columns_of_r_draws_are_merged_or_dropped(name, rescaled, layout, rng):
    """Against a loop over the columns that are kept: same draws, a column once, its factor by how often it came up."""
    A, r = in_layout(data(rng), layout), 60
    kept, drawn, once = (run(name, {"rescaled": rescaled, "merged": how}, A, r) for how in (False, "draws", "dropped"))
    times, columns = [], []  # how often each of the different columns was drawn, in the order of the first draws
    for column in kept.T:
        place = next((i for i, other in enumerate(columns) if (other == column).all()), None)
        if place is None:
            columns.append(column)
            times.append(1)
        else:
            times[place] += 1
    assert max(times) > 1
    np.testing.assert_array_equal(once, np.array(columns).T)
    np.testing.assert_allclose(drawn, np.array(columns).T * np.sqrt(times), rtol=1e-6)
    # What k-means sees of C, the inner products of the points, is what it was, however the repeats are written.
    limit = tolerance(A.dtype) * np.abs(kept @ kept.T).max()
    np.testing.assert_allclose(drawn @ drawn.T, kept @ kept.T, atol=limit)


@pytest.mark.parametrize("name", SAMPLING)
def test_a_transformer_names_the_columns_it_has_when_repeats_are_merged(name, rng):
    A = data(rng)
    reducer = reducers.make(name, {"merged": "draws"}).set_params(n_components=60, n_clusters=K, random_state=0)
    C = reducer.fit_transform(A)
    assert C.shape[1] == len(reducer.get_feature_names_out()) < 60


def test_approximate_vectors_of_the_centred_matrix_are_exact_where_its_rank_is_low(rng):
    """A of rank k after centring, far from rank k before: scores and projections are those of exact PCA."""
    A = rng.standard_normal((40, K)) @ rng.standard_normal((K, 20)) + 5 * rng.standard_normal(20)
    exact, approximate = (
        reducers.make(name, {"centred": True}).prepare(A, K, rng) for name in ("leverage", "leverage_approx")
    )
    np.testing.assert_allclose(approximate, exact, atol=1e-9)
    assert np.abs(reducers.make("leverage_approx").prepare(A, K, rng) - exact).max() > 1e-3
    scores = PCA(K, svd_solver="full").fit_transform(A)
    same_up_to_signs(run("approx_svd", {"centred": True}, A, K), scores, 1e-8)


@pytest.mark.parametrize(("n", "d"), [(30, 12), (12, 30), (12, 12)])
def test_ridge_leverage_needs_room_for_two_gram_matrices_of_the_shorter_side(n, d, monkeypatch, rng):
    """They may take half of the memory, so a machine with two times as much as both will do, and no smaller one."""
    enough = 2 * (2 * 8 * 12**2)
    monkeypatch.setattr(base, "memory", lambda: enough)
    assert run("ridge_leverage", {}, rng.random((n, d)), 5).shape == (n, 5)
    monkeypatch.setattr(base, "memory", lambda: enough - 1)
    with pytest.raises(UserError, match=r"^ridge_leverage needs .* GiB for the Gram matrix of 12 rows"):
        run("ridge_leverage", {}, rng.random((n, d)), 5)


# --- laplacian_score


def distances(A):
    return np.array([[np.sqrt(sum((x - y) ** 2)) for y in A] for x in A])


def brute_graph(A, n_neighbors):
    """Union of the kNN relations with heat-kernel weights, point by point."""
    n, distance = len(A), distances(A)
    t = distance.mean()
    W = np.zeros((n, n))
    for i in range(n):
        others = [j for j in np.argsort(distance[i], kind="stable") if j != i]
        for j in others[:n_neighbors]:
            W[i, j] = W[j, i] = np.exp(-(distance[i, j] ** 2) / (2 * t**2)) if t else 1.0
    return W


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize(("metric", "weights"), [("cosine", "kernel"), ("cosine", "binary"), ("euclidean", "binary")])
def test_scores_of_other_graphs_are_those_of_a_loop_over_the_points(metric, weights, loops, layout, rng):
    dense = data(rng) - 0.3
    if (metric, weights) != ("cosine", "binary"):
        dense[7] = 0  # without a direction, and by angle as near to any as to any other
    A = in_layout(dense, layout)
    dense = dense_of(A).astype(np.float64)
    n, norms = len(dense), np.linalg.norm(dense, axis=1)
    cosines = np.array([[x @ y / (s * t) if s * t else 0.0 for y, t in zip(dense, norms, strict=True)]
                        for x, s in zip(dense, norms, strict=True)])  # fmt: skip
    far = distances(dense) if metric == "euclidean" else 1 - cosines
    if metric == "cosine" and weights == "kernel":
        far[7] = far[:, 7] = 0.5  # of a zero from the sphere: ½·1²
    W = np.zeros((n, n))
    for i in range(n):
        for j in [j for j in np.argsort(far[i], kind="stable") if j != i][:5]:
            W[i, j] = W[j, i] = 1.0 if weights == "binary" else max(cosines[i, j], 0.0)
    expected = brute_scores(dense, W + np.eye(n) * loops)
    params = {"metric": metric, "weights": weights, "loops": loops}
    order = reducers.make("laplacian_score", params).prepare(A, K, rng)
    limit = 1e-9 if A.dtype == np.float64 else 1e-4
    assert (np.diff(expected[order]) > -limit).all()


def brute_scores(A, W):
    """He, Cai, Niyogi 2005, formulas (2) to (4), a feature at a time with the dense Laplacian."""
    degree = W.sum(axis=1)
    L, scores = np.diag(degree) - W, []
    for f in A.T:
        tilde = f - (f @ degree) / degree.sum()
        variance = tilde @ np.diag(degree) @ tilde
        scores.append(tilde @ L @ tilde / variance if variance > 1e-12 else 1.0)
    return np.array(scores)


@pytest.mark.parametrize("n_neighbors", [1, 3, 5])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_laplacian_graph_and_scores_equal_their_definition(layout, n_neighbors, rng):
    A = in_layout(data(rng), layout)
    W = heat_kernel_graph(A, n_neighbors, rng)
    expected = brute_graph(dense_of(A).astype(np.float64), n_neighbors)
    np.testing.assert_array_equal((W != 0).toarray(), expected != 0)
    np.testing.assert_allclose(W.toarray(), expected, atol=tolerance(A.dtype))
    assert abs(W - W.T).max() == 0
    assert W.diagonal().max() == 0
    assert (W.toarray() > 0).sum(axis=1).min() >= n_neighbors
    assert W.nnz <= 2 * N * n_neighbors
    scores = laplacian_scores(A, W)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, brute_scores(dense_of(A), W.toarray()), atol=tolerance(A.dtype))
    np.testing.assert_allclose(laplacian_scores_reference(dense_of(A), W), scores, atol=tolerance(A.dtype))
    assert laplacian_scores_error(A, W, scores, rng) < tolerance(A.dtype)
    assert laplacian_scores_error(A, W, scores + 1e-3, rng) > 5e-4
    assert scores.min() >= 0
    assert scores.max() <= 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_laplacian_reducer_takes_the_features_of_smallest_score_in_order(layout, rng):
    A = in_layout(data(rng), layout)
    dense = dense_of(A)
    scores = brute_scores(dense.astype(np.float64), brute_graph(dense.astype(np.float64), 5))
    assert np.diff(np.sort(scores)).min() > 1e-6  # or the order would be a matter of rounding
    for r in (1, 6, D):
        np.testing.assert_array_equal(run("laplacian_score", {}, A, r), dense[:, np.argsort(scores)[:r]])


@pytest.mark.parametrize("layout", ["dense64", "csr64"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 255.0, 1e5])
def test_constant_features_score_one(layout, value, rng):
    # Several graphs: rounding decides whether a difference of equal large sums comes out as 0.
    for n in range(50, 200, 10):
        dense = data(rng, n=n)
        W = heat_kernel_graph(dense, 5, rng)
        dense[:, [2, 30]] = value
        scores = laplacian_scores(in_layout(dense, layout), W)
        np.testing.assert_array_equal(scores[[2, 30]], 1)
        others = np.setdiff1d(np.arange(D), [2, 30])
        np.testing.assert_allclose(scores[others], brute_scores(dense[:, others], W.toarray()), atol=1e-9)


@pytest.mark.parametrize("layout", ["dense64", "csr64"])
def test_scores_do_not_change_with_shift_and_scale(layout, rng):
    dense = data(rng)
    W = heat_kernel_graph(dense, 5, rng)
    moved = (dense * rng.uniform(0.5, 20, size=D)) + rng.uniform(-100, 100, size=D)
    np.testing.assert_allclose(laplacian_scores(in_layout(moved, layout), W), laplacian_scores(dense, W), atol=1e-8)


@pytest.mark.parametrize("layout", ["dense64", "csr64"])
def test_equal_scores_go_by_index(layout, rng):
    dense = data(rng)
    dense[:, 20:] = dense[:, :20]
    C = run("laplacian_score", {}, in_layout(dense, layout), D)
    np.testing.assert_array_equal(C[:, 0::2], C[:, 1::2])


@pytest.mark.parametrize("layout", ["dense64", "csr64"])
def test_coinciding_points_are_neighbours_of_weight_one(layout, rng):
    # Each point twice: its five neighbours are its copy and two more pairs, so no tie is cut.
    dense = np.repeat(data(rng, n=30), 2, axis=0)
    W = heat_kernel_graph(in_layout(dense, layout), 5, rng)
    np.testing.assert_allclose(W.toarray(), brute_graph(dense, 5), atol=1e-7)
    np.testing.assert_allclose([W[i, i ^ 1] for i in range(60)], 1, atol=1e-12)


@pytest.mark.parametrize("layout", ["dense64", "csr64"])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_identical_points_give_weights_and_scores_of_one(layout, value, rng):
    A = in_layout(np.full((20, 4), value), layout)
    W = heat_kernel_graph(A, 5, rng)
    assert set(W.data.tolist()) == {1.0}
    assert (W.toarray() > 0).sum(axis=1).min() >= 5
    np.testing.assert_array_equal(laplacian_scores(A, W), 1)


def widths(A, W):
    """The t of each edge, from its weight exp(−‖x − y‖²/(2t²))."""
    i, j = W.nonzero()
    squares = ((dense_of(A)[i] - dense_of(A)[j]) ** 2).sum(axis=1)
    return np.sqrt(squares / (-2 * np.log(W.toarray()[i, j])))


@pytest.mark.parametrize("layout", ["dense64", "csr64"])
def test_kernel_width_is_estimated_on_a_sample_of_a_large_data_set(layout, rng):
    n, m = 600, 400
    A = in_layout(data(rng, n=n), layout)
    distance = np.linalg.norm(dense_of(A)[:, None] - dense_of(A), axis=2)
    exact = widths(A, heat_kernel_graph(A, 5, np.random.default_rng(1)))
    np.testing.assert_allclose(exact, distance.mean(), rtol=1e-6)
    whole = widths(A, heat_kernel_graph(A, 5, np.random.default_rng(1), None))
    np.testing.assert_array_equal(whole, exact)
    sampled = widths(A, heat_kernel_graph(A, 5, np.random.default_rng(1), m))
    np.testing.assert_allclose(sampled, sampled[0], rtol=1e-6)
    assert abs(sampled[0] / exact[0] - 1) > 1e-9
    # Over the m points t = (m − 1)/m · U, U the mean distance of pairs, whose expectation is that over all n points.
    # Hoeffding (1963, §5b, and §6 for draws without replacement): P(|U − E U| ≥ h) ≤ 2 exp(−2⌊m/2⌋h²/range²) = 1e-7.
    U, expected = sampled[0] * m / (m - 1), distance.sum() / (n * (n - 1))
    assert abs(U - expected) < distance.max() * np.sqrt(np.log(2e7) / (2 * (m // 2)))


def test_the_graph_has_no_randomness_up_to_the_sample_size(rng):
    A = data(rng)
    first, second = (heat_kernel_graph(A, 5, np.random.default_rng(seed)) for seed in (1, 2))
    assert abs(first - second).max() == 0


DETERMINISTIC = [variant for variant in VARIANTS if reducers.make(*variant).deterministic]


@pytest.mark.parametrize(("name", "params"), DETERMINISTIC, ids=str)
def test_a_reducer_that_says_it_is_deterministic_is_so_on_large_data_too(name, params, rng):
    A = data(rng)
    with treat_as_out_of_core(100):
        np.testing.assert_array_equal(run(name, params, A, 9, seed=5), run(name, params, A, 9, seed=6))


def test_laplacian_scores_do_not_say_that_they_are_deterministic_because_of_their_sample(rng):
    # Of 400 features some have nearly equal scores, which change places with the kernel width.
    A, reducer = data(rng, n=90, d=400), reducers.make("laplacian_score", {"width_sample": 30})
    orders = [reducer.prepare(A, K, np.random.default_rng(seed)) for seed in range(20)]
    assert not all(np.array_equal(a, b) for a, b in itertools.pairwise(orders))
    assert not reducer.deterministic


# --- the variants of leverage sampling, and selections


def test_square_root_leverage_samples_by_the_norm(rng):
    A = data(rng)
    norms = np.linalg.norm(np.linalg.svd(A, full_matrices=False)[2][:K], axis=0)
    p = reducers.make("leverage_sqrt").prepare(A, K, rng)
    np.testing.assert_allclose(p, norms / norms.sum(), atol=1e-8)


def test_ridge_leverage_refuses_a_gram_matrix_that_does_not_fit(monkeypatch, rng):
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}[name])
    with pytest.raises(UserError, match=r"ridge_leverage needs .* GiB for the Gram matrix of 40 rows"):
        reducers.make("ridge_leverage").prepare(data(rng), K, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_variance_takes_the_most_variable_features_in_order(layout, rng):
    dense = data(rng) * rng.random(D)
    expected = np.argsort(-np.var(dense, axis=0))[:7]
    C = run("variance", {}, in_layout(dense, layout), 7)
    np.testing.assert_allclose(C, dense[:, expected], rtol=1e-6)


def test_top_leverage_takes_the_largest_scores_in_order(rng):
    A = data(rng) * np.exp(rng.standard_normal(D))
    scores = np.sum(np.linalg.svd(A)[2][:K] ** 2, axis=0)
    np.testing.assert_array_equal(run("top_leverage", {}, A, 7), A[:, np.argsort(-scores)[:7]])


# --- the other random matrices


@pytest.mark.parametrize("r", [1, 7, 70])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_mailman_gives_what_random_sign_gives(r, layout, rng):
    A = in_layout(data(rng), layout)
    plain, mailman = run("random_sign", {}, A, r), run("random_sign_mailman", {}, A, r)
    np.testing.assert_allclose(plain, mailman, atol=tolerance(A.dtype) * np.abs(plain).max())


def drawn_matrix(name, d, r, rng, params=None):
    """R, as the image of the identity under a map drawn for d features."""
    reducer = reducers.make(name, params)
    return reducer.apply(sp.eye_array(d, format="csr"), reducer.draw(np.empty((3, d)), r, rng, None))


def test_gaussian_entries_are_normal_and_independent(rng):
    d, r = 2000, 50
    R = drawn_matrix("gaussian", d, r, rng) * np.sqrt(r)
    assert kstest(R.ravel(), "norm").pvalue > 1e-8
    # Products of neighbours: mean 0, variance 1; a sum of 5e4 of them is normal to many digits.
    for first, second in [(R[:, 0::2], R[:, 1::2]), (R[0::2], R[1::2])]:
        assert abs(np.mean(first * second)) <= 6 / np.sqrt(first.size)


def test_achlioptas_entries(rng, assert_frequencies):
    d, r = 3000, 30
    R = drawn_matrix("achlioptas", d, r, rng)
    kind = np.round(R / np.sqrt(3 / r)).astype(int)
    np.testing.assert_allclose(R, kind * np.sqrt(3 / r))
    p = np.array([1 / 6, 2 / 3, 1 / 6])
    assert_frequencies(np.bincount(kind.ravel() + 1, minlength=3), p)
    assert_frequencies(np.bincount((3 * (kind[0::2] + 1) + kind[1::2] + 1).ravel(), minlength=9), np.outer(p, p))
    assert_frequencies(np.bincount((3 * (kind[:, 0::2] + 1) + kind[:, 1::2] + 1).ravel(), minlength=9), np.outer(p, p))


@pytest.mark.parametrize(("d", "r", "s"), [(40, 7, 4), (13, 3, 5), (30, 8, 1), (9, 12, 12)])
def test_osnap_has_one_entry_in_each_block(d, r, s, rng, assert_frequencies):
    S = drawn_matrix("osnap", d, r, rng, {"s": s})
    s = min(s, r)
    assert np.count_nonzero(S, axis=1).tolist() == [s] * d
    np.testing.assert_allclose(np.abs(S[S != 0]), 1 / np.sqrt(s))
    blocks = np.array_split(np.arange(r), s)
    for block in blocks:
        assert (np.count_nonzero(S[:, block], axis=1) == 1).all()
    many = drawn_matrix("osnap", 30_000, r, rng, {"s": s})
    for block in blocks:
        counts = np.concatenate([(many[:, block] > 0).sum(axis=0), (many[:, block] < 0).sum(axis=0)])
        assert_frequencies(counts, np.full(2 * len(block), 1 / (2 * len(block))))


# --- randomised Hadamard transforms


def explicit_rotation(A, signs):
    m = padded(A.shape[1])
    X = np.zeros((len(A), m))
    X[:, : A.shape[1]] = A * signs
    return X @ hadamard(m) / np.sqrt(m)


@pytest.mark.parametrize("d", [1, 16, 23])
@pytest.mark.parametrize(("name", "r"), [("fjlt", 9), ("srht", 5)])
def test_hadamard_reducers_are_their_matrices(name, r, d, rng):
    A = rng.standard_normal((30, d))
    r = min(r, padded(d)) if name == "srht" else r
    reducer = reducers.make(name)
    state = reducer.prepare(A, K, rng)
    signs, P = reducer.draw(A, r, np.random.default_rng(7), state)
    assert set(np.abs(signs)) == {1.0}
    expected = explicit_rotation(A, signs) @ P.toarray().T
    np.testing.assert_allclose(reducer.reduce(A, r, np.random.default_rng(7), state), expected, atol=1e-12)


@pytest.mark.parametrize(("n", "d", "c"), [(50, 100, 2.0), (1000, 4096, 2.0), (10, 8, 2.0)])
def test_fjlt_fills_p_as_the_paper_says(n, d, c, rng, assert_frequencies):
    r, width = 300, padded(d)
    q = min(1.0, c * np.log(n) ** 2 / width)
    P = reducers.make("fjlt", {"c": c}).mixture(n, width, r, rng)
    assert P.shape == (r, width)
    P.check_format(full_check=True)
    assert binom.ppf(1e-9, r * width, q) <= P.nnz <= binom.isf(1e-9, r * width, q)
    assert kstest(P.data * np.sqrt(q * r), "norm").pvalue > 1e-8
    halves = [P[:150].nnz, P[150:].nnz, P[:, : width // 2].nnz, P[:, width // 2 :].nnz]
    assert_frequencies(halves[:2], [0.5, 0.5])
    assert_frequencies(halves[2:], [0.5, 0.5])


def test_successes_are_independent_trials(rng, assert_frequencies):
    for q in (0.02, 0.5, 1.0):
        positions = successes(200_000, q, rng)
        assert (np.diff(positions) > 0).all()
        hit = np.zeros(200_000, dtype=int)
        hit[positions] = 1
        if q < 1:
            p = np.array([1 - q, q])
            assert_frequencies(np.bincount(2 * hit[0::2] + hit[1::2], minlength=4), np.outer(p, p))
        else:
            assert hit.all()


def test_srht_takes_different_coordinates_uniformly(rng, assert_frequencies):
    reducer = reducers.make("srht")
    draws = [reducer.mixture(5, 16, 3, rng) for _ in range(8000)]
    for P in draws[:50]:
        assert np.count_nonzero(P.toarray(), axis=1).tolist() == [1, 1, 1]
        assert np.count_nonzero(P.toarray(), axis=0).max() == 1
        np.testing.assert_allclose(P.data, np.sqrt(16 / 3))
    assert_frequencies(np.bincount(np.concatenate([P.indices for P in draws]), minlength=16), np.full(16, 1 / 16))
