"""The loaders of NIPS, COIL-20, PIE, LIGHT and Bio, on real files where there are any and on files written here.

Loading through the registry, the cache and prepared folders is tested in ``test_datasets.py``.
"""

import bz2
import hashlib
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from PIL import Image
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from kmdr import datasets
from kmdr.datasets.acquire.archives import UnverifiedError
from kmdr.datasets.acquire.find import sha256_of
from kmdr.datasets.command import fetch_all
from kmdr.datasets.registry import entries, entry
from kmdr.datasets.sources import loaders

NIPS_NPZ = "nips_2001-2003_CN_LT_NS_184x6314.npz"
LIGHT_NPZ = "light_candidate_1428x1024.npz"


@pytest.fixture
def real(monkeypatch, tmp_path):
    """The file of that name in a folder of ``KMDR_DATA``, provided it is the one of the registry."""
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))

    def find(dataset: str, name: str) -> Path:
        wanted = {source.sha256 for source in entry(dataset).sources if source.filename == name}
        assert wanted
        for folder in os.environ.get("KMDR_DATA", "").split(os.pathsep):
            for base, _, files in os.walk(folder) if folder else ():
                if name in files and sha256_of(Path(base, name)) in wanted:
                    return Path(base, name)
        pytest.skip(f"no folder of KMDR_DATA holds {name}")

    return find


def same(first, second):
    """Equal bit by bit, whatever the container."""
    return datasets.content_sha256(*first[:2]) == datasets.content_sha256(*second[:2]) and first[2:] == second[2:]


# --- NIPS: real data


def test_nips_is_the_matrix_of_the_papers(real):
    A, labels, words = loaders.nips_npz(real("nips", NIPS_NPZ))
    assert A.shape == (184, 6314)
    assert A.nnz == 89_355
    assert np.bincount(labels).tolist() == [50, 68, 66]
    assert (A.dtype, A.indices.dtype, A.indptr.dtype) == (np.float64, np.int32, np.int32)
    assert (np.ravel(A.sum(axis=0)) > 0).all()
    assert len(words) == 6314
    # bmd09 Fig. 1: these words are named among the highest leverage scores; the largest is between 0.07 and 0.08.
    right = np.linalg.svd(A.toarray(), full_matrices=False)[2][:3]
    scores = (right**2).sum(axis=0) / 3
    named = "ruyter hand information code universality sources tishby naftali hebrew neural center"
    assert set(named.split()) <= {words[j] for j in np.argsort(-scores)[:12]}
    assert 0.07 < scores.max() < 0.08


@pytest.mark.slow
def test_both_copies_of_nips_give_the_same_matrix_and_words(real):
    first = loaders.nips_npz(real("nips", NIPS_NPZ))
    second = loaders.nips_rdata(real("nips", "nips.RData"))
    assert same(first, second)
    assert datasets.content_sha256(*first[:2]) == entry("nips").content_sha256


def test_kmeans_on_nips_gives_what_the_papers_report(real):
    A, labels, _ = loaders.nips_npz(real("nips", NIPS_NPZ))
    U, s, _ = np.linalg.svd(A.toarray(), full_matrices=False)  # the same distances in 184 coordinates
    best = KMeans(3, init="random", n_init=500, max_iter=30, algorithm="lloyd", random_state=0).fit(U * s)
    assert abs(best.inertia_ / (s**2).sum() - 0.747) < 5e-4  # bmd09 Table 1: .747; lf20 Fig. 7: .7472
    table = np.zeros((3, 3))
    np.add.at(table, (labels, best.labels_), 1)
    P = table[linear_sum_assignment(-table)].sum() / 184
    assert 0.87 <= P <= 0.90  # bmd09: .881; lf20: .8750


# --- NIPS: files in the three formats


@pytest.fixture(scope="module")
def papers():
    """Document names, words and counts in no particular order, with more documents and words than are kept."""
    rng = np.random.default_rng(0)
    kept = [
        f"{2001 + i % 3}/{section}{i:02}"
        for section, count in (("CN", 50), ("LT", 68), ("NS", 66))
        for i in range(count)
    ]
    others = ["1987/0001", "2000/CN01", "2001/AA01", "2003/VS12", "2000/Aharonov-Barki", "2002/SP03"]
    words = [f"w{j}" for j in range(6314)] + ["never", "elsewhere"]
    counts = np.zeros((len(kept) + len(others), len(words)), int)
    counts[np.arange(6314) % 184, np.arange(6314)] = 1
    free = np.flatnonzero(counts[:184, :6314].ravel() == 0)
    more = rng.choice(free, 89_355 - 6314, replace=False)
    counts[more // 6314, more % 6314] = rng.integers(1, 9, len(more))
    counts[184:, 6315] = 5
    counts[184:, :100] = 7
    rows, columns = rng.permutation(len(counts)), rng.permutation(len(words))
    names = kept + others
    return [names[i] for i in rows], [words[j] for j in columns], counts[rows][:, columns]


def expected(papers):
    """What must come out, the slow way."""
    documents, words, counts = papers
    kept = sorted(
        name for name in documents if name[:4] in {"2001", "2002", "2003"} and name[5:7] in {"CN", "LT", "NS"}
    )
    rows = [documents.index(name) for name in kept]
    place = {word: j for j, word in enumerate(words)}
    columns = [place[word] for word in sorted(words) if word not in {"never", "elsewhere"}]
    return counts[np.ix_(rows, columns)], [["CN", "LT", "NS"].index(name[5:7]) for name in kept]


def check_nips(out, papers):
    A, labels, words = out
    counts, sections = expected(papers)
    assert isinstance(A, scipy.sparse.csr_array)
    assert (A.dtype, A.indices.dtype, A.indptr.dtype) == (np.float64, np.int32, np.int32)
    assert A.has_sorted_indices
    np.testing.assert_array_equal(A.toarray(), counts)
    assert labels.tolist() == sections
    assert words == sorted(set(papers[1]) - {"never", "elsewhere"})


def nips_npz(path, papers, **changed):
    documents, words, counts = papers
    A = scipy.sparse.csr_array(counts)
    content = {"data": A.data, "indices": A.indices, "indptr": A.indptr, "shape": A.shape}
    content |= {"docs": np.array(documents), "words": np.array(words)} | changed
    np.savez_compressed(path, **{k: v for k, v in content.items() if v is not None})
    return path


def test_nips_from_npz(tmp_path, papers):
    check_nips(loaders.nips_npz(nips_npz(tmp_path / "n.npz", papers)), papers)


def r_data(**objects):
    """A file of R's ``save``, version 3 in the XDR format, of objects that are given as their bytes."""
    out = b"RDX3\nX\n" + struct.pack(">iiii", 3, 0x040301, 0x030500, 5) + b"UTF-8"
    return out + r_pairs(objects)


def r_pairs(pairs):
    symbol = {name: struct.pack(">i", 1) + r_char(name) for name in pairs}
    return b"".join(struct.pack(">i", 2 | 1 << 10) + symbol[name] + pairs[name] for name in pairs) + r_null()


def r_null():
    return struct.pack(">i", 254)


def r_char(text):
    return struct.pack(">ii", 9 | 64 << 12, len(text)) + text.encode("ascii")


def r_texts(texts):
    return struct.pack(">ii", 16, len(texts)) + b"".join(map(r_char, texts))


def r_numbers(array):
    kind, dtype = (14, ">f8") if np.asarray(array).dtype.kind == "f" else (13, ">i4")
    return struct.pack(">ii", kind, len(array)) + np.asarray(array).astype(dtype).tobytes()


def r_list(*items):
    return struct.pack(">ii", 19, len(items)) + b"".join(items)


def nips_rdata(path, papers, **changed):
    documents, words, counts = papers
    A = scipy.sparse.csc_array(counts.astype(float))
    slots = {
        "i": r_numbers(A.indices),
        "p": r_numbers(A.indptr),
        "Dim": r_numbers(A.shape),
        "Dimnames": r_list(r_texts(documents), r_texts(words)),
        "x": r_numbers(A.data),
        "factors": r_list(),
        "class": r_texts(["dgCMatrix"]),
    }
    matrix = struct.pack(">i", 25 | 1 << 8 | 1 << 9) + r_pairs(slots | changed)
    path.write_bytes(bz2.compress(r_data(counts=matrix)))
    return path


def test_nips_from_r_data(tmp_path, papers):
    check_nips(loaders.nips_rdata(nips_rdata(tmp_path / "nips.RData", papers)), papers)


def test_nips_in_both_formats_is_the_same_matrix(tmp_path, papers):
    first = loaders.nips_rdata(nips_rdata(tmp_path / "n.RData", papers))
    second = loaders.nips_npz(nips_npz(tmp_path / "n.npz", papers))
    assert same(first, second)


def altered(papers, change):
    """Counts with a change to an entry that is kept, and where that entry is."""
    documents, words, counts = papers
    i, j = next(documents.index(name) for name in documents if name.startswith("2001/CN")), words.index("w5")
    counts = counts.astype(float)
    counts[i, j] = change(counts[i, j])
    return documents, words, counts


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: -1, "not whole numbers from 0"),
        (lambda _: 0.5, "not whole numbers from 0"),
        (lambda _: np.nan, "not whole numbers from 0"),
        (lambda _: np.inf, "not whole numbers from 0"),
        (lambda c: 0 if c else 1, "pairs of a document and a word"),
    ],
)
def test_counts_that_are_none_are_refused(tmp_path, papers, change, reason):
    with pytest.raises(UnverifiedError, match=reason):
        loaders.nips_npz(nips_npz(tmp_path / "n.npz", altered(papers, change)))


@pytest.mark.slow
def test_nips_with_other_documents_or_names_is_refused(tmp_path, papers):
    documents, words, counts = papers
    path = tmp_path / "n.npz"
    renamed = ["2000/CN99" if name == "2001/CN00" else name for name in documents]
    with pytest.raises(UnverifiedError, match="CN 49, LT 68, NS 66 of 2001-2003, not CN 50"):
        loaders.nips_npz(nips_npz(path, (renamed, words, counts)))
    with pytest.raises(UnverifiedError, match="189 document names"):
        loaders.nips_npz(nips_npz(path, papers, docs=np.array(documents[1:])))
    with pytest.raises(UnverifiedError, match="twice"):
        loaders.nips_npz(nips_npz(path, papers, words=np.array([words[1], *words[1:]])))
    few = counts.copy()
    few[:, words.index("w5")] = 0
    with pytest.raises(UnverifiedError, match="6313 words"):
        loaders.nips_npz(nips_npz(path, (documents, words, few)))


def test_nips_with_counts_of_other_kinds_is_refused(tmp_path, papers):
    documents, words, counts = papers
    path = tmp_path / "n.npz"
    with pytest.raises(UnverifiedError, match="190 document names"):
        loaders.nips_npz(nips_npz(path, (documents, words, counts.T)))  # words x documents
    with pytest.raises(UnverifiedError, match="not numbers"):
        loaders.nips_npz(nips_npz(path, (documents, words, counts * 1j)))


def test_npz_of_pickles_or_of_wrong_parts_is_refused(tmp_path, papers):
    path = tmp_path / "n.npz"
    with pytest.raises(UnverifiedError, match="plain arrays"):
        loaders.nips_npz(nips_npz(path, papers, docs=np.array(papers[0], object)))
    with pytest.raises(UnverifiedError, match="no array 'docs'"):
        loaders.nips_npz(nips_npz(path, papers, docs=None))
    A = scipy.sparse.csr_array(papers[2])
    for wrong in ({"indices": A.indices + 10**6}, {"indptr": A.indptr[:-1]}, {"shape": np.array([190])}):
        with pytest.raises(UnverifiedError, match=r"parts of a CSR matrix|valid sparse matrix"):
            loaders.nips_npz(nips_npz(path, papers, **wrong))
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(UnverifiedError, match="plain arrays"):
        loaders.nips_npz(path)


@pytest.mark.filterwarnings("ignore::UserWarning:rdata")
def test_damaged_r_data_is_refused(tmp_path, papers):
    path = nips_rdata(tmp_path / "n.RData", papers)
    whole = bz2.decompress(path.read_bytes())
    for content in (whole[: len(whole) // 2], b"<html>", whole.replace(b"counts", b"amount"), r_data(counts=r_null())):
        path.write_bytes(bz2.compress(content))
        with pytest.raises(UnverifiedError, match="dgCMatrix"):
            loaders.nips_rdata(path)
    with pytest.raises(UnverifiedError, match=r"dgCMatrix|valid sparse matrix"):
        loaders.nips_rdata(nips_rdata(path, papers, i=r_numbers(np.full(int((papers[2] > 0).sum()), 10**6))))


# --- COIL-20


def test_both_files_of_coil20_give_the_same_matrix(real):
    first = loaders.coil20_mat(real("coil20", "COIL20.mat"))
    second = loaders.coil20_zip_32x32(real("coil20", "coil-20-proc.zip"))
    assert np.array_equal(first[0], second[0])
    assert same(first, second)
    assert datasets.content_sha256(*first) == entry("coil20").content_sha256
    assert first[0].shape == (1440, 1024)
    assert (first[0].min(), first[0].max()) == (0.0, 1.0)
    assert np.bincount(first[1]).tolist() == [72] * 20


@pytest.mark.slow
def test_coil20_shows_objects_that_turn(real):
    A, labels = loaders.coil20_zip(real("coil20_128x128", "coil-20-proc.zip"))
    assert A.shape == (1440, 128 * 128)
    assert labels.tolist() == [thing for thing in range(20) for _ in range(72)]
    assert (A.astype(np.uint8) == A).all()
    # Five degrees on, and from the last pose to the first, an object is much more like itself than like any other.
    images = A.reshape(20, 72, -1)
    step = np.linalg.norm(images - np.roll(images, 1, axis=1), axis=2).mean()
    assert step < 0.6 * np.linalg.norm(images - np.roll(images, 1, axis=0), axis=2).mean()
    # Neighbouring pixels are alike both along and across the rows of 128.
    squares = A.reshape(1440, 128, 128)
    assert np.abs(np.diff(squares, axis=1)).mean() < 8
    assert np.abs(np.diff(squares, axis=2)).mean() < 8


def picture(pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def coil_pixels(thing, pose):
    pixels = np.zeros((128, 128), np.uint8)
    pixels[0, :2] = thing, pose
    pixels[4:8, 120:124] = pose + thing  # block row 1, block column 30
    pixels[127, 127] = 255
    return pixels


@pytest.fixture(scope="module")
def coil_images():
    """Member name and bytes of each image, in reversed order."""
    return {
        f"coil-20-proc/obj{thing}__{pose}.png": picture(coil_pixels(thing, pose))
        for thing in range(20, 0, -1)
        for pose in range(71, -1, -1)
    }


def coil_zip(path, images):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("coil-20-proc/Icon\r", b"")
        for name, data in images.items():
            archive.writestr(name, data)
    return path


def test_coil20_images_are_ordered_and_averaged(tmp_path, coil_images):
    path = coil_zip(tmp_path / "c.zip", coil_images)
    things, poses = np.repeat(np.arange(1, 21), 72), np.tile(np.arange(72), 20)
    A, labels = loaders.coil20_zip(path)
    assert A.dtype == np.float64
    assert A[:, 0].tolist() == things.tolist()
    assert A[:, 1].tolist() == poses.tolist()
    assert A[:, 5 * 128 + 121].tolist() == (things + poses).tolist()
    assert labels.tolist() == (things - 1).tolist()
    small, same_labels = loaders.coil20_zip_32x32(path)
    assert small.shape == (1440, 1024)
    np.testing.assert_allclose(small[:, 0], (things + poses) / 16 / 255, rtol=1e-14)
    np.testing.assert_allclose(small[:, 30 * 32 + 1], (things + poses) / 255, rtol=1e-14)  # column by column
    np.testing.assert_allclose(small[:, -1], 1 / 16, rtol=1e-14)
    assert (np.delete(small, [0, 30 * 32 + 1, 1023], axis=1) == 0).all()
    assert np.array_equal(same_labels, labels)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda b: b[:60], "not a readable PNG"),
        (lambda b: b[:-30] + bytes(30), "not a readable PNG"),
        (lambda b: b[:50] + bytes([b[50] ^ 1]) + b[51:], "not a readable PNG"),
        (lambda b: b"", "not a readable PNG"),
        (lambda b: b"GIF89a" + b, "not a readable PNG"),
        (lambda _: picture(np.zeros((127, 128), np.uint8)), "128 x 127 pixels"),
        (lambda _: picture(np.zeros((128, 128, 3), np.uint8)), "mode RGB"),
        (lambda b: b[:16] + struct.pack(">II", 60_000, 60_000) + b[24:], "not a readable PNG|60000"),
    ],
)
def test_damaged_coil20_image_is_refused(tmp_path, coil_images, damage, reason):
    name = "coil-20-proc/obj7__3.png"
    path = coil_zip(tmp_path / "c.zip", coil_images | {name: damage(coil_images[name])})
    for load in (loaders.coil20_zip, loaders.coil20_zip_32x32):
        with pytest.raises(UnverifiedError, match=reason):
            load(path)


@pytest.mark.slow
def test_coil20_archive_with_other_images_is_refused(tmp_path, coil_images):
    first = next(iter(coil_images.values()))
    for extra in ("obj21__0.png", "obj1__72.png"):
        with pytest.raises(UnverifiedError, match="images, not the expected 1440: image"):
            loaders.coil20_zip(coil_zip(tmp_path / "c.zip", coil_images | {extra: first}))
    with pytest.raises(UnverifiedError, match=r"obj3__4\.png twice"):
        loaders.coil20_zip(coil_zip(tmp_path / "c.zip", coil_images | {"copy/obj3__4.png": first}))
    with pytest.raises(UnverifiedError, match="outside"):
        loaders.coil20_zip(coil_zip(tmp_path / "c.zip", coil_images | {"../obj3__4.png": first}))
    few = {name: data for name, data in coil_images.items() if not name.endswith("obj3__4.png")}
    with pytest.raises(UnverifiedError, match="images, not the expected 1440: image"):
        loaders.coil20_zip(coil_zip(tmp_path / "c.zip", few))


# --- the files of D. Cai: COIL-20, PIE, and LIGHT from it


def fea_gnd(path, fea, gnd, **other):
    scipy.io.savemat(path, {"fea": fea, "gnd": np.reshape(gnd, (-1, 1)), **other}, do_compression=True)
    return path


def test_coil20_from_mat_keeps_values_and_order(tmp_path, rng):
    fea, gnd = rng.random((1440, 1024)), np.repeat(np.arange(1, 21), 72)
    A, labels = loaders.coil20_mat(fea_gnd(tmp_path / "c.mat", fea, gnd))
    assert np.array_equal(A, fea)
    assert labels.tolist() == (gnd - 1).tolist()


def test_pie_and_light_from_mat(tmp_path, rng):
    fea = rng.integers(0, 256, (2856, 1024), np.uint8)
    gnd = np.array([person for person in range(1, 69) for _ in range(42)], np.uint8)
    path = fea_gnd(tmp_path / "p.mat", fea, gnd)
    A, labels = loaders.pie_mat(path)
    assert (A.dtype, labels.dtype) == (np.float64, np.int64)
    assert np.array_equal(A, fea)
    assert np.array_equal(labels + 1, gnd)
    half, persons = loaders.light_pie_mat(path)
    rows = [42 * person + image for person in range(68) for image in range(21, 42)]
    assert np.array_equal(half, fea[rows])
    assert persons.tolist() == [person for person in range(68) for _ in range(21)]
    np.savez(tmp_path / "l.npz", lights_on=fea[rows], y=gnd[rows].astype(int))
    assert same(loaders.light_npz(tmp_path / "l.npz"), (half, persons))
    np.savez(tmp_path / "l.npz", lights_on=fea[rows][1:], y=gnd[rows][1:])
    with pytest.raises(UnverifiedError, match="1427 x 1024"):
        loaders.light_npz(tmp_path / "l.npz")
    mixed = rng.permutation(2856)
    with pytest.raises(UnverifiedError, match="order of the persons"):
        loaders.light_pie_mat(fea_gnd(path, fea[mixed], gnd[mixed]))


@pytest.mark.parametrize("load", [loaders.coil20_mat, loaders.pie_mat, loaders.light_pie_mat])
def test_mat_files_of_something_else_are_refused(tmp_path, load):
    path = tmp_path / "x.mat"
    gnd = np.repeat(np.arange(1, 4), 10)
    with pytest.raises(UnverifiedError, match="30 x 1024 values of 3 classes, not"):
        load(fea_gnd(path, np.ones((30, 1024)), gnd))
    with pytest.raises(UnverifiedError, match=r"fea\) of x.mat have shape \(30, 5\), classes \(gnd\) \(29, 1\)"):
        load(fea_gnd(path, np.ones((30, 5)), gnd[1:]))
    with pytest.raises(UnverifiedError, match="not numbered 1, 2, 3"):
        load(fea_gnd(path, np.ones((30, 5)), gnd - 1))
    with pytest.raises(UnverifiedError, match="not numbered 1, 2, 3"):
        load(fea_gnd(path, np.ones((30, 5)), gnd + 0.5))
    with pytest.raises(UnverifiedError, match="complex128, not numbers"):
        load(fea_gnd(path, np.full((30, 5), 1j), gnd))
    scipy.io.savemat(path, {"X": np.ones((30, 5)), "gnd": gnd})
    with pytest.raises(UnverifiedError, match=r"x.mat has no variable 'fea'"):
        load(path)
    scipy.io.savemat(path, {"fea": np.ones((30, 5)), "Y": gnd})
    with pytest.raises(UnverifiedError, match=r"x.mat has no variable 'gnd'"):
        load(path)


@pytest.mark.parametrize("load", [loaders.coil20_mat, loaders.pie_mat])
def test_right_shape_with_other_class_counts_is_refused(tmp_path, load):
    n, k = (1440, 20) if load is loaders.coil20_mat else (2856, 68)
    gnd = np.repeat(np.arange(1, k + 1), n // k)
    gnd[0] = 2
    with pytest.raises(UnverifiedError, match=f"{n} x 1024 values of {k} classes, not"):
        load(fea_gnd(tmp_path / "x.mat", np.ones((n, 1024), np.uint8), gnd))


def nearest_is_of_the_same_class(A, labels):
    squares = (A**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * A @ A.T
    np.fill_diagonal(distance, np.inf)
    return (labels[distance.argmin(axis=1)] == labels).mean()


def test_pie_is_42_images_of_each_person(real):
    A, labels = loaders.pie_mat(real("pie", "PIE_pose27.mat"))
    assert A.shape == (2856, 1024)
    assert np.bincount(labels).tolist() == [42] * 68
    assert set(np.unique(A)) <= set(range(256))
    assert A.max() == 255
    assert nearest_is_of_the_same_class(A, labels) > 0.9
    images = A.reshape(-1, 32, 32)
    assert max(np.abs(np.diff(images, axis=1)).mean(), np.abs(np.diff(images, axis=2)).mean()) < 15


def test_both_files_of_light_give_the_same_rows_of_pie(real):
    pie, persons = loaders.pie_mat(real("pie", "PIE_pose27.mat"))
    light, labels = loaders.light_pie_mat(real("light", "PIE_pose27.mat"))
    assert same((light, labels), loaders.light_npz(real("light", LIGHT_NPZ)))
    assert datasets.content_sha256(light, labels) == entry("light").content_sha256
    assert np.bincount(labels).tolist() == [21] * 68
    # Every row is one of pie, of the same person, and none is there twice.
    rows = {row.tobytes(): i for i, row in enumerate(pie)}
    nearest = [rows[row.tobytes()] for row in light]
    assert len(set(nearest)) == 1428
    assert np.array_equal(persons[nearest], labels)
    # The room's lights are on: they are brighter than the images that were left out.
    assert light.mean() > 1.2 * np.delete(pie, nearest, axis=0).mean()


def test_light_is_always_labelled_as_a_reconstruction():
    said = entry("light").stand_in
    assert "reconstructed" in said
    assert "pie" in said
    assert len(said) <= 40
    assert not any(entry(name).stand_in for name in ("nips", "coil20", "coil20_128x128", "pie", "bio"))


# --- Bio

TYPES = ["GIST"] * 10 + ["LEIO"] * 12 + ["SYN.SARC"] * 9 + ["MFH"] * 8 + ["LIPO"] * 4 + ["SCHWANNOMA"] * 3


@pytest.fixture(scope="module")
def expression():
    """Array names in mixed order and values, arrays x genes."""
    rng = np.random.default_rng(1)
    order = rng.permutation(46)
    names = [f"STT{100 + i}-{TYPES[i]}" for i in order]
    return names, np.round(rng.standard_normal((46, 5520)), 3)


def table(path, names, values, missing=(), head=("UID", "NAME", "GWEIGHT"), extra=(), newline="\n", change=None):
    """A file in the PCL format of the time, and its options."""
    lines = [[*head, *names], *extra]
    texts = [[f"{value:.3f}" for value in row] for row in values.T]
    for (array, gene), text in dict(missing).items():
        texts[gene][array] = text
    for j, row in enumerate(texts):
        lines.append([f"IMAGE:{j}", *([f"gene {j}", "1"][: len(head) - 1]), *row])
    if change is not None:
        change(lines)
    path.write_text(newline.join("\t".join(line) for line in lines) + newline, "latin-1", newline="")
    return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def kept_rows(names):
    label = {"GIST": 0, "LEIO": 1, "SYN.SARC": 2}
    kinds = [name.partition("-")[2] for name in names]
    rows = [i for i, kind in enumerate(kinds) if kind in label]
    return rows, [label[kinds[i]] for i in rows]


@pytest.mark.slow
def test_bio_keeps_the_arrays_of_three_types(tmp_path, expression):
    names, values = expression
    rows, types = kept_rows(names)
    A, labels = loaders.nielsen_table(**table(tmp_path / "t.txt", names, values))
    assert A.shape == (31, 5520)
    assert np.bincount(labels).tolist() == [10, 12, 9]
    assert labels.tolist() == types
    np.testing.assert_array_equal(A, values[rows])
    # As CDT and with the line ends and the byte above ASCII of a spreadsheet.
    options = table(
        tmp_path / "t.cdt",
        names,
        values,
        extra=[["AID", "", "", *[f"ARRY{i}X" for i in range(46)]], ["EWEIGHT", "µ", "", *["1"] * 46]],
        newline="\r\n",
    )
    np.testing.assert_array_equal(loaders.nielsen_table(**options)[0], values[rows])
    # One column of genes only; other spellings of the types; the hash in capitals.
    spelt = [name.replace("-LEIO", " lms").replace("-SYN.SARC", "_SS").replace("GIST", "gist") for name in names]
    options = table(tmp_path / "u.txt", spelt, values, head=("gene",))
    A, labels = loaders.nielsen_table(path=options["path"], sha256=options["sha256"].upper())
    np.testing.assert_array_equal(A, values[rows])
    assert labels.tolist() == types


def test_missing_expression_is_the_mean_of_the_gene(tmp_path, expression):
    names, values = expression
    rows, _ = kept_rows(names)
    missing = {(rows[0], 7): "", (rows[1], 7): "NA", (rows[2], 8): "NaN", (45, 9): ""}

    def cut(lines):  # a spreadsheet drops the empty cells at the end of a line
        assert lines[10][-1] == ""
        del lines[10][-1]

    A, _ = loaders.nielsen_table(**table(tmp_path / "t.txt", names, values, missing, change=cut))
    known = values.copy()
    for place in missing:
        known[place] = np.nan
    np.testing.assert_allclose(A[[0, 1], 7], np.nanmean(known[:, 7]), rtol=1e-12)
    np.testing.assert_allclose(A[2, 8], np.nanmean(known[:, 8]), rtol=1e-12)
    places = [place for place in missing if place[0] in rows]
    changed = values[rows] != A
    assert changed.sum() == len(places)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: lines.pop(), "5519 genes, not 5520"),
        (lambda lines: [line.pop() for line in lines], "45 arrays of 45 names, not 46"),
        (lambda lines: lines[0].__setitem__(3, lines[0][4]), "46 arrays of 45 names"),
        (lambda lines: lines[5].append("1.0"), "a line of 50 cells below a header of 49"),
        (lambda lines: lines[5].__setitem__(slice(3, None), [""] * 46), "a gene without any value"),
        (lambda lines: lines[5].__setitem__(slice(3, None), ["inf"] * 46), "not a number: inf is not finite"),
        (lambda lines: lines[5].__setitem__(slice(3, None), ["high"] * 46), "not a number"),
        (
            lambda lines: lines.__setitem__(0, [cell.replace("LEIO", "LIPO") for cell in lines[0]]),
            "10 GIST, 0 leiomyosarcoma, 9 synovial sarcoma, not 10 GIST",
        ),
        (lambda lines: lines.clear(), "0 genes"),
    ],
)
def test_tables_of_something_else_are_no_bio(tmp_path, expression, change, reason):
    with pytest.raises(UnverifiedError, match=reason):
        loaders.nielsen_table(**table(tmp_path / "t.txt", *expression, change=change))


def test_bio_is_opened_only_with_the_hash_that_the_user_states(tmp_path, expression):
    options = table(tmp_path / "t.txt", *expression)
    with pytest.raises(UnverifiedError, match=f"t.txt has the SHA-256 {options['sha256']}, not 0000"):
        loaders.nielsen_table(path=options["path"], sha256="0" * 64)
    for absent in ({"path": "", "sha256": ""}, options | {"sha256": ""}, options | {"path": ""}):
        with pytest.raises(datasets.UnavailableError, match=r"dataset.path=FILE and dataset.sha256=ITS_SHA256"):
            loaders.nielsen_table(**absent)
    with pytest.raises(datasets.UnavailableError, match=r"none.txt of dataset 'bio' cannot be read"):
        loaders.nielsen_table(path=str(tmp_path / "none.txt"), sha256="0" * 64)


def test_bio_that_is_too_long_is_refused(tmp_path, expression, monkeypatch):
    options = table(tmp_path / "t.txt", *expression)
    monkeypatch.setattr(loaders, "_MAX_BYTES", 1000)
    with pytest.raises(UnverifiedError, match="more than the allowed 1000 bytes"):
        loaders.nielsen_table(**options)


def test_bio_through_the_registry(tmp_path, expression, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    data = datasets.load("bio", table(tmp_path / "t.txt", *expression))
    assert (data.A.shape, data.k) == ((31, 5520), 3)
    np.testing.assert_array_equal(data.A, expression[1][kept_rows(expression[0])[0]])
    ((_, line, ok, _),) = fetch_all(["bio"])
    assert line.startswith("bio: missing: ")
    assert "dataset.sha256" in line
    assert ok


# --- files of the atlas


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("numbers", [[1, 2, 3], [-1, 1], [0, 5, 250]])
def test_a_labelled_matrix_is_the_same_however_it_is_stored(tmp_path, rng, sparse, dtype, numbers):
    A = (rng.integers(0, 9, (30, 7)) * (rng.random((30, 7)) < 0.4)).astype(dtype)
    kinds = rng.integers(len(numbers), size=30)
    kinds[: len(numbers)] = np.arange(len(numbers))
    contents = set()
    for stored in (A, np.asfortranarray(A), scipy.sparse.csc_matrix(A.astype("f8"))):
        for shape in ((30, 1), (1, 30)):
            classes = np.array(numbers)[kinds].reshape(shape)
            scipy.io.savemat(tmp_path / "a.mat", {"A": stored, "kind": classes}, do_compression=True)
            points, labels = loaders.labelled_mat(tmp_path / "a.mat", points="A", classes="kind", sparse=sparse)
            np.testing.assert_array_equal(points.toarray() if sparse else points, A)
            np.testing.assert_array_equal(labels, kinds)
            contents.add(datasets.content_sha256(points, labels))
    assert len(contents) == 1


@pytest.mark.parametrize(
    "held",
    [
        {"X": np.eye(3)}, {"Y": np.ones(3)}, {"X": np.eye(3), "Y": np.ones(4)},
        {"X": np.ones((2, 2, 2)), "Y": np.ones(2)},
        {"X": np.eye(3), "Y": np.array(["a", "b", "c"])}, {"X": np.eye(3) * 1j, "Y": np.ones(3)},
    ],
)  # fmt: skip
def test_what_is_no_labelled_matrix_is_refused(tmp_path, held):
    scipy.io.savemat(tmp_path / "a.mat", held)
    with pytest.raises(UnverifiedError, match=r"a\.mat"):
        loaders.labelled_mat(tmp_path / "a.mat")


@pytest.mark.slow
@pytest.mark.parametrize("name", [e.name for e in entries().values() if "atlas" in e.collections])
def test_each_dataset_of_the_atlas_has_the_registered_content(name, monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path))  # or what an earlier run prepared would be compared
    if datasets.availability_of(name).state not in {"local", "generated"}:
        pytest.skip(f"no folder of KMDR_DATA holds the files of {name}")
    data, e = datasets.load(name), entry(name)
    assert (data.A.shape, data.k) == ((e.n, e.d), e.k)
    assert e.domain
    assert data.data_sha256 == e.content_sha256 or not e.content_sha256
    assert scipy.sparse.issparse(data.A) == (e.domain == "text")
