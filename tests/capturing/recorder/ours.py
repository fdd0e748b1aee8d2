"""Faults of the recorder, as far as it can tell: what the user's files raise is the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.capturing.recorder import journal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["failing"]


def failing(error: Exception) -> Callable[..., None]:
    """A function that raises an error, and seems to stand in the recorder."""
    names: dict[str, Any] = {"error": error}
    code = compile("def fail(*_, **__):\n    raise error", journal.__file__, "exec")
    exec(code, names)  # noqa: S102
    fail: Callable[..., None] = names["fail"]
    return fail
