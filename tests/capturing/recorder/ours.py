"""Faults of the recorder, as far as it can tell: what the user's files raise is the user's."""

from collections.abc import Callable
from typing import Any

from traceanalyzer.capturing.recorder import hooks


def failing(error: Exception) -> Callable[..., None]:
    """A function that raises an error, and seems to stand in the recorder."""
    names: dict[str, Any] = {"error": error}
    code = compile("def fail(*_, **__):\n    raise error", hooks.__file__, "exec")
    exec(code, names)  # noqa: S102
    fail: Callable[..., None] = names["fail"]
    return fail
