"""Read a folder of images: one subfolder per class, or one folder of images without labels."""

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from kmdr.base.errors import UserError
from kmdr.base.text import counted
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.common import Content, afford, natural_key, reading, visible_files
from kmdr.datasets.formats.parts import SUFFIXES as PARTS

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".pnm", ".webp"}
# Modes of grey images with more than 8 bits, which are not converted, and the form of these grey levels.
_DEEP = {**dict.fromkeys(("I;16", "I;16B", "I;16L", "I"), "more than 8 bits"), "F": "floating point"}


def find_images(folder: Path) -> list[Path]:
    """Return the images in a folder and all its subfolders."""
    return [path for path in visible_files(folder) if path.suffix.lower() in _SUFFIXES]


def image_files(folder: Path) -> list[Path]:
    """Return the images of a folder or of its subfolders, but not of both, in natural order (2 before 10)."""
    every = find_images(folder)
    if not every:
        extensions = ", ".join(sorted(suffix[1:] for suffix in _SUFFIXES))
        raise UserError(
            f"{folder} is a folder; name a regular file, or a folder of images ({extensions}) or of parts of a "
            f"matrix ({', '.join(suffix[1:] for suffix in PARTS)})"
        )
    depths = Counter(len(path.relative_to(folder).parts) for path in every)
    if max(depths) > 2:
        deep = next(path for path in every if len(path.relative_to(folder).parts) > 2)
        raise UserError(f"{deep} is deeper than {folder.name}/CLASS/IMAGE; put each image into the folder of its class")
    if len(depths) > 1:
        raise UserError(
            f"{folder.name} holds {counted(depths[1], 'image')} itself and {depths[2]} in subfolders; put each into "
            "the folder of its class, or all into one folder"
        )
    return sorted(every, key=lambda path: [natural_key(part) for part in path.relative_to(folder).parts])


def images(folder: Path, limit: float, options: FileOptions) -> Content:
    """Read each image as a row of grey levels, row by row, scaled to option ``size`` if that is set."""
    size = options.size
    paths = image_files(folder)
    headers = [_header(path, limit) for path in paths]
    (usual, _), *others = Counter(numbers for _, numbers in headers).most_common()
    if others:
        odd = next(path for path, (_, numbers) in zip(paths, headers, strict=True) if numbers != usual)
        raise UserError(
            f"most images of {folder.name} have grey levels of {usual}, others do not, such as "
            f"{odd.relative_to(folder)}; save all of them in one of these forms"
        )
    sizes = Counter(shape for shape, _ in headers)
    (height, width), most = sizes.most_common(1)[0]
    if any(size):
        height, width = size
    elif len(sizes) > 1:
        odd = next(path for path, (shape, _) in zip(paths, headers, strict=True) if shape != (height, width))
        raise UserError(
            f"{most} of {len(paths)} images of {folder.name} have {height} x {width} pixels, others do not, such as "
            f"{odd.relative_to(folder)}; scale all to one size with 'dataset.size=[{height},{width}]'"
        )
    n, d = len(paths), height * width
    afford(folder, f"holds {n} images of {height} x {width} pixels", 8.0 * n * d, limit)
    A = np.empty((n, d))
    for row, path in zip(A, paths, strict=True):
        row[:] = _grey(path, height, width).ravel()
    flat = paths[0].parent == folder
    labels = None if flat else np.array([path.parent.name for path in paths], dtype=object)
    unused = len(visible_files(folder)) - n
    form = f"{counted(n, 'image')} as grey levels of {height} x {width}" + (
        f", scaled from {len(sizes)} sizes" if any(size) else ""
    )
    return Content(
        A, labels, None, form + (f"; {counted(unused, 'other file')} ignored" if unused else ""), "the folder"
    )


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # too large images are refused below
        with Image.open(path) as image:
            yield image


def _header(path: Path, limit: float) -> tuple[tuple[int, int], str]:
    """Return height and width, and the form of the grey levels in words, read from the header only."""
    with reading(path, "image"), _opened(path) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise UserError(f"{path.name} holds {image.n_frames} images; save each in a file of its own")  # type: ignore[attr-defined]
        width, height = image.size
        afford(path, f"claims {height} x {width} pixels", 8.0 * math.prod(image.size), limit)
        return (height, width), _DEEP.get(image.mode, "8 bits")


def _grey(path: Path, height: int, width: int) -> NDArray[Any]:
    with reading(path, "image"), _opened(path) as image:
        grey = image if image.mode in _DEEP else image.convert("L")
        if grey.size != (width, height):
            grey = grey.convert("F" if image.mode in _DEEP else "L")  # F keeps 24 bits of a number
            grey = grey.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(grey, np.float64)
