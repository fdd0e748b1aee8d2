"""A file that is written whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(file: Path, text: str) -> None:
    """Write a file whole or not at all; a device or a pipe, which has no half, as it is."""
    target = file.resolve()  # through a link to what it names, instead of in its place
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".traceanalyzer-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes it readable by its owner alone
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
