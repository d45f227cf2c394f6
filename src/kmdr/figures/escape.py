"""Escaping of untrusted text for Markdown, LaTeX and CSV, so that it is shown verbatim. Templates escape HTML."""

import re
import unicodedata

import pandas as pd


def _macro(letter: str) -> str:
    """Return the LaTeX macro of a Greek letter: its Unicode name, with one exception."""
    name = unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA")
    return f"$\\{name.title() if letter.isupper() else name.lower()}$"


_LATEX = str.maketrans({
    **{letter: _macro(letter) for letter in "αβγδζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"},
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)),  # these have no macros
    "ε": r"$\varepsilon$", "ς": r"$\varsigma$",
    **{digit: f"$^{i}$" for i, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{digit: f"$_{i}$" for i, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "−": r"$-$", "–": "--", "≤": r"$\le$", "≥": r"$\ge$",
    "×": r"$\times$", "·": r"$\cdot$", "±": r"$\pm$", "√": r"$\surd$", "→": r"$\to$", "↑": r"$\uparrow$",
    "↓": r"$\downarrow$", "⌈": r"$\lceil$", "⌉": r"$\rceil$", "‖": r"$\Vert$", "∝": r"$\propto$", "⁻": "$^-$",
    "†": r"\dag{}", "÷": r"$\div$", "≈": r"$\approx$", "½": r"$\frac12$", "…": r"\ldots{}",
    "“": "``", "”": "''", "—": "---", "§": r"\S{}", "≠": r"$\ne$", "∞": r"$\infty$", "⌊": r"$\lfloor$",
    "⌋": r"$\rfloor$", "ᵀ": r"$^\mathsf{T}$",
})  # fmt: skip


# A part between backticks; a setting as on the command line, NAME=VALUE; or the name of a file.
CODE = re.compile(
    r"(`+)(.+?)\1|(?<![\w./?&#;-])([a-z]\w*(?:\.\w+)*=[\w./\[{:,-]*\w[\]}]*|"
    r"[\w-]+(?:/[\w.-]+)*\.(?:csv|json|jsonl|m|md|mat|npy|npz|py|toml|yaml)(?:\.xz)?(?!\w))"
)


def markdown_escaped(text: str) -> str:
    r"""Return text that Markdown shows verbatim, on one line, also in a table cell or at the start of a line.

    Examples
    --------
    >>> print(markdown_escaped("![a|b](javascript:c) <script> `x` 1 * 2"))
    !\[a\|b\](javascript:c) \<script\> \`x\` 1 \* 2
    >>> print(markdown_escaped("# a"), markdown_escaped("- a"), markdown_escaped("1. a"), markdown_escaped("-0.5"))
    \# a \- a 1\. a -0.5
    """
    line = " ".join(text.splitlines())
    line = re.sub(r"([\\*_|<>\[\]`~$]|&(?=#?\w+;))", r"\\\1", line)  # some hosts read $ as mathematics
    line = re.sub(r"^(\s*)([#=+-])(?=[\s#=+-]|$)", r"\1\\\2", line)
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", line)


def markdown_code(text: str) -> str:
    """Return text as a Markdown code span, with a fence longer than any run of backticks in it.

    Examples
    --------
    >>> print(markdown_code("a `b`"))
    `` a `b` ``
    """
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def markdown_prose(text: str) -> str:
    r"""Return text that Markdown shows verbatim, with the parts between backticks, settings and file names as code.

    Examples
    --------
    >>> print(markdown_prose("`svds` returns U_t with kmeans.online=true, see lle.m"))
    `svds` returns U\_t with `kmeans.online=true`, see `lle.m`
    """
    parts, end = [], 0
    for match in CODE.finditer(text):
        parts += [markdown_escaped(text[end : match.start()]), markdown_code(match[2] or match[3])]
        end = match.end()
    return "".join([*parts, markdown_escaped(text[end:])])


def latex_escaped(text: str) -> str:
    r"""Return text that LaTeX typesets verbatim, on one line, also at the start of a table row.

    Examples
    --------
    >>> print(latex_escaped(r"\input{a}"), latex_escaped("[1cm] a_b"))
    \textbackslash{}input\{a\} {[}1cm] a\_b
    """
    escaped = " ".join(text.splitlines()).translate(_LATEX)
    # At the start of a row, [ and * would be arguments of the preceding \\.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def _inert(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(tuple("=+-@＝＋－＠\t\r\n")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def spreadsheet_csv(frame: pd.DataFrame) -> bytes:
    r"""Return a table as CSV in which a spreadsheet takes no text or column name for a formula.

    Text that begins with one of ``= + - @`` (also full-width), a tab or a line end gets an apostrophe in front, which
    spreadsheets read as a marker of text. Numbers, also in text form, stay as they are.

    Examples
    --------
    >>> spreadsheet_csv(pd.DataFrame({"name": ["=1+1", "-2", "a"], "F": [-0.5, 1.0, 2.0]}))
    b"name,F\n'=1+1,-0.5\n-2,1.0\na,2.0\n"
    """
    texts = frame.select_dtypes(exclude=["number", "bool"]).columns
    inert = frame.assign(**{name: frame[name].map(_inert, na_action="ignore") for name in texts})
    return inert.rename(columns=_inert).to_csv(index=False, lineterminator="\n").encode()
