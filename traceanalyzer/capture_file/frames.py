"""Describes recorded lines of code: the line, its library, and a key that survives edits."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.capture_file.document import Frame

_PACKAGES: Final = ("/site-packages/", "/dist-packages/")
_NAMES: Final = {"keras": "Keras", "tensorflow": "TensorFlow", "tf_keras": "Keras"}


def shown_path(frame: Frame) -> str:
    """Return a file's path; for a library, from its package on."""
    path = frame.file.replace("\\", "/")
    for folder in _PACKAGES:
        if not frame.is_user and folder in path:
            return path.rpartition(folder)[2]
    return path


def file_name(frame: Frame) -> str:
    """Return the name of a line's file, without folders."""
    return PurePosixPath(shown_path(frame)).name


def line_text(frame: Frame) -> str:
    """Return a line of code in a few characters: `train.py:7`."""
    return f"{file_name(frame)}:{frame.line}"


def lines_text(frames: Iterable[Frame | None]) -> str:
    """Return distinct lines in their order in the file; "" if none is known."""
    known = sorted({(f.file, f.line, line_text(f)) for f in frames if f is not None})
    return listed(list(dict.fromkeys(text for _, _, text in known)))


def same_place(frame: Frame | None) -> str:
    """Return file name and function, which edits elsewhere in the file do not change."""
    return "" if frame is None else f"{file_name(frame)} {frame.code}"


def library_of(frame: Frame) -> str:
    """Return the library of a line: `Keras`, or the name of the package."""
    package = shown_path(frame).lstrip("/").partition("/")[0].removesuffix(".py")
    return _NAMES.get(package, package)


def is_below(frame: Frame, folder: str) -> bool:
    """Return whether a line is library code in a folder, such as `keras/distribute/`."""
    return not frame.is_user and f"/{folder}" in f"/{shown_path(frame)}"
