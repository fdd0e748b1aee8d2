"""Budgets in TOML: limits, forbidden findings and ops, and accepted findings."""

import re
from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable, series

_US: Final = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
_FIGURE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(\D*)")


class Duration(float):
    """A duration in microseconds, written with a unit in the budget: "12 ms"."""

    __slots__ = ()


class Percentage(float):
    """A fraction between 0 and 1, written in percent in the budget: "5 %"."""

    __slots__ = ()


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all tables of a budget."""


class Limits(_Table, frozen=True):
    """Limits on figures; None means no limit."""

    step_time: Duration | None = None  # of the median regular step, at most
    exposed_time_per_step: Duration | None = None  # GPU wait for ops on the CPU, at most
    cpu_op_share: Percentage | None = None  # host time of CPU ops, of all op time, at most
    explained_share: Percentage | None = None  # of the host time of CPU ops, at least


class Forbidden(_Table, frozen=True):
    """Findings and ops that must not occur."""

    harmful: bool = False  # any harmful finding
    causes: tuple[str, ...] = ()
    cpu_ops: tuple[str, ...] = ()  # regular expressions, matched with names and types


class Accepted(_Table, frozen=True):
    """A finding that is accepted until a date."""

    id: str
    reason: str
    expires: date


class Budget(_Table, frozen=True):
    """A budget: limits, forbidden findings and ops, and accepted findings."""

    limits: Limits = Limits()
    forbidden: Forbidden = Forbidden()
    accepted: tuple[Accepted, ...] = ()


#: Without a budget and a baseline, no finding may be harmful.
DEFAULT: Final = Budget(forbidden=Forbidden(harmful=True))


def read_budget(file: Path, causes: Collection[str]) -> Budget:
    """Read a budget.

    Args:
        file: A TOML file.
        causes: The ids of all causes.

    Raises:
        TraceAnalyzerError: The file cannot be read, or has an unknown key, value, or unit.
    """
    shown = printable(file)
    try:
        budget = msgspec.toml.decode(file.read_bytes(), type=Budget, dec_hook=_figure)
    except OSError as error:
        msg = f"{shown}: {(error.strerror or str(error)).lower()}; name a TOML file"
        raise TraceAnalyzerError(msg) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{shown}: {_plain(str(error))}; see `traceanalyzer check --help`"
        raise TraceAnalyzerError(msg) from error
    for cause in budget.forbidden.causes:
        if cause not in causes:
            msg = f"{shown}: {cause!r} is not a cause; `traceanalyzer explain` lists the causes"
            raise TraceAnalyzerError(msg)
    for pattern in budget.forbidden.cpu_ops:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            msg = f"{shown}: {pattern!r} is not a regular expression ({error}); correct it"
            raise TraceAnalyzerError(msg) from error
    for each in budget.accepted:
        if not each.reason.strip():
            msg = f"{shown}: the accepted finding {each.id!r} has no reason; write one"
            raise TraceAnalyzerError(msg)
    return budget


def _plain(message: str) -> str:
    """Reword an error of msgspec for a TOML file: `$.limits.x` becomes `limits.x`."""
    message = re.sub(r" - at `\$\.?([^`]*)`", r" in \1", message.strip()).removesuffix(" in ")
    message = message.replace("Object contains unknown field", "unknown key")
    message = re.sub(r"^Expected `date`, got `\w+`", "expected a date without quotes", message)
    message = message.replace("`object`", "`table`").replace("Expected", "expected")
    return message.replace("Object missing required field", "missing key")


def _figure(kind: type, value: Any) -> Any:  # noqa: ANN401 - whatever the file has there
    """Parse a figure with a unit; a decoding hook for `msgspec`.

    Raises:
        ValueError: The value is not a figure with a unit of this kind.
    """
    units, example = (_US, "12 ms") if kind is Duration else ({"%": 0.01}, "5 %")
    found = _FIGURE.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = units.get(found[2].strip()) if found else None
    if found is None or factor is None:
        msg = f'{value!r} needs a unit ({series(list(units))}): write e.g. "{example}"'
        raise ValueError(msg)
    figure = float(found[1]) * factor
    if kind is Percentage and figure > 1:
        msg = f"{value!r} is more than 100 %"
        raise ValueError(msg)
    return kind(figure)
