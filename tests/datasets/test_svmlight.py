"""The svmlight reader around scikit-learn's: exact numbers, errors with the number of the line, bounded memory."""

import gzip

import numpy as np
import pytest

from kmdr.base.errors import UserError
from kmdr.datasets.formats.svmlight import svmlight


def write(path, text, opener=open):
    with opener(path, "wb") as file:
        file.write(text.encode())
    return path


@pytest.mark.parametrize("form", ["{!r}", "{:.17g}", "{:.16e}", "{:.5g}", "{:.30f}", "{:.25e}"])
def test_numbers_of_every_magnitude_are_rounded_correctly(tmp_path, rng, form):
    bits = np.r_[rng.integers(2**64, size=4000, dtype=np.uint64), rng.integers(2**52, size=1000, dtype=np.uint64)]
    values = bits.view(np.float64)  # the latter are subnormal
    texts = [form.format(value) for value in values[np.isfinite(values)].tolist()]
    A, _ = svmlight(write(tmp_path / "a.svm", "".join(f"{i % 2} 1:{text}\n" for i, text in enumerate(texts))))
    assert A.data.tobytes() == np.array([float(text) for text in texts]).tobytes()


def test_a_file_without_entries_does_not_shift_the_indices_of_another(tmp_path):
    files = write(tmp_path / "a.svm", "1\n2\n"), write(tmp_path / "b.svm", "1 1:5 3:6\n")
    for order in (files, files[::-1]):
        A, _ = svmlight(*order)
        assert A.shape == (3, 3)
        assert sorted(map(tuple, A.toarray().tolist())) == [(0, 0, 0), (0, 0, 0), (5, 0, 6)]
    assert svmlight(files[0])[0].shape == (2, 0)
    assert svmlight(write(tmp_path / "c.svm", "\n# only a comment\n"))[0].shape == (0, 0)


def test_an_error_names_the_file_and_line_of_several(tmp_path):
    files = write(tmp_path / "a.svm", "1 1:2\n" * 9), write(tmp_path / "b.svm", "# x\n\n1 1:2\r\n1 1:z # y\n1 1:2\n")
    with pytest.raises(UserError, match=r"^line 4 of b\.svm is not of the form 'label index:value index:value …'$"):
        svmlight(*files)


@pytest.mark.parametrize("entries", ["qid:7 1:2", "1:2 qid:7", "qid:7", "qid:x 1:2"])
def test_a_qid_is_refused_wherever_it_is_but_in_a_comment(tmp_path, entries):
    with pytest.raises(UserError, match=r"line 2 of a\.svm has a qid"):
        svmlight(write(tmp_path / "a.svm", f"1 1:2\n1 {entries}\n"))
    A, _ = svmlight(write(tmp_path / "b.svm", f"1 1:2 # {entries}, file_1\n2 1:3 #qid:7\n"))
    assert A.toarray().tolist() == [[2], [3]]


@pytest.mark.parametrize("row", ["1 1:2 2:3\n", "1\n", "\n"])
def test_what_unpacks_to_a_larger_matrix_than_allowed_is_refused_early(tmp_path, row):
    packed = write(tmp_path / "a.gz", row * 10**6, gzip.open)
    with pytest.raises(UserError, match=r"a\.gz unpacks to at least \d{1,5} lines: .* allow more with dataset\.max_gb"):
        svmlight(packed, limit=10**6)
    rows = write(tmp_path / "b.svm", row * 1000), write(tmp_path / "c.svm", row * 1000)
    svmlight(rows[0], limit=40_000)
    with pytest.raises(UserError, match=r"c\.svm unpacks to at least"):  # the limit is one for all files
        svmlight(*rows, limit=1000 * (16 + 12 * row.count(":")))


@pytest.mark.parametrize(("index", "reason"), [(2**31, "beyond 2147483646"), (2**31 - 1, "shape 1 x 2147483647")])
def test_a_huge_index_is_refused_before_memory_is_taken_for_it(tmp_path, index, reason):
    with pytest.raises(UserError, match=reason):
        svmlight(write(tmp_path / "a.svm", f"1 1:2 {index}:3\n"), limit=5e8)
