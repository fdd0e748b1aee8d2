"""Writes files atomically."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file completely or not at all. Devices and pipes are written directly.

    Raises:
        OSError: The file cannot be written. The error names the file.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with naming(file):
        target = file.resolve()  # a link stays a link
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".traceanalyzer-")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp makes it readable by its owner alone
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Add the name of the file to any OSError."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(file)) from error
