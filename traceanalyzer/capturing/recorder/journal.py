"""The journal: one JSON object a line, appended and flushed, so that a killed program leaves it."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

from .frames import is_user_file


class Journal:
    """Appends records to a file. Safe from any thread; never raises; silent in a forked child."""

    def __init__(self, path: str) -> None:
        self.started_ns = time.time_ns()
        self._path = path
        # A signal's handler may write while its thread is writing.
        self._lock = threading.RLock()
        self._noted: set[str] = set()
        self._is_cut = False  # the last line, where the disk was full
        self._process = os.getpid()

    def write(self, kind: str, **fields: Any) -> None:
        """Append a record, with contents of JSON's types; others are written as text."""
        if os.getpid() != self._process:
            return  # a fork of the program: not what is recorded
        try:
            line = json.dumps({"kind": kind, **fields}, default=str, separators=(",", ":"))
            data = line.encode("utf-8", "backslashreplace") + b"\n"
            with self._lock, open(self._path, "ab", buffering=0) as file:
                whole = b"\n" + data if self._is_cut else data
                self._is_cut = file.write(whole) < len(whole)
        except Exception:  # noqa: S110 - a full disk costs evidence, not the program
            pass

    def note(self, id: str, severity: str, message: str) -> None:  # noqa: A002 - as in health
        """Record, once, what was not recorded and why, as in the report's health."""
        if id not in self._noted:
            self._noted.add(id)
            self.write("note", id=id, severity=severity, message=message)

    def failed(self, what: str, error: BaseException) -> None:
        """Note that a part of the recorder itself failed; to be called where that was caught.

        An error that the program has raised within our code, from a handler of a signal, is the
        program's, and goes on.
        """
        if not _is_ours(error):
            raise error
        reason = f"{type(error).__name__}: {error}"
        self.note(f"recorder_failed:{what}", "warning", f"{what} was not recorded: {reason[:300]}")


def _is_ours(error: BaseException) -> bool:
    """Return whether an error arose in the recorder's own code, or in what that called."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    known = ("builtins", "tensorflow", "google.protobuf", str(__package__))
    is_in_users_file = traceback is not None and is_user_file(traceback.tb_frame.f_code.co_filename)
    return type(error).__module__.startswith(known) and not is_in_users_file
