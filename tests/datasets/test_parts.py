"""Data that are read, or made, some rows at a time: folders of parts, generated features, treatment of large files."""

import json
import os
import socket
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.integrate import quad
from scipy.stats import kstest, norm

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.datasets import fingerprint, prepared, validation, verification
from kmdr.datasets.check_file import check_files
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.sources.features_like import features_like
from kmdr.datasets.streamed import Streamed, stack_rows
from kmdr.linalg import matrix

Y = np.arange(37) % 3


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KMDR_DATA", "")
    monkeypatch.setattr(validation, "_BLOCK_BYTES", 100)  # a few rows

    def refused(*args, **kwargs):
        raise OSError("the network is off in tests")

    monkeypatch.setattr(socket.socket, "connect", refused)


@pytest.fixture(name="A")
def points(rng):
    return rng.standard_normal((37, 5)).astype(np.float32)


def load(path, **options):
    return datasets.load("file", {"path": str(path), **options})


def npy(folder, A, cuts=(4, 4, 20), names="part-{}.npy"):
    """Write A in parts, one of which is empty, counted from 8 on: by the alphabet part-10 would come before part-8."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.split(A, cuts), 8):
        np.save(folder / names.format(number), rows)
    return folder


# --- rows of several arrays


def test_slices_of_stacked_matrices_are_those_of_the_whole(rng):
    A = rng.standard_normal((20, 3))
    whole = stack_rows(np.split(A, [0, 7, 7, 12]))
    for start in range(21):
        for stop in range(21):
            np.testing.assert_array_equal(whole[start:stop], A[start:stop])
    kept = rng.random(20) < 0.5
    np.testing.assert_array_equal(whole.select_rows(kept)[1:6], A[kept][1:6])
    np.testing.assert_array_equal(whole.map_rows(lambda rows: rows[:, :2], 2, A.dtype)[3:9], A[3:9, :2])
    assert (whole.shape, whole.select_rows(kept).shape, whole.size) == ((20, 3), (int(kept.sum()), 3), 60)


# --- folders of parts


def test_parts_are_one_matrix_in_the_order_of_their_numbers(tmp_path, A, capsys):
    folder = npy(tmp_path / "points", A)
    np.save(folder / "labels.npy", Y)
    (folder / "readme.txt").write_text("about them")
    (folder / ".part-9.npy.crc").write_text("x")
    data = load(folder)
    np.testing.assert_array_equal(data.A, A)
    assert data.A.dtype == np.float32
    assert (data.name, data.k, data.labels.tolist()) == ("points", 3, Y.tolist())
    assert data.data_sha256 == datasets.content_sha256(A, Y.astype(np.int64))
    assert "4 parts, npy, part-8.npy to part-11.npy; 1 other file ignored; labels.npy has 3" in capsys.readouterr().err
    np.save(tmp_path / "whole.npy", A)
    assert load(tmp_path / "whole.npy", labels=str(folder / "labels.npy")).data_sha256 == data.data_sha256
    np.save(tmp_path / "other.npy", Y[::-1])
    assert load(folder, labels=str(tmp_path / "other.npy")).labels.tolist() == Y[::-1].tolist()
    assert load(folder, labels="none", k=4).labels is None
    assert not list((tmp_path / "cache" / "prepared").glob(".tmp-*"))


def test_data_check_says_what_is_understood_of_a_folder_and_writes_nothing(tmp_path, A, capsys):
    folder = npy(tmp_path / "points", A)
    assert check_files([str(folder)], ["k=3"]) == 0
    said = capsys.readouterr().out
    assert f"{folder}: 4 parts, npy, part-8.npy to part-11.npy" in said
    assert "points  37 x 5, float32" in said
    (folder / "part-9.npy").unlink()
    assert check_files([str(folder)], []) == 1
    said = capsys.readouterr().out
    assert "warning  parts seem to be missing between part-8.npy and part-10.npy" in said
    assert "refused  points has no labels" in said
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda folder, A: np.save(folder / "part-9.npy", A[:, :4]),
            "part-9.npy has 4 columns of float32, but part-8",
        ),
        (
            lambda folder, A: np.save(folder / "part-9.npy", A.astype("f8")),
            "part-9.npy has 5 columns of float64, but",
        ),
        (lambda folder, A: np.save(folder / "part-9.npy", A[0]), r"part-9.npy has the shape \(5,\); a part"),
        (
            lambda folder, A: (folder / "a.parquet").write_bytes(b""),
            "parts of several kinds, such as a.parquet and part-8.npy",
        ),
        (
            lambda folder, A: (folder / "part-10.npy").write_bytes(b"\x93NUMPY"),
            "part-10.npy is not a readable npy file",
        ),
        (lambda folder, A: os.truncate(folder / "part-10.npy", 200), "part-10.npy is not a readable npy file"),
        (
            lambda folder, A: np.save(folder / "part-9.npy", [["a"] * 5]),
            "part-9.npy has 5 columns of <U1, but part-8",
        ),
        (lambda folder, A: np.save(folder / "part-9.npy", np.full((1, 5), np.nan, "f4")), "NaN .* at row 4, column 0"),
        (lambda folder, A: np.save(folder / "labels.npy", Y[1:]), "36 labels for 37 points"),
        (lambda folder, A: [np.save(folder / f"{name}.npy", Y) for name in "yY"], "labels in Y.npy and in y.npy"),
    ],
)
def test_what_is_no_part_of_the_matrix_is_one_sentence(tmp_path, A, made, said):
    folder = npy(tmp_path / "points", A)
    made(folder, A)
    with pytest.raises(UserError, match=said) as caught:
        load(folder, k=3)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_a_folder_without_parts_and_one_with_images(tmp_path, A):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty is a folder; name a regular file, .*images .* or of parts of a matrix"):
        load(tmp_path / "empty")
    with pytest.raises(UserError, match="holds no parts of a matrix"):
        load(tmp_path / "empty", format="parts")
    folder = npy(tmp_path / "both", A)
    for name in ("a.png", "b.png"):
        Image.fromarray(np.array([[1, 2], [3, 4]], np.uint8)).save(folder / name)
    assert load(folder, k=1).A.shape == (2, 4), "images, as ever"
    assert load(folder, k=3, format="parts").A.shape == (37, 5)
    with pytest.raises(UserError, match="option size does not apply to both, which is read as parts"):
        load(folder, k=3, format="parts", size=[2, 2])
    with pytest.raises(UserError, match="option label does not apply to both, whose parts are npy"):
        load(folder, k=3, format="parts", label="kind")


def test_a_part_that_changed_or_vanished_is_noticed(tmp_path, A, monkeypatch, capsys):
    folder = npy(tmp_path / "points", A)
    first = load(folder, k=3)
    written = verification.file_state(tmp_path / "cache" / "prepared")
    assert load(folder, k=3).data_sha256 == first.data_sha256
    assert verification.file_state(tmp_path / "cache" / "prepared") == written, "prepared once"
    changed = A.copy()
    changed[10] += 1
    npy(folder, changed)
    np.testing.assert_array_equal(load(folder, k=3).A, changed)
    (folder / "part-10.npy").unlink()
    capsys.readouterr()
    np.testing.assert_array_equal(load(folder, k=3).A, np.delete(changed, range(4, 20), axis=0))
    assert "warning: points: parts seem to be missing between part-9.npy and part-11.npy" in capsys.readouterr().err
    load(folder, k=3)
    assert "seem to be missing" in capsys.readouterr().err, "each time"
    monkeypatch.setattr(fingerprint, "_HASHED_BYTES", 100)  # as if they were large: of each the size and time
    before = fingerprint._file_identity(folder)
    os.utime(folder / "part-8.npy", ns=(1, 1))
    assert fingerprint._file_identity(folder) != before
    read_content = formats.read_content

    def slowly(options):
        content = read_content(options)
        np.save(folder / "part-8.npy", A[:4] + 1)
        return content

    monkeypatch.setattr(formats, "read_content", slowly)
    with pytest.raises(UserError, match="changed while it was read"):
        load(folder, k=3)


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        (["a1", "a2", "a3", "a5"], "between a3.npy and a5.npy"),
        (["a-2-of-9", "a-3-of-9", "a-4-of-9", "a-7-of-9"], "between a-4-of-9.npy and a-7-of-9.npy"),
        (["a0", "a1000", "a2000", "a4000"], ""),  # their first rows
        (["a20240101", "a20240115", "a20240116", "a20240201"], ""),
        (["a", "b", "d"], ""),
        (["a1b1", "a1b2", "a2b1", "a2b4"], ""),
    ],
)
def test_gaps_are_told_of_where_names_count_up_by_ones(tmp_path, names, lacking):
    for name in names:
        np.save(tmp_path / f"{name}.npy", np.ones((2, 2)))
    warnings = formats.read_content(FileOptions(tmp_path)).warnings
    assert [lacking in warning for warning in warnings] == [True] * bool(lacking)


def test_a_matrix_that_the_cache_has_no_room_for_is_a_sentence(tmp_path, A, monkeypatch):
    folder = npy(tmp_path / "points", A)
    monkeypatch.setattr(prepared.shutil, "disk_usage", lambda path: SimpleNamespace(free=9))
    with pytest.raises(UserError, match=r"a matrix of 37 x 5 takes 7.4e-07 GB and .*prepared has 9e-09 GB left"):
        load(folder, k=3)
    assert not list((tmp_path / "cache" / "prepared").iterdir())


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "?", ">f8", "f2"])
def test_parts_are_kept_as_a_single_file_is(tmp_path, rng, dtype):
    A = (5 * rng.standard_normal((37, 5))).astype(dtype)
    np.save(tmp_path / "whole.npy", np.asfortranarray(A))
    data = load(npy(tmp_path / "points", A), k=3)
    assert data.A.dtype == (np.float32 if dtype == "f4" else np.float64)
    assert data.data_sha256 == load(tmp_path / "whole.npy", k=3).data_sha256


# --- Parquet


@pytest.fixture
def table(A):
    pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")
    return pd.DataFrame(A, columns=list("abcde")).assign(kind=np.array(["oak", "elm", "ash"])[Y])


def parquet(folder, table, cuts=(4, 20), **options):
    folder.mkdir(exist_ok=True)
    for number, start, stop in zip((9, 10, 11), (0, *cuts), (*cuts, len(table)), strict=True):
        table.iloc[start:stop].to_parquet(folder / f"part-{number}.parquet", index=False, row_group_size=3, **options)
    return folder


def test_parts_of_parquet_are_one_table(tmp_path, A, table, capsys):
    folder = parquet(tmp_path / "points", table)
    data = load(folder, label="kind")
    np.testing.assert_array_equal(data.A, A)
    assert data.A.dtype == np.float32
    assert data.feature_names == tuple("abcde")
    table.to_parquet(tmp_path / "whole.pq", index=False)
    assert load(tmp_path / "whole.pq", label="kind").data_sha256 == data.data_sha256
    assert "read as 3 parts, Parquet, part-9.parquet to part-11.parquet; column 'kind' has 3" in capsys.readouterr().err
    some = load(folder, columns=["d", "b"], k=2)
    np.testing.assert_array_equal(some.A, A[:, [1, 3]])
    np.testing.assert_array_equal(load(folder, drop=["kind", "c"], k=2).A, A[:, [0, 1, 3, 4]])
    for options, said in (
        ({}, r"columns 'kind' of part-9.parquet are not numeric; set 'dataset.drop=\[kind\]'"),
        ({"label": "kin"}, "no column of part-9.parquet is named 'kin'; did you mean 'kind'"),
        ({"columns": ["z"]}, "no column of part-9.parquet is named 'z'"),
        ({"label": "kind", "drop": list("abcde")}, "no column of part-9.parquet is left"),
        ({"encode": "onehot"}, "option encode does not apply to points, which is read as parts"),
    ):
        with pytest.raises(UserError, match=said):
            load(folder, **options)


def test_parts_of_parquet_that_differ_are_one_sentence(tmp_path, table):
    folder = parquet(tmp_path / "points", table)
    path = folder / "part-10.parquet"
    for other, said in (
        (table.drop(columns="c"), "part-10.parquet has 5 columns, but part-9.parquet has 6 columns"),
        (table.rename(columns={"c": "x"}), "has column 'x' of float, but part-9.parquet has column 'c' of float"),
        (table.astype({"c": "f8"}), "has column 'c' of double, but part-9.parquet has column 'c' of float"),
    ):
        other.to_parquet(path, index=False)
        with pytest.raises(UserError, match=said):
            load(folder, label="kind")
    path.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"part-10\.parquet is not a readable Parquet file"):
        load(folder, label="kind")
    table.iloc[4:20].to_parquet(path, index=False, compression="none")
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)  # pages; its end is whole
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"part-10\.parquet is not a readable Parquet file"):
        load(folder, label="kind")


def test_a_missing_value_of_parquet_is_nan(tmp_path, A, table):
    table["b"] = pd.array([None if i == 7 else i for i in range(37)], dtype="Int64")
    folder = parquet(tmp_path / "points", table)
    with pytest.raises(UserError, match=r"NaN .* row 7, counted from 0, column 'b'; .*dataset.missing=mean"):
        load(folder, label="kind")
    B = A.astype(np.float64)
    B[:, 1] = np.arange(37)
    assert np.array_equal(load(folder, label="kind", missing="drop").A, np.delete(B, 7, axis=0))
    B[7, 1] = np.delete(B[:, 1], 7).mean()
    np.testing.assert_allclose(load(folder, label="kind", missing="mean").A, B, rtol=1e-15)


# --- Zarr


@pytest.fixture
def zarr():
    return pytest.importorskip("zarr", reason="the extra 'zarr' is not installed")


def zip_store(store, archive, inside, mode="w", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(archive, mode, compression) as file:
        for path in sorted(store.rglob("*")):
            if path.is_file():
                file.write(path, inside + path.relative_to(store).as_posix())


def test_without_zarr_a_store_is_told_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "zarr.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(UserError, match=r"reading a\.zarr requires zarr; install it with: pip install 'kmdr\[zarr\]'"):
        load(tmp_path / "a.zarr", k=3)


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_store_is_an_array_or_a_group(tmp_path, A, zarr, version, capsys):
    store = tmp_path / "points.zarr"
    array = zarr.create_array(store, shape=A.shape, chunks=(7, 2), dtype="f4", zarr_format=version)
    array[:] = A
    data = load(store, k=3)
    np.testing.assert_array_equal(data.A, A)
    assert (data.name, data.A.dtype) == ("points", np.float32)
    assert "read as Zarr, an array" in capsys.readouterr().err
    array[30:33] = A[30:33] + 1
    assert load(store, k=3).A[31, 0] == A[31, 0] + 1, "prepared anew"
    np.testing.assert_array_equal(load(store, k=3, columns=["4", "0"]).A[:30], A[:30, [0, 4]])

    group = zarr.open_group(tmp_path / "group.zarr", mode="w", zarr_format=version)
    group.create_array("points", data=A)
    group.create_array("kind", data=Y)
    with pytest.raises(UserError, match="no matrix with a usual name, only kind, points"):
        load(tmp_path / "group.zarr")
    assert load(tmp_path / "group.zarr", matrix="points", label="kind").labels.tolist() == Y.tolist()
    group.create_array("X", data=A)
    group.create_array("y", data=Y)
    np.save(tmp_path / "whole.npy", A)
    np.save(tmp_path / "y.npy", Y)
    whole = load(tmp_path / "whole.npy", labels=str(tmp_path / "y.npy"))
    assert load(tmp_path / "group.zarr").data_sha256 == whole.data_sha256


@pytest.mark.parametrize("inside", ["", "points.zarr/"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_store_in_a_zip_archive_is_the_same_data_and_is_not_changed(tmp_path, A, zarr, version, inside):
    store, archive = tmp_path / "points.zarr", tmp_path / "packed.zip"
    zarr.create_array(store, shape=A.shape, chunks=(7, 2), dtype="f4", zarr_format=version)[...] = A
    zip_store(store, archive, inside)
    before = archive.read_bytes()
    assert load(archive, k=3).data_sha256 == load(store, k=3).data_sha256
    assert archive.read_bytes() == before


def test_a_zarr_store_in_a_damaged_or_ambiguous_archive_is_refused(tmp_path, A, zarr):
    store, archive = tmp_path / "points.zarr", tmp_path / "packed.zip"
    zarr.create_array(store, shape=A.shape, chunks=(7, 5), dtype="f4", compressors=None)[...] = A
    zip_store(store, archive, "")
    content = bytearray(archive.read_bytes())
    at = content.index((store / "c" / "0" / "0").read_bytes())
    content[at] ^= 1
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"packed\.zip is not a readable Zarr file: Bad CRC-32"):
        load(archive, k=3)
    archive.write_bytes(content[:-30])
    with pytest.raises(UserError, match=r"packed\.zip"):
        load(archive, k=3)
    zip_store(store, archive, "a/")
    zip_store(store, archive, "b/", "a")
    with pytest.raises(UserError, match=r"packed\.zip holds several files"):
        load(archive, k=3)
    held = json.loads((store / "zarr.json").read_text())
    held["codecs"] = [{"name": "pickle"}]
    (store / "zarr.json").write_text(json.dumps(held))
    zip_store(store, archive, "")
    with pytest.raises(UserError, match=r"packed\.zip uses the codec pickle, which is not supported"):
        load(archive, k=3)
    (store / "c" / "0" / "0").write_bytes(bytes(2 * 10**9 // 8))
    held["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    (store / "zarr.json").write_text(json.dumps(held))
    zip_store(store, archive, "", compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match=r"packed\.zip has a member that unpacks to too much: 0\.25 GB"):
        load(archive, k=3, max_gb=0.1)


def test_what_a_zarr_store_lacks_or_may_not_have_is_told(tmp_path, A, zarr):
    store = tmp_path / "points.zarr"
    array = zarr.create_array(store, shape=A.shape, chunks=(7, 5), dtype="f4", fill_value=2, zarr_format=2)
    array[:] = A
    (store / "1.0").unlink()
    assert formats.read_content(FileOptions(store)).warnings == (
        "1 of its 6 chunks are missing and read as 2.0; restore them if that is not intended",
    )
    (store / "2.0").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match=r"points\.zarr is not a readable Zarr file"):
        load(store, k=3)
    held = json.loads((store / ".zarray").read_text())
    for codec in ({"filters": [{"id": "pickle"}]}, {"compressor": {"id": "json2"}}):
        (store / ".zarray").write_text(json.dumps(held | codec))
        with pytest.raises(UserError, match=r"points\.zarr uses the codec (pickle|json2), which is not supported"):
            load(store, k=3)
    (store / ".zarray").write_text("{")
    with pytest.raises(UserError, match=r"points\.zarr is not a readable Zarr file"):
        load(store, k=3)
    zarr.create_array(tmp_path / "cube.zarr", shape=(2, 2, 2), dtype="f4")
    with pytest.raises(UserError, match=r"cube\.zarr has the shape \(2, 2, 2\)"):
        load(tmp_path / "cube.zarr", k=3)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("codec", ["blosc", "zstd", "gzip", "none"])
def test_a_truncated_chunk_of_a_zarr_store_is_refused(tmp_path, rng, zarr, version, codec):
    A = rng.standard_normal((40, 30)).astype("f4")
    compressor = {
        "blosc": zarr.codecs.BloscCodec(), "zstd": zarr.codecs.ZstdCodec(), "gzip": zarr.codecs.GzipCodec()
    }.get(codec) if version == 3 else {
        name: pytest.importorskip("numcodecs").get_codec({"id": name}) for name in ("blosc", "zstd", "gzip")
    }.get(codec)  # fmt: skip
    store = tmp_path / "points.zarr"
    array = zarr.create_array(
        store, shape=A.shape, chunks=(20, 30), dtype="f4", zarr_format=version, compressors=compressor
    )
    array[:] = A
    chunk = store / ("0.0" if version == 2 else "c/0/0")
    whole = chunk.read_bytes()
    for length in (*range(1, 16, 5), *rng.integers(16, len(whole), 20), len(whole) - 1):
        chunk.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"points\.zarr is not a readable Zarr file"):
            load(store, k=3)
    chunk.write_bytes(whole)
    np.testing.assert_array_equal(load(store, k=3).A, A)


# --- treatment without the whole


@pytest.mark.filterwarnings("ignore:Numerical issues")  # of sklearn, about the constant column
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "options",
    [
        {"scale": "standard"}, {"scale": "minmax"}, {"rows": "unit"}, {"missing": "mean"}, {"missing": "drop"},
        {"columns": ["3", "1"]}, {"drop": ["0"], "scale": "standard", "missing": "mean", "rows": "unit"},
    ],
)  # fmt: skip
def test_what_is_made_of_a_large_file_is_what_is_made_of_a_small_one(tmp_path, rng, dtype, options, monkeypatch):
    A = (5 + 3 * rng.standard_normal((37, 5))).astype(dtype)
    if dtype == "f8":
        A[:, 1] *= 1e60  # beyond float32
    A[:, 2] = 7
    if "missing" in options:
        A[11, 3] = A[30, 0] = np.nan
    np.save(tmp_path / "a.npy", A)
    small = load(tmp_path / "a.npy", k=3, **options).A
    monkeypatch.setattr(matrix, "WHOLE", 100)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "other"))
    large = load(tmp_path / "a.npy", k=3, **options).A
    assert (large.dtype, large.shape) == (small.dtype, small.shape)
    if set(options) <= {"rows", "columns"} or options == {"missing": "drop"}:
        np.testing.assert_array_equal(large, small)
    np.testing.assert_allclose(
        large, small, rtol=1e-12 if dtype == "f8" else 2e-6, atol=1e-6 if dtype == "f4" else 1e-13
    )


@pytest.mark.parametrize("options", [{"scale": "standard"}, {"scale": "minmax"}, {"rows": "unit"}])
def test_what_is_not_finite_is_told_of_where_it_is(tmp_path, A, options, monkeypatch):
    monkeypatch.setattr(matrix, "WHOLE", 100)
    A[31, 2] = np.inf
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(UserError, match="infinite value at row 31, column 2"):
        load(tmp_path / "a.npy", k=3, **options)


# --- generated features


def test_generated_features_are_the_same_in_whatever_pieces(rng):
    A, labels = features_like(70, 5, d=6, k=20)
    whole = A[:]
    assert (whole.dtype, whole.shape, A.shape) == (np.float32, (70, 6), (70, 6))
    for start, stop in ((0, 1), (19, 21), (3, 65), (69, 70), (5, 5)):
        np.testing.assert_array_equal(A[start:stop], whole[start:stop])
    more, of_more = features_like(200, 5, d=6, k=20)
    np.testing.assert_array_equal(more[:70], whole)
    np.testing.assert_array_equal(of_more[:70], labels)
    assert all(np.unique(of_more[i : i + 20]).size == 20 for i in range(0, 200, 20))
    assert not np.array_equal(features_like(70, 6, d=6, k=20)[0][:], whole)


def test_generated_features_follow_their_law():
    """Within a class an entry is c + z cut off at 0: the share of zeros is Φ(−c), the mean c Φ(c) + φ(c)."""
    d = 64
    A, labels = features_like(20_000, 0, d=d, k=40)
    whole = A[:]
    share, _ = quad(lambda u: norm.cdf(0.5 / np.hypot(1, u)), 0, 1)
    assert abs((whole == 0).mean() - share) < 0.02  # of 2560 centres; 4 deviations
    spreads = []
    for c in range(40):
        mine = whole[labels == c]
        zeros = (mine == 0).mean(axis=0)
        centre = -norm.ppf(zeros.clip(0.01, 0.99))  # a share of 500 points tells no more
        apart = np.abs(mine.mean(axis=0) - centre * norm.cdf(centre) - norm.pdf(centre))
        assert apart[(zeros > 0.01) & (zeros < 0.99)].max() < 6 / np.sqrt(500)
        assert centre.mean() == pytest.approx(-0.5, abs=4 / np.sqrt(d))
        spreads.append(centre.std())
    # Uniform from 0 to 1, but for the error of 500 points, which is a spread of 0.06 by itself.
    assert kstest(spreads, "uniform").pvalue > 0.01


def test_ilsvrc_like_is_a_stand_in_that_is_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(validation, "_BLOCK_BYTES", 2**24)
    folder = datasets.prepare("ilsvrc_like", {"n": 1000})
    data = datasets.open_prepared(folder)
    assert (data.A.shape, data.A.dtype, data.k) == ((1000, 4096), np.float32, 1000)
    assert data.stand_in == "generated: ILSVRC-like features"
    assert np.array_equal(np.sort(data.labels), np.arange(1000))
    assert isinstance(data.A.base, np.memmap)
    assert json.loads((folder / "meta.json").read_text())["nnz"] == 4096 * 1000
    with pytest.raises(UserError, match="option n of generated features is 999; it must be at least k, which is 1000"):
        datasets.prepare("ilsvrc_like", {"n": 999})


def test_what_was_just_written_is_not_read_again(tmp_path, monkeypatch):
    """Its digests are those that the meta.json got; a file that changes afterwards is found."""
    A = np.arange(60.0).reshape(20, 3) % 7
    np.save(tmp_path / "a.npy", A)
    os.utime(tmp_path / "a.npy", (1, 1))
    read = []
    digests = verification.digests
    for module in (prepared, verification):  # what writes, and what verifies
        monkeypatch.setattr(module, "digests", lambda path: read.append(path.name) or digests(path))
    load(tmp_path / "a.npy", k=2)
    assert read == ["a.npy"]
    np.save(tmp_path / "a.npy", A + 1)
    load(tmp_path / "a.npy", k=2)
    assert read == ["a.npy"] * 3, "it is so new that it may change again and look the same"


def test_streamed_is_a_matrix_that_nothing_reads_whole():
    asked = []

    def read(start, stop):
        asked.append(stop - start)
        return np.ones((stop - start, 5), np.float32)

    A = Streamed((1000, 5), np.dtype(np.float32), read)
    validation.check(A, None)
    datasets.content_sha256(A, None)
    assert sum(asked) == 2000
    assert max(asked) == 5
