"""Compiled templates, kept in the user's cache folder: compiling them takes half a second.

Jinja's own cache on disk reads pickles; this one reads machine-independent code objects alone, from
a folder that only the user may write. What was compiled by another Python, another Jinja or for
another environment lies in another folder. Where nothing can be kept, templates are compiled anew.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

import jinja2

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

__all__ = ["TemplateCache", "cache_folder"]


def cache_folder(made_for: str) -> Path | None:
    """Returns where compiled templates are kept, or None where there is no such place.

    Args:
        made_for: What the code depends on besides the template, Python and Jinja.
    """
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(root).is_absolute():  # as the XDG base directory specification has it
        try:
            root = str(Path.home() / ".cache")
        except RuntimeError:  # no home
            return None
    told = f"{sys.implementation.cache_tag} {sys.hexversion} {jinja2.__version__} {made_for}"
    digest = hashlib.sha256(told.encode("utf-8")).hexdigest()[:16]
    return Path(root) / "traceanalyzer" / f"templates-{digest}"


class TemplateCache(jinja2.BytecodeCache):
    """Keeps compiled templates in a folder; what cannot be read or written is as if not there."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a folder, made when the first is written."""
        self._folder = folder

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill a bucket with the code of its template, if that was kept."""
        try:
            if not self._is_ours():
                return
            kept = self._file(bucket).read_bytes()
            checksum, _, code = kept.partition(b"\n")
            if checksum.decode("ascii") != f"{bucket.checksum} {hashlib.sha256(code).hexdigest()}":
                return
            loaded = marshal.loads(code)  # noqa: S302 - only the user can have written it
        except (OSError, ValueError, EOFError, TypeError):
            return
        if isinstance(loaded, CodeType):
            bucket.code = loaded

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        if bucket.code is None:
            return
        code = marshal.dumps(bucket.code)
        head = f"{bucket.checksum} {hashlib.sha256(code).hexdigest()}\n"
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return
            handle, name = tempfile.mkstemp(dir=self._folder)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(head.encode("ascii") + code)
                Path(name).replace(self._file(bucket))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def _is_ours(self) -> bool:
        """Return whether nobody else could have written into the folder."""
        found = self._folder.stat()
        return found.st_uid == os.getuid() and not found.st_mode & 0o022

    def _file(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key}.code"
