"""The program's own files, as far as they are still there: read, never run."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Final

__all__ = ["parsed"]

_LARGEST: Final = 5_000_000  # bytes; nobody writes larger files by hand


@lru_cache(maxsize=16)
def parsed(file: str) -> ast.AST | None:
    """Return a Python file as its syntax tree, or None where it cannot be read.

    Args:
        file: Its path; nothing is known of one that is not absolute.
    """
    path = Path(file)
    try:
        if not path.is_absolute() or not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
