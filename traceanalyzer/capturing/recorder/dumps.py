"""Collects TensorFlow's dumps of the placer's input and output, and of the graphs that ran.

After 2.12, TensorFlow writes a function's graph at about twenty stages of its instantiation if
`TF_DUMP_GRAPH_NAME_FILTER` is set (util/debug_data_dumper.cc; tested with 2.18 and 2.21), as protos
with `TF_DUMP_GRAPH_FMT=BIN` (util/dump_graph.cc). Three stages are kept: the placer's input, its
output, and the partitions that ran.

TensorFlow logs every dump at level INFO, so the recorder turns this level off.

The variables are set only in the C library: `os.environ` does not change. They name the folder by a
descriptor that is closed on exec, so programs that the script starts write no dumps.

Each epoch instantiates the functions of its datasets again. Dumping them again would take a sixth
of the time of a small Keras epoch. So dumps are off while no new ones are expected: `dump_switch`
turns them off, and the descriptor is redirected to a file, so that dumps fail early in versions of
TensorFlow without that switch.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Iterable

from .dump_switch import LogLevel, dump_switch, read_variables_again
from .ending import OwnDescriptor
from .hooks import JournalWriter

OF_DATASETS = "__inference_Dataset_"  # prefix of the names of dataset functions
SESSION = "unknown_graph"  # the name of a v1 session's graph in newer versions
_KEPT = re.compile(
    r"\.main\.(?:before_placer|before_post_placement_passes|after_partition_passes)\.pb"
    # A v1 session has no stages of function instantiation; these are the nearest to them.
    r"|^unknown_graph(?:#\d+)?\.\d+\.main\.(?:after_opt_group_pre|before_opt_group_post)_placement\.pb"
    r"|^unknown_graph_partition_.*\.main\.after_opt_group_post_partitioning\.pb"
)
_STAGE = re.compile(r"(.+?)(?:_partition_.+)?\.\d+\.main\.(\w+)\.pb(?:txt)?")  # of a function
# Each instantiation of a function has these once, the last once per device.
_INPUT, _ANSWER, _RESULT = "before_placer", "before_post_placement_passes", "after_partition_passes"
# The dumps among these with TensorFlow's own name: their session is not yet known.
_PLACEMENT = re.compile(r"unknown_graph\.\d+\.main\..*_placement\.pb(?:txt)?")
_RAN = "unknown_graph_partition_"
_MOST_BYTES = 1 << 30
_POLL_S = 0.1
_QUIET_S = 0.02
_REST_AFTER_S = 0.1
_WAIT_FOR_DATASETS_S = 10.0  # a dataset may never be iterated
_MOST_REPEATED = 10_000
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def session_graph(number: int) -> str:
    return f"{SESSION}#{number}" if number else SESSION


class Dumps:
    """Requests dumps, and deletes unneeded ones as they appear.

    The object itself is the context manager for the first run of a function or signature, because
    a generator's frames would appear in the program's tracebacks.
    """

    def __init__(self, folder: str, journal: JournalWriter) -> None:
        self._folder = folder
        self._journal = journal
        self._named: OwnDescriptor | None = None  # names the folder for TensorFlow
        self._opened: OwnDescriptor | None = None  # the folder itself
        self._switch: Any = None  # see `dump_switch`
        self._log_level = LogLevel()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = False
        self._is_resting = False
        self._never_rests = False
        self._expected_at = 0.0
        self._first_calls = 0  # that are running
        self._is_late = False  # TensorFlow was imported before
        self._awaited: set[str] = set()  # functions of datasets that were not instantiated yet
        self._repeated: set[str] = set()  # functions whose dumps are not needed
        self._has_several_graphs = False  # of sessions
        self._process = os.getpid()

    def ask(self) -> None:
        """Request dumps, before TensorFlow is imported if possible."""
        if os.environ.get("TF_DUMP_GRAPH_PREFIX"):
            self._journal.note(
                "graphs_left_out",
                "warning",
                "graphs are not recorded, because TF_DUMP_GRAPH_PREFIX makes TensorFlow write them "
                "elsewhere; unset it to record them",
            )
            return
        self._is_late = "tensorflow" in sys.modules
        os.makedirs(self._folder, exist_ok=True)
        opened = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        named = self._named = OwnDescriptor(opened)
        self._opened = OwnDescriptor(opened)
        os.close(opened)
        os.register_at_fork(after_in_child=self._leave_in_fork)
        os.putenv("TF_DUMP_GRAPH_PREFIX", f"/proc/self/fd/{named.number}")
        if os.environ.get(_LOG_LEVEL, "0") in ("", "0"):
            os.putenv(_LOG_LEVEL, "1")
        os.putenv("TF_DUMP_GRAPH_FMT", "BIN")
        os.putenv("TF_DUMP_GRAPH_NAME_FILTER", "*")
        threading.Thread(target=self._reap, name="traceanalyzer-dumps", daemon=True).start()

    def taken(self) -> None:
        """Restore the program's log level once TensorFlow has been imported and has read ours."""
        if self._named is None:
            return
        self._switch = dump_switch()
        if self._is_late:
            is_quiet = self._log_level.lower()
            if self._switch is None and is_quiet:  # TensorFlow was used before
                read_variables_again()
                self._switch = dump_switch()
            if self._switch is None:
                self.are_missing()
        if _LOG_LEVEL in os.environ:  # give the C library the program's value back
            os.putenv(_LOG_LEVEL, os.environ[_LOG_LEVEL])
        else:
            os.unsetenv(_LOG_LEVEL)

    def are_in_another_capture(self) -> None:
        """Note that graphs of functions are missing because an earlier capture has them."""
        self._journal.note(
            "graphs_of_earlier_functions",
            "warning",
            "graphs of functions that an earlier capture of this process recorded are missing; "
            "the first capture in which the functions were called holds them",
        )

    def are_missing(self) -> None:
        """Note that graphs of functions are missing because the capture began late."""
        self._journal.note(
            "graphs_of_earlier_functions",
            "warning",
            "TensorFlow was used before the capture began, so graphs of functions are missing; "
            "start the capture before the first op, or run `traceanalyzer capture script.py`",
        )

    @property
    def are_on(self) -> bool:
        """Whether TensorFlow is known to dump what it instantiates from now on."""
        return self._switch is not None

    def expect(self) -> None:
        """Switch dumps on: a function or op is about to run for the first time."""
        self._expected_at = time.monotonic()
        if self._is_resting and not self._over:
            with self._lock:
                if not self._over and self._opened is not None and self._opened.is_ours():
                    self._point_to(self._opened.number)
                    if self._switch is not None:
                        self._switch.value = 1
                    self._is_resting = False
        self._wake.set()

    def defined(self, function: str) -> None:
        # Datasets instantiate their functions only when they are iterated.
        if function.startswith(OF_DATASETS):
            self._awaited.add(_in_file_names(function))
        self.expect()

    def iterated(self) -> None:
        """Switch dumps on for a new iterator, which may instantiate functions of its dataset."""
        if self._awaited:
            self.expect()

    def repeated(self, function: str) -> None:
        """Mark a function as a duplicate of earlier ones, so that its dumps are deleted."""
        if len(self._repeated) >= _MOST_REPEATED:
            self._repeated.clear()  # the first instantiations ended long ago
        self._repeated.add(_in_file_names(function))

    def __enter__(self) -> None:
        with self._lock:
            self._first_calls += 1
        self.expect()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._first_calls -= 1
        self._expected_at = time.monotonic()

    def has_session(self) -> None:
        """Keep dumps on, because each run of a v1 session may use another graph."""
        self._never_rests = True
        self.expect()

    def has_several_graphs(self) -> None:
        """Delete the partitions of sessions, whose names do not show to which graph they belong."""
        self._has_several_graphs = True

    def placements(self) -> set[str]:
        """Return the dumps that may show the placement of a session's graph."""
        return {name for name in self._names() if _PLACEMENT.fullmatch(name)}

    def are_of_graph(self, names: Iterable[str], number: int) -> None:
        """Assign dumps to the session graph with this number."""
        for name in names if number else ():
            renamed = session_graph(number) + name[len(SESSION) :]
            with suppress(OSError):  # deleted as unneeded
                os.rename(os.path.join(self._folder, name), os.path.join(self._folder, renamed))

    def finish(self) -> None:
        """Stop dumping, and delete unneeded dumps."""
        self._over = True
        self._wake.set()
        self._leave()
        self._log_level.restore()
        self._delete_unneeded()

    def _leave_in_fork(self) -> None:
        self._lock = threading.Lock()  # its owner is not in the fork
        self._over = True
        self._leave()

    def _leave(self) -> None:
        """Make further dumps fail; TensorFlow continues without them."""
        if self._switch is not None:
            self._switch.value = 0
        with suppress(OSError):  # no more files can be opened
            nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            self._point_to(nowhere)
            os.close(nowhere)

    def _point_to(self, descriptor: int) -> None:
        if self._named is not None:
            with suppress(OSError):  # closed by the program meanwhile
                self._named.point_to(descriptor)

    def _reap(self) -> None:
        while not self._over and os.getpid() == self._process:
            self._wake.wait()
            self._wake.clear()
            while not self._over and not self._is_resting:
                self._delete_unneeded()
                self._rest()
                threading.Event().wait(_POLL_S)

    def _rest(self) -> None:
        """Switch dumps off if all expected dumps have been written."""
        names = self._needed()
        if self._is_expecting() or not self._are_whole(names):
            return
        threading.Event().wait(_QUIET_S)
        with self._lock:
            if self._over or self._is_expecting() or self._needed() != names:
                return
            self._leave()
            self._is_resting = True
            self._delete(self._names() - names)  # these would stay incomplete

    def _is_expecting(self) -> bool:
        is_recent = time.monotonic() - self._expected_at < _REST_AFTER_S
        return bool(self._first_calls) or is_recent or self._never_rests

    def _are_whole(self, names: set[str]) -> bool:
        """Return whether every expected function was dumped at all stages."""
        stages = Counter(match.groups() for match in map(_STAGE.fullmatch, names) if match)
        self._awaited -= {name for name, _ in stages}
        has_waited = time.monotonic() - self._expected_at > _WAIT_FOR_DATASETS_S
        return (has_waited or not self._awaited) and all(
            stages[name, _INPUT] == stages[name, _ANSWER] <= stages[name, _RESULT]
            for name, _ in stages
        )

    def _needed(self) -> set[str]:
        return {name for name in self._names() if not self._is_unneeded(name)}

    def _is_unneeded(self, name: str) -> bool:
        if name.startswith(_RAN):
            return self._has_several_graphs
        found = _STAGE.fullmatch(name) if name.startswith(OF_DATASETS) else None
        return found is not None and found[1] in self._repeated

    def _names(self) -> set[str]:
        with suppress(OSError):  # never made, or the program deleted it
            return set(os.listdir(self._folder))
        return set()

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(OSError):  # another thread was faster
                os.unlink(os.path.join(self._folder, name))

    def _delete_unneeded(self) -> None:
        names = self._names()
        kept = {name for name in names if _KEPT.search(name) and not self._is_unneeded(name)}
        self._delete(names - kept)
        kept_bytes = 0
        for name in kept:
            with suppress(OSError):
                kept_bytes += os.path.getsize(os.path.join(self._folder, name))
        if kept_bytes > _MOST_BYTES and not self._over:
            self._over = True
            self._leave()
            self._journal.note(
                "graphs_left_out",
                "warning",
                "graphs of later functions are not recorded, because the earlier graphs take more "
                f"than {_MOST_BYTES >> 30} GB; they may contain large constants",
            )


def _in_file_names(function: str) -> str:
    return function.replace("/", "_")
