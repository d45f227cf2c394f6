"""Numbers as the pages of a report show them."""

import math

from kmdr.analysis.statistics import Component


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with a few significant digits, and a dash for a missing one.

    Examples
    --------
    >>> number(-0.012345), number(float("nan")), number(12345.6), number(0.00001)
    ('−0.0123', '–', '12346', '1e−05')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.0f}" if 10**digits <= abs(value) < 10**7 else f"{value:z.{digits}g}"
    return text.replace("-", "−")


def effect(component: Component) -> str:
    """Return an effect with its interval, if it has one: a dash in brackets means that too few runs give one.

    Examples
    --------
    >>> effect(Component("", 0.5, 0.25, math.inf, 0.1, 1.0, 9, "F"))
    '0.5 [0.25, ∞]'
    >>> effect(Component("", 2.0, -math.inf, math.inf, 1.0, 1.0, 2, "F"))
    '2 [—]'
    """
    ends = component.low, component.high
    if any(map(math.isnan, ends)) or ends[0] == ends[1]:
        return number(component.effect)
    if all(map(math.isinf, ends)):
        return f"{number(component.effect)} [—]"
    return f"{number(component.effect)} [{number(ends[0])}, {number(ends[1])}]"


def number_word(count: int) -> str:
    """Return a small whole number in words.

    Examples
    --------
    >>> number_word(4), number_word(40)
    ('four', '40')
    """
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return words[count] if count < len(words) else str(count)


def probability(p: float) -> str:
    """Return a p-value with three decimals, or an upper bound.

    Examples
    --------
    >>> probability(0.0123), probability(1e-9), probability(1.0)
    ('0.012', '< 0.001', '1.000')
    """
    if math.isnan(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float) -> str:
    """Return a duration in the largest fitting units.

    Examples
    --------
    >>> duration(0.4), duration(75), duration(3720)
    ('0.4 s', '1 min 15 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
