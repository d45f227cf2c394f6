"""Text for terminals: escaping, printing, hashes and settings as text."""

import hashlib
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


def canonical(value: Any) -> str:
    """Return compact JSON with sorted keys: the same text for the same configuration."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a value's canonical JSON.

    File names that are not UTF-8, which Python decodes to surrogates, are allowed.
    """
    return hashlib.sha256(canonical(value).encode(errors="surrogatepass")).hexdigest()[:12]


_LONGEST = 2000
# Control characters except tab and newline, other line ends, changes of text direction, and lone surrogates.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Words that YAML does not read as text.
_NO_WORDS = frozenset({"true", "false", "null", "nan", "inf"})


class Volume:
    """Verbosity of a command: 0, negative with ``--quiet`` (only problems), positive with ``--verbose``."""

    level = 0


class Output:
    """The error of a failed write to stdout; empty if there was none."""

    error = ""


def printable(text: str) -> str:
    r"""Return text with the characters that control a terminal escaped, except newlines and tabs.

    Examples
    --------
    >>> print(printable("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class EscapedStream:
    """A text stream that makes all text `printable`, because commands show names and texts of strangers.

    `unescaped` is the stream itself, for progress bars and bold text, whose other parts kmdr has escaped already.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        """Write a text and return its length."""
        self.unescaped.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream that an `EscapedStream` writes to, or the stream itself."""
    return stream.unescaped if isinstance(stream, EscapedStream) else stream


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape everything that a block writes to stdout and stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, EscapedStream(unescaped(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield one line per row, with each cell padded to the width of its column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def terminal_width() -> int:
    """Return the number of columns of the terminal, or that of COLUMNS; 80 if neither is known, and at least 20."""
    return max(20, shutil.get_terminal_size().columns)


def wrapped(text: str, indent: str = "") -> str:
    """Return a text in lines that fit the terminal, broken at spaces."""
    return textwrap.fill(
        text, terminal_width(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def two_columns(rows: Sequence[tuple[str, str]], indent: str = "") -> Iterator[str]:
    """Yield lines with a term on the left and its text on the right, wrapped at the terminal's width."""
    width, most = terminal_width(), max(10, terminal_width() // 2)
    left = len(indent) + 2 + max((len(term) for term, _ in rows if len(term) <= most), default=0)
    for term, text in rows:
        lines = textwrap.wrap(text, max(20, width - left), break_on_hyphens=False)
        first = f"{indent}{term}"
        yield f"{first:{left}}{lines.pop(0)}" if lines and len(first) + 2 <= left else first
        yield from (" " * left + line for line in lines)


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2, "row"), counted(0, "study", "studies")
    ('1 row', '2 rows', '0 studies')
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


def first_few(texts: Sequence[str], most: int = 3) -> str:
    """Return the first texts, and the number of further ones.

    Examples
    --------
    >>> first_few(["a", "b", "c"]), first_few(["a", "b", "c", "d", "e"])
    ('a, b, c', 'a, b, c and 2 more')
    """
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def single_line(text: str) -> str:
    """Return a user's text for a message on one line: control characters escaped, the middle of a long one omitted."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_number(value: float, form: str) -> str:
    """Return a formatted number, with all digits before the decimal point and without a minus sign for zero.

    Examples
    --------
    >>> format_number(123456.7, ".3g"), format_number(-0.0001, ".3f"), format_number(-0.0001, "+.3f")
    ('123457', '0.000', '+0.000')
    """
    shown = format(value, form)
    if "e+" in shown and abs(value) < 1e15:
        shown = format(value, f"{'+' if form.startswith('+') else ''}.0f")
    return format(0.0, form) if shown.startswith("-") and not shown.strip("-0.%") else shown


def typeset(text: str) -> str:
    """Return a text for readers: with minus signs for the hyphens of its numbers, and a space before percent signs.

    Examples
    --------
    >>> typeset("-0.5% [-1e-05, +2%], k-means of 5-10 and bmd09-1")
    '−0.5 % [−1e−05, +2 %], k-means of 5-10 and bmd09-1'
    """
    return re.sub(r"(?<=\d)%", " %", re.sub(r"(?<![\w.−-])-(?=\.?\d)|(?<=\de)-(?=\d)", "−", text))


def tell(line: str, stream: TextIO | None = None, *, styled: bool = False) -> None:
    """Print a line, by default on stderr; a closed stream does not stop the run.

    A styled line is written unchanged: everything except its bold text is escaped already.
    """
    stream = stream or sys.stderr
    try:
        print(line if styled else printable(line), file=unescaped(stream) if styled else stream, flush=True)
    except (OSError, ValueError) as error:  # the reader ended, the disk is full, or the stream is closed
        if stream is sys.stdout and isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            Output.error = error.strerror or str(error)
        silence(stream)


def announce(line: str, *, styled: bool = False) -> None:
    """Print a line on stdout, as `tell` does, unless the command is quiet."""
    if Volume.level >= 0:
        tell(line, sys.stdout, styled=styled)


def silence(stream: TextIO) -> None:
    """Discard everything that is written to a stream from now on."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def path_override(path: str) -> str:
    """Return the name of a file as written in a setting ``NAME=VALUE``: quoted if necessary."""
    return path if re.fullmatch(r"[\w./~+-]+", path, re.ASCII) else quoted(path)


def override(value: Any) -> str:
    """Return a value as written in a setting ``NAME=VALUE``: plain words unquoted, other texts quoted.

    Examples
    --------
    >>> override([{"svd": {"rank": "r"}}, "my data.csv", None, True])
    '[{svd:{rank:r}},"my data.csv",null,true]'
    """
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{override(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(override, value))}]"
    if (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z_][\w./+-]*", value, re.ASCII)
        and value.lower() not in _NO_WORDS
    ):
        return value
    if isinstance(value, str):
        return quoted(value)
    plain = value.item() if hasattr(value, "item") else value
    return json.dumps(plain, ensure_ascii=False)


def quoted(text: str) -> str:
    r"""Return a text in double quotes, as Hydra reads it.

    There, a backslash is only special in front of a quote, of the end or of an interpolation.

    Examples
    --------
    >>> print(quoted(r'C:\data\"x"'))
    "C:\data\\\"x\""
    """
    text = re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + (match[2] and '\\"'), text)
    return '"' + re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + "\\${", text) + '"'
