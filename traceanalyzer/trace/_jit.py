"""Compiled functions: numba with its on-disk cache, where there is a place for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["jit"]

F = TypeVar("F", bound="Callable[..., Any]")


def jit(function: F) -> F:
    """Compile `function` at its first call, releasing the interpreter lock.

    The machine code is kept beside the package or in the user's cache folder; where neither can
    be written (a read-only image without a home), it is compiled anew in each process.
    """
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba: "no locator available", nowhere to keep the cache
        compiled = numba.njit(nogil=True)(function)
    return cast("F", compiled)
