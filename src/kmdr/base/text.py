"""Text for a terminal."""

import hashlib
import json
import os
import re
import sys
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
# Commands of a terminal, ends of lines but the usual one, changes of the direction of text, and halves of characters.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What a setting takes for another thing than a word.
_NO_WORDS = frozenset({"true", "false", "null", "nan", "inf"})


class Volume:
    """How much this command says: 0 as usual; less is ``--quiet``, only what went wrong; more is ``--verbose``."""

    level = 0


class Output:
    """Why lines of this command for stdout are lost; empty where they are not."""

    error = ""


def printable(text: str) -> str:
    r"""Return text with all characters escaped that steer a terminal; ends of lines and tabulators stay.

    Examples
    --------
    >>> print(printable("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class EscapedStream:
    """A text stream whose lines are `printable`, whoever writes them: commands show names and texts of strangers.

    Attributes
    ----------
    unescaped : TextIO
        The stream itself, for progress bars and bold text, in which kmdr escapes all else by itself.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        """Write a text and return its length."""
        self.unescaped.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream that an `EscapedStream` writes to, or else the stream itself."""
    return stream.unescaped if isinstance(stream, EscapedStream) else stream


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape whatever is written to stdout and stderr in a block."""
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


def one_line(text: str) -> str:
    """Return text with its control characters escaped, and its middle left out where it is very long.

    What a user gave is shown back; it shall neither break the line nor steer the terminal.
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_number(value: float, form: str) -> str:
    """Return a number in a format; a large one has all digits before the point, and zero has no minus sign.

    Examples
    --------
    >>> format_number(123456.7, ".3g"), format_number(-0.0001, ".3f"), format_number(-0.0001, "+.3f")
    ('123457', '0.000', '+0.000')
    """
    shown = format(value, form)
    if "e+" in shown and abs(value) < 1e15:
        shown = format(value, f"{'+' if form.startswith('+') else ''}.0f")
    return format(0.0, form) if shown.startswith("-") and not shown.strip("-0.%") else shown


def tell(line: str, stream: TextIO | None = None, *, styled: bool = False) -> None:
    """Print a line, on stderr unless another stream is given; a run goes on if nobody reads it.

    A styled line is written as given: all but its own bold text is escaped in it already.
    """
    stream = stream or sys.stderr
    try:
        print(line if styled else printable(line), file=unescaped(stream) if styled else stream, flush=True)
    except (OSError, ValueError) as error:  # its reader is gone, its disk full, or it is closed
        if stream is sys.stdout and isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            Output.error = error.strerror or str(error)
        silence(stream)


def announce(line: str, *, styled: bool = False) -> None:
    """Print a line of what was done on stdout, as `tell` does, unless the command is to be quiet."""
    if Volume.level >= 0:
        tell(line, sys.stdout, styled=styled)


def silence(stream: TextIO) -> None:
    """Let a stream lead nowhere from now on."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def override(value: Any) -> str:
    """Return a value as it is written in a setting ``NAME=VALUE``: plain words as they are, other texts quoted.

    Examples
    --------
    >>> override([{"svd": {"rank": "r"}}, "my data.csv", None, True])
    '[{svd:{rank:r}},"my data.csv",null,true]'
    """
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{override(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(override, value))}]"
    if isinstance(value, str) and re.fullmatch(r"[^\W\d][\w./+-]*", value) and value.lower() not in _NO_WORDS:
        return value
    plain = value.item() if hasattr(value, "item") else value
    return json.dumps(plain, ensure_ascii=False)
