"""Text of others in Markdown, LaTeX and CSV: shown as it is, never obeyed. HTML is escaped by its templates."""

import re
import unicodedata

import pandas as pd


def _macro(letter: str) -> str:
    """Return what LaTeX calls a Greek letter, which is its name in Unicode but for one."""
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
    "†": r"\dag{}",
})  # fmt: skip


def markdown_escaped(text: str) -> str:
    r"""Return text that Markdown shows as it is, on one line, also in a table's cell or where a line begins.

    Examples
    --------
    >>> print(markdown_escaped("![a|b](javascript:c) <script> `x` 1 * 2"))
    !\[a\|b\](javascript:c) \<script\> \`x\` 1 \* 2
    >>> print(markdown_escaped("# a"), markdown_escaped("- a"), markdown_escaped("1. a"), markdown_escaped("-0.5"))
    \# a \- a 1\. a -0.5
    """
    line = " ".join(text.splitlines())
    line = re.sub(r"([\\*_|<>\[\]`~$]|&(?=#?\w+;))", r"\\\1", line)  # $ is mathematics to some hosts
    line = re.sub(r"^(\s*)([#=+-])(?=[\s#=+-]|$)", r"\1\\\2", line)
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", line)


def markdown_code(text: str) -> str:
    """Return text as a code span of Markdown, within more backticks than it has in a row.

    Examples
    --------
    >>> print(markdown_code("a `b`"))
    `` a `b` ``
    """
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def latex_escaped(text: str) -> str:
    r"""Return text that LaTeX sets as it is, on one line, also where a table's row begins.

    Examples
    --------
    >>> print(latex_escaped(r"\input{a}"), latex_escaped("[1cm] a_b"))
    \textbackslash{}input\{a\} {[}1cm] a\_b
    """
    escaped = " ".join(text.splitlines()).translate(_LATEX)
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped  # would belong to \\ before


def _inert(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(tuple("=+-@＝＋－＠\t\r\n")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def spreadsheet_csv(frame: pd.DataFrame) -> bytes:
    r"""Return a table as CSV that a spreadsheet may open: no text in it, nor a column's name, is taken for a formula.

    Text that begins with one of ``= + - @``, also of full width, a tabulator or a line's end gets an apostrophe before
    it, which spreadsheets take for the mark of a text. Numbers, also those written in text, stay as they are.

    Examples
    --------
    >>> spreadsheet_csv(pd.DataFrame({"name": ["=1+1", "-2", "a"], "F": [-0.5, 1.0, 2.0]}))
    b"name,F\n'=1+1,-0.5\n-2,1.0\na,2.0\n"
    """
    texts = frame.select_dtypes(exclude=["number", "bool"]).columns
    inert = frame.assign(**{name: frame[name].map(_inert, na_action="ignore") for name in texts})
    return inert.rename(columns=_inert).to_csv(index=False, lineterminator="\n").encode()
