"""A file that is written whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["naming", "write_whole"]


def write_whole(file: Path, text: str) -> None:
    """Write a file whole or not at all; a device or a pipe, which has no half, as it is.

    Raises:
        OSError: It cannot be written; the error names the file.
    """
    with naming(file):
        _write(file, text)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Have errors name the file to be written: a full disk names none, others a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(file)) from error


def _write(file: Path, text: str) -> None:
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
