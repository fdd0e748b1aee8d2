"""Budgets in TOML: limits, forbidden findings and ops, and accepted findings."""

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec

from traceanalyzer import data_files
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable

_FIGURE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(\D*)")


class Duration(float):
    """A duration in microseconds, written with a unit in the budget: "12 ms"."""


class Percentage(float):
    """A fraction between 0 and 1, written in percent in the budget: "5 %"."""


class CauseId(str):
    """The id of a cause."""

    __slots__ = ()


_UNITS: Final[dict[type, dict[str, float]]] = {
    Duration: {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6},
    Percentage: {"%": 0.01},
}


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of the tables in a budget."""


class Limits(_Table, frozen=True):
    """Limits on figures; None means no limit."""

    step_time: Duration | None = None  # of the median regular step, at most
    exposed_time_per_step: Duration | None = None  # GPU wait for ops on the CPU, at most
    cpu_op_share: Percentage | None = None  # share of op time spent in CPU ops, at most
    explained_share: Percentage | None = None  # of the host time of CPU ops, at least


class Forbidden(_Table, frozen=True):
    """Findings and ops that must not occur."""

    harmful: bool = False  # any harmful finding
    causes: tuple[CauseId, ...] = ()
    cpu_ops: tuple[re.Pattern[str], ...] = ()  # searched in names and types


class Accepted(_Table, frozen=True):
    """A finding that is accepted until a date."""

    id: str
    reason: str
    expires: date

    def __post_init__(self) -> None:
        if not self.reason.strip():
            msg = "the reason is empty; write one"
            raise ValueError(msg)


class Budget(_Table, frozen=True):
    """A budget: limits, forbidden findings and ops, and accepted findings."""

    limits: Limits = Limits()
    forbidden: Forbidden = Forbidden()
    accepted: tuple[Accepted, ...] = ()


#: Without a budget and a baseline, no finding may be harmful.
DEFAULT: Final = Budget(forbidden=Forbidden(harmful=True))


def read_budget(file: Path) -> Budget:
    """Read a budget in TOML.

    Raises:
        TraceAnalyzerError: The file cannot be read or is invalid.
    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        return msgspec.convert(data, Budget, dec_hook=_decoded, builtin_types=[date])
    except OSError as error:
        msg = f"{printable(file)}: {(error.strerror or str(error)).lower()}; name a TOML file"
        raise TraceAnalyzerError(msg) from error
    except (ValueError, RecursionError) as error:  # numbers and arrays can be too long, too
        msg = f"{printable(file)}: {printable(error)}; see `traceanalyzer check --help`"
        raise TraceAnalyzerError(msg) from error


def _decoded(kind: type, value: Any) -> Any:  # noqa: ANN401 - any TOML
    """Convert a value to the type of its key; a decoding hook for `msgspec`.

    Raises:
        ValueError: The value is not of that type.
    """
    msg = ""
    if kind in _UNITS:
        units = _UNITS[kind]
        found = _FIGURE.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is not None and (unit := found[2].strip()) in units:
            figure = float(found[1]) * units[unit]
            if kind is Duration or figure <= 1:
                return kind(figure)
            msg = f"{value!r} is more than 100 %"
        msg = msg or f"{value!r} is not a number in quotes with a unit ({', '.join(units)})"
    elif not isinstance(value, str):
        msg = f"{value!r} needs quotes"
    elif kind is CauseId:
        if value in data_files.names("causes/texts"):
            return kind(value)
        msg = f"{value!r} is not a cause; `traceanalyzer explain` lists the causes"
    else:
        try:
            return re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            msg = f"{value!r} is not a regular expression ({error})"
    raise ValueError(msg)
