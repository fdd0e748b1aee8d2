"""Budgets in TOML: limits, forbidden findings and ops, and accepted findings."""

import re
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args, get_origin

import msgspec

from traceanalyzer import data_files
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable, series

_US: Final = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
_Pattern: TypeAlias = re.Pattern[str]
_WORDS: Final = {
    "object": "a table", "array": "a list", "date": "a date without quotes",
    "bool": "true or false", "str": "text in quotes",
}  # fmt: skip
_FIGURE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(\D*)")


class InvalidBudgetError(TraceAnalyzerError):
    """Raised if a budget cannot be read or is invalid."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems  # each is one line


class Duration(float):
    """A duration in microseconds, written with a unit in the budget: "12 ms"."""

    __slots__ = ()


class Percentage(float):
    """A fraction between 0 and 1, written in percent in the budget: "5 %"."""

    __slots__ = ()


class CauseId(str):
    """The id of a cause."""

    __slots__ = ()


class Reason(str):
    """Text that is not blank."""

    __slots__ = ()


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
    cpu_ops: tuple[_Pattern, ...] = ()  # searched in names and types


class Accepted(_Table, frozen=True):
    """A finding that is accepted until a date."""

    id: str
    reason: Reason
    expires: date


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
        InvalidBudgetError: The file cannot be read or is invalid. The message lists all errors.
    """
    shown = printable(file)
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{shown}: {(error.strerror or str(error)).lower()}; name a TOML file"
        raise InvalidBudgetError(msg) from error
    except (ValueError, RecursionError) as error:  # numbers and arrays can be too long, too
        msg = f"{shown}: {error}; see `traceanalyzer check --help`"
        raise InvalidBudgetError(msg) from error
    problems = [f"{shown}: {each}" for each in _problems(data, Budget, "")]
    if problems:
        raise InvalidBudgetError(*problems)
    return msgspec.convert(data, Budget, dec_hook=_decoded, builtin_types=[date])


def _problems(value: Any, kind: Any, key: str) -> Iterator[str]:  # noqa: ANN401 - any TOML
    """Yield all errors in a value of the file, including nested values.

    `msgspec` itself stops at the first error.
    """
    if isinstance(kind, type) and issubclass(kind, _Table) and isinstance(value, dict):
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        where = f" in {key}" if key else ""
        for name in value:
            if name in fields:
                yield from _problems(value[name], fields[name].type, f"{key}.{name}".strip("."))
            else:
                known = series(list(fields), len(fields))
                yield f"unknown key `{printable(name)}`{where}; the keys are {known}"
        for name, field in fields.items():
            if field.required and name not in value:
                yield f"missing key `{name}`{where}; add it"
    elif get_origin(kind) is tuple and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _problems(each, get_args(kind)[0], f"{key}[{index}]")
    else:
        try:
            msgspec.convert(value, kind, dec_hook=_decoded, builtin_types=[date])
        except msgspec.ValidationError as error:
            yield f"{key}: {_plain(str(error))}"


def _plain(message: str) -> str:
    """Reword an error of msgspec for a TOML file."""
    expected = re.match(r"Expected `(\w+)", message)
    words = _WORDS.get(expected[1]) if expected else None
    return f"write {words}; see `traceanalyzer check --help`" if words else message


def _decoded(kind: type, value: Any) -> Any:  # noqa: ANN401 - any TOML
    """Convert a value to the type of its key; a decoding hook for `msgspec`.

    Raises:
        ValueError: The value is not of that type.
    """
    if kind in {Duration, Percentage}:
        return _figure(kind, value)
    if not isinstance(value, str):
        msg = f"{value!r} needs quotes"
        raise ValueError(msg)  # noqa: TRY004 - msgspec reports only ValueError by its key
    if kind is CauseId and value not in data_files.names("causes/texts"):
        msg = f"{value!r} is not a cause; `traceanalyzer explain` lists the causes"
        raise ValueError(msg)
    if kind is Reason and not value.strip():
        msg = "no reason is given; write one"
        raise ValueError(msg)
    if kind == _Pattern:
        try:
            return re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            msg = f"{value!r} is not a regular expression ({error}); correct it"
            raise ValueError(msg) from error
    return kind(value)


def _figure(kind: type, value: Any) -> Any:  # noqa: ANN401 - any TOML
    """Parse a figure with a unit.

    Raises:
        ValueError: The value is not a figure with a unit of this kind.
    """
    units, example = (_US, "12 ms") if kind is Duration else ({"%": 0.01}, "5 %")
    found = _FIGURE.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = units.get(found[2].strip()) if found else None
    if found is None or factor is None:
        msg = f'{value!r} is not a number with a unit ({", ".join(units)}); write e.g. "{example}"'
        raise ValueError(msg)
    figure = float(found[1]) * factor
    if kind is Percentage and figure > 1:
        msg = f"{value!r} is more than 100 %"
        raise ValueError(msg)
    return kind(figure)
