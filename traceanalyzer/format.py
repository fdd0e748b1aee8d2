"""Formats numbers, durations, sizes, shares, lists, and names for readers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from traceanalyzer.units import PS_PER_US

_IRREGULAR: Final = {
    "breach": "breaches",
    "copy": "copies",
    "directory": "directories",
    "more": "more",
    "other process": "other processes",
    "thread or stream": "threads and streams",
}
_MAX_LISTED: Final = 5
_DURATION_UNITS: Final = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))
_SIZE_UNITS: Final = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
_THOUSAND, _THOUSANDTH = 1_000, 0.001
_LONGEST_NAME: Final = 300  # a path is shown whole; a hostile name does not fill the terminal
_ROUNDING_ERROR: Final = 1e-9  # of a sum of shares


@dataclass(frozen=True)
class RoundedFigure:
    """A figure rounded to three digits, its unit, and its exact value."""

    figure: str
    unit: str
    exact: str

    def __str__(self) -> str:
        return f"{self.figure}\N{NO-BREAK SPACE}{self.unit}" if self.unit else self.figure


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 op`, `2,500 ops`."""
    return f"{number:,} {noun if number == 1 else _IRREGULAR.get(noun, f'{noun}s')}"


def listed(names: Sequence[str]) -> str:
    """Return the first names as text: `a, b`, or `a, b, c, d, e and 3 more`."""
    shown = ", ".join(names[:_MAX_LISTED])
    rest = len(names) - _MAX_LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown


def series(names: Sequence[str], most: int = _MAX_LISTED) -> str:
    """Return names as a series: `a, b, and c`, or `a, b, and 3 more`."""
    rest = [f"{len(names) - most} more"] if len(names) > most else []
    *first, last = [*names[:most], *rest] or [""]
    return last if not first else f"{', '.join(first)}{',' * (len(first) > 1)} and {last}"


def duration(us: float) -> RoundedFigure:
    """Return a duration in microseconds, scaled to a readable unit."""
    decimals = 3 if abs(us) >= _THOUSANDTH else 6  # the trace counts picoseconds
    exact = _fixed(us, decimals).rstrip("0").rstrip(".") if us else "0"
    return _scaled(us, _DURATION_UNITS, f"{exact} µs")


def duration_text(ps: float) -> str:
    """Return a duration in picoseconds as text: `12.3 ms`."""
    shown = duration(ps / PS_PER_US)
    return f"{shown.figure} {shown.unit}"


def size(size_bytes: float) -> RoundedFigure:
    """Return a size in bytes, scaled to a decimal unit: 1 kB is 1000 bytes."""
    exact = _fixed(size_bytes, 0)
    if size_bytes < _SIZE_UNITS[1][1]:
        return RoundedFigure(exact, "B", f"{exact} bytes")
    return _scaled(size_bytes, _SIZE_UNITS, f"{exact} bytes")


def size_text(size_bytes: float) -> str:
    """Return a size in bytes as text: `2.00 MB`, `512 bytes`."""
    shown = size(size_bytes)
    if shown.unit == "B":
        return counted(round(size_bytes), "byte")
    return f"{shown.figure} {shown.unit}"


def share(part: float) -> RoundedFigure:
    """Return a fraction as a percentage with one decimal; only 0 is 0 %, and only 1 is 100 %."""
    percent = part * 100
    exact = _fixed(percent, 4).rstrip("0").rstrip(".") + " %"
    if percent in (0, 100):
        figure = _fixed(percent, 0)
    elif 0 < percent < 0.05:  # noqa: PLR2004 - would be rounded to 0.0
        figure = "<0.1"
    elif 99.95 <= percent < 100:  # noqa: PLR2004 - would be rounded to 100.0
        figure = ">99.9"
    else:
        figure = _fixed(percent, 1)
    return RoundedFigure(figure, "%", exact)


def percent_text(part: float) -> str:
    """Return a fraction as a whole percentage; only 0 is `0 %`, and only 1 is `100 %`."""
    if 0 < part < 0.01:  # noqa: PLR2004 - would read as 0 or 1
        return "less than 1 %"
    if 0.99 < part < 1 - _ROUNDING_ERROR:  # noqa: PLR2004 - would read as 99 or 100
        return "more than 99 %"
    return f"{part:.0%}".replace("%", " %")


def _scaled(value: float, units: tuple[tuple[str, float], ...], exact: str) -> RoundedFigure:
    """Return a value with three digits, in the smallest unit in which it is below 1,000."""
    # 999.6 µs reads as 1.00 ms.
    fitting = (each for each in units if round(abs(value) / each[1]) < _THOUSAND)
    unit, factor = next(fitting, units[-1])
    return RoundedFigure(_three_digits(value / factor), unit, exact)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if 0 < value < _THOUSANDTH / 2:
        return "<0.001"
    # Compared as they will be rounded.
    for below, decimals in ((0.9995, 3), (9.995, 2), (99.95, 1)):
        if magnitude < below:
            return _fixed(value, decimals)
    return _fixed(value, 0)


def _fixed(value: float, decimals: int) -> str:
    """Return a number with decimals and thousands separators; zero is never `-0`."""
    figure = f"{value:,.{decimals}f}"
    return figure if figure.strip("-0.,") else figure.lstrip("-")


def printable(text: object) -> str:
    """Return text with control characters, line breaks, and undecodable bytes escaped.

    A file name can contain any byte, but an error is one line, and printing it must not fail.
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))
    half = _LONGEST_NAME // 2
    return line if len(line) <= _LONGEST_NAME else f"{line[:half]}...{line[-half:]}"


def op_label(name: str, op_type: str) -> str:
    """Return the name of an op, followed by its type if they differ: `dense/MatMul:MatMul`."""
    return name if name == op_type else f"{name}:{op_type}"


def encodable(name: str) -> str:
    """Return a name that can be encoded as UTF-8, with undecodable bytes escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
