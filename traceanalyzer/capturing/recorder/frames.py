"""Finds the lines of user code and of the called library that led to a running frame."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Iterable, Iterator, Tuple

from .hooks import JournalWriter, loaded

Frame = Tuple[str, int, str, int]  # file, line, name of the code, whether it is the user's

_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_RECORDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
GENERATED = "__autograph_generated_file"  # what AutoGraph names its files (pyct/loader.py)
# Code without a file, such as the functions of a loaded op library (`tf.load_op_library`). The line
# that calls it is more useful, except in `python -c`.
_NO_FILE = "<string>"
_IS_COMMAND = getattr(sys, "argv", [])[:1] == ["-c"]
_PACKAGES = ("/site-packages/", "/dist-packages/")
# Files of a library that do not show which layer or metric calls them.
_PLUMBING = ("keras/src/backend/", "keras/src/ops/", "keras/src/utils/")
_MOST_KNOWN = 10_000
known_files: dict[str, bool] = {}  # results of `is_user_file`


def is_user_file(file: str) -> bool:
    """Return whether a file is the user's rather than Python's, an installed package's, or ours.

    `file` may also be a name in brackets, such as `<stdin>`.
    """
    known = known_files.get(file)
    if known is None:
        path = _absolute(file)
        is_library = (
            path.startswith((_STANDARD_LIBRARY, _RECORDER, _tensorflow_folder(), "<frozen "))
            or _is_of_package(path)
            or (file == _NO_FILE and not _IS_COMMAND)
        )
        known = known_files[file] = not is_library
    return known


@functools.lru_cache(maxsize=None)
def _is_library_file(file: str) -> bool:
    path = _absolute(file)
    return _is_of_package(path) and not path.startswith((_RECORDER, _tensorflow_folder()))


def _is_of_package(path: str) -> bool:
    return any(part in path for part in _PACKAGES)


def _absolute(file: str) -> str:
    if not file.startswith("<"):
        with suppress(OSError):  # the working directory is gone
            return os.path.abspath(file)
    return file


def _tensorflow_folder() -> str:
    # TensorFlow may run from a build folder. No path begins with "\0".
    file = getattr(sys.modules.get("tensorflow"), "__file__", None)
    return os.path.dirname(os.path.abspath(file)) + os.sep if file else "\0"


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user's own code, from `frame` outwards."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_and_library(places: Iterable[tuple[str, Any]]) -> tuple[Any, Any]:
    """Return the innermost place in user code and in the library it called; None if missing.

    `places` are pairs of a file and a place, innermost first. In a library, places that show a
    layer or metric are preferred.
    """
    library = plumbing = None
    for file, place in places:
        if is_user_file(file):
            return place, library or plumbing
        if library is None and _is_library_file(file):
            if any(part in file for part in _PLUMBING):
                plumbing = plumbing or place
            else:
                library = place
    return None, library or plumbing


def is_tracing() -> bool:
    """Return whether any thread is tracing a function (python/framework/func_graph.py)."""
    return any(
        frame.f_code.co_name == "func_graph_from_py_func"
        for innermost in sys._current_frames().values()
        for frame in outwards(innermost)
    )


def place_of(frame: FrameType | None) -> tuple[str, int, str] | None:
    """Return the file, line, and function name of a running frame, in the original source.

    Functions that AutoGraph has converted run from generated files. If their source is unknown (in
    threads of a strategy), use the next outer user frame.
    """
    while frame is not None:
        code = frame.f_code
        if GENERATED not in code.co_filename:
            return code.co_filename, frame.f_lineno, code.co_name
        stacks = getattr(loaded("tensorflow.python.util.tf_stack"), "_source_mapper_stacks", {})
        mappers = stacks.get(threading.get_ident())
        sources = mappers[-1].get_effective_source_map() if mappers else {}
        found = sources.get((code.co_filename, frame.f_lineno))
        if found is not None:
            file, line, name = found[:3]
            return file, line, name or code.co_name  # a lambda has none there
        frame = user_frame(frame.f_back)
    return None


def user_places(frame: FrameType | None) -> list[Frame]:
    """Return the places of the user's running code, from `frame` outwards."""
    found = (place_of(f) for f in outwards(frame) if is_user_file(f.f_code.co_filename))
    return [(*place, 1) for place in found if place is not None]


class Pool:
    """Numbers the distinct values that records of the journal refer to, from 0."""

    def __init__(self, journal: JournalWriter, kind: str) -> None:
        self._journal = journal
        self._kind = kind
        self._numbers: dict[Any, int] = {}
        self._written = 0
        self._lock = threading.RLock()

    def number(self, value: Any) -> int:
        found = self._numbers.get(value)
        if found is None:
            with self._lock:
                found = self._numbers.setdefault(value, len(self._numbers))
        return found

    def write(self) -> None:
        """Journal the new values. Call this before a record that may refer to them."""
        with self._lock:
            new = list(itertools.islice(self._numbers, self._written, None))
            if new:
                self._journal.write(self._kind, first=self._written, values=new)
                self._written += len(new)


class FramePool(Pool):
    """Numbers the distinct frames."""

    def __init__(self, journal: JournalWriter) -> None:
        super().__init__(journal, "frames")
        # By code and instruction, which is faster than by path. Codes are kept: ids are reused.
        self._known: dict[tuple[int, int], tuple[int, CodeType]] = {}

    def add(self, file: str, line: int, name: str) -> int:
        return self.number((_absolute(file), line, name, int(is_user_file(file))))

    def add_frame(self, frame: FrameType | None) -> int:
        """Return the number of a running frame; -1 if there is none or its source is unknown."""
        if frame is None:
            return -1
        code = frame.f_code
        known = self._known.get((id(code), frame.f_lasti))
        if known is not None:
            return known[0]
        found = place_of(frame)
        number = -1 if found is None else self.add(*found)
        # The source of AutoGraph's code depends on the caller.
        if GENERATED not in code.co_filename and len(self._known) < _MOST_KNOWN:
            self._known[id(code), frame.f_lasti] = number, code
        return number

    def frame(self, number: int) -> Frame | None:
        return next(itertools.islice(self._numbers, number, None), None) if number >= 0 else None
