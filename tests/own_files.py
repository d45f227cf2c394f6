"""Twelve files as people have them: what is said of each at once, the settings that make it right, what it holds."""

from typing import NamedTuple

import h5py
import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse
from PIL import Image

CLASSES = np.repeat([0, 1, 2], 20)
NAMES = np.array(["ash", "birch", "cedar"])


class Own(NamedTuple):
    """A file, what is said of it at first, the settings that it then takes, and its matrix."""

    file: str
    said: str
    needed: tuple[str, ...]
    A: object


def write(folder, rng):
    """Write the files into a folder; what they hold is put together here, not read."""
    X = np.round(rng.standard_normal((60, 4)) + 5 * CLASSES[:, None], 3)
    kind = NAMES[CLASSES]
    plain = pd.DataFrame(X, columns=["length", "width", "height", "weight"])
    trees = plain.assign(kind=kind)
    labelled = plain.assign(label=kind)

    trees.to_csv(folder / "semicolon.csv", sep=";", index=False)
    trees.to_csv(folder / "comma.csv", sep=";", decimal=",", index=False)
    trees.to_csv(folder / "bare.csv", header=False, index=False)
    labelled.to_csv(folder / "indexed.csv")
    labelled.assign(patient_id=rng.permutation(60) + 1000).to_csv(folder / "patients.csv", index=False)
    site = np.array(["north", "south"])[np.arange(60) % 2]
    labelled.assign(site=site).to_csv(folder / "text.csv", index=False)
    holes = labelled.copy()
    holes.loc[3, "width"] = holes.loc[7, "height"] = np.nan
    holes.to_csv(folder / "holes.csv", index=False)
    filled = X.copy()
    for row, column in ((3, 1), (7, 2)):
        filled[row, column] = np.delete(X[:, column], row).mean()
    labelled.to_excel(folder / "book.xlsx", index=False)

    counts = rng.poisson(1.0, (60, 30)).astype(float)
    counts[:, 0] += 1
    scipy.io.mmwrite(folder / "counts.mtx", scipy.sparse.coo_array(counts))
    (folder / "kinds.txt").write_text("kind\n" + "\n".join(kind) + "\n", "utf-8")
    parts = scipy.sparse.csr_array(counts)
    with h5py.File(folder / "cells.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "shape": parts.shape})
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(parts, part)
        obs, var = file.create_group("obs"), file.create_group("var")
        for table, n, letter in ((obs, 60, "c"), (var, 30, "g")):
            table.attrs["_index"] = "_index"
            table["_index"] = [f"{letter}{i}" for i in range(n)]
        column = obs.create_group("cell_type")
        column["codes"], column["categories"] = CLASSES.astype("i1"), NAMES.tolist()
    pixels = rng.integers(0, 60, (60, 8, 6)) + 60 * CLASSES[:, None, None]
    for i, image in enumerate(pixels):
        path = folder / "trees" / kind[i] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(path)
    np.savetxt(folder / "points.csv", X, fmt="%.3f", delimiter=",")

    label = ("dataset.label=kind",)
    of_text = r"column 'kind' of \S+ is not numeric.*dataset.label=kind if it holds the classes"
    onehot = np.c_[X, (site == "north"), (site == "south")]
    apart = "dataset.labels=kinds.txt"
    return [
        Own("semicolon.csv", of_text, label, X),
        Own("comma.csv", of_text, label, X),
        Own("bare.csv", r"column '4' of bare.csv is not .*dataset.label=4", ("dataset.label=4",), X),
        Own(
            "indexed.csv", r"column 'Unnamed: 0' looks like an index.*'dataset.drop=\[\"Unnamed: 0\"\]'",
            ('dataset.drop=["Unnamed: 0"]',), X,
        ),
        Own(
            "patients.csv", r"column 'patient_id' looks like an index.*'dataset.drop=\[patient_id\]'",
            ("dataset.drop=[patient_id]",), X,
        ),
        Own("text.csv", r"column 'site' of .*dataset.encode=onehot", ("dataset.encode=onehot",), onehot),
        Own("holes.csv", r"row 3, counted from 0, column 'width'.*missing=mean", ("dataset.missing=mean",), filled),
        Own("book.xlsx", "", (), X),
        Own("counts.mtx", r"no labels.*dataset\.k=….*dataset.labels=FILE", (apart,), parts),
        Own("cells.h5ad", r"no labels.*dataset.label=…", ("dataset.label=cell_type",), parts),
        Own("trees", "", (), pixels.reshape(60, 48).astype(float)),
        Own("points.csv", r"no labels.*dataset.labels=FILE", (apart,), X),
    ]  # fmt: skip
