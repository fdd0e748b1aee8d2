"""The program's TensorFlow, as long as the program keeps it."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["loaded"]


def loaded(name: str) -> Any:  # noqa: ANN401 - a module
    """Return a module of TensorFlow that has been imported.

    A program may take TensorFlow out of `sys.modules`. To import it a second time ends the process
    (`PyExceptionRegistry::Init() already called`): what is asked for late is asked for here.

    Args:
        name: The module's full name.

    Raises:
        ImportError: It is not there any more.
    """
    module = sys.modules.get(name)
    if module is None or "tensorflow" not in sys.modules:
        message = f"{name} is no longer imported"
        raise ImportError(message)
    return module
