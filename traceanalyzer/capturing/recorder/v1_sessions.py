"""Records sessions of TensorFlow 1: their configurations and graphs, and each graph's dumps.

A session may have its own options (`ConfigProto`) for optimizers, devices, and soft placement;
otherwise those of `tf.config` apply (python/client/session.py, `BaseSession.__init__`, of 2.12 and
2.21).

TensorFlow uses one name for the graphs of all sessions, in traces and dumps, but a program may have
several graphs with the same node names: one to train and one to evaluate, or one built again after
`reset_default_graph`. So graphs are numbered in the order of their first runs. A marker in the
trace, `traceanalyzer:session`, has the graph number of the next run on its thread, and the dumps of
the placements of all graphs except the first have the number in their file names. What ran is kept
only if the program has one graph.
"""

from __future__ import annotations

import importlib
import threading
from functools import partial
from typing import Any, Callable, Iterator

from .dumps import Dumps
from .environment import GpuChoices
from .functions import line_of
from .hooks import JournalWriter, RecorderPart, loaded, unseen

_CONFIG = 2  # the index of this argument of a session
_MOST_CONFIGS = 20  # distinct configurations of one program
_MARKER = "traceanalyzer:session"
_NUMBER = "_traceanalyzer_number"  # on a graph
_VERSION = "_traceanalyzer_version"  # on a session: the version of the graph that it last placed
_MOST_GRAPHS = 20  # later graphs share the number of the last one
_MOST_LIKE = 20  # graphs of the same ops that differ in their lines
_LONGEST_WAIT_S = 1.0


class Sessions(RecorderPart):
    """Journals each distinct configuration, and numbers the graphs; see the module docstring."""

    def __init__(
        self, journal: JournalWriter, dumps: Dumps, before_call: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.graphs: list[list[Any]] = []
        self._journal = journal
        self._dumps = dumps
        self._before_call = before_call
        self._configs: list[dict[str, Any]] = []
        self._like: dict[Any, list[Any]] = {}  # graphs by their ops when they first ran
        self._lock = threading.RLock()
        self._placing = threading.Lock()

    def install(self) -> None:
        base = importlib.import_module("tensorflow.python.client.session").BaseSession
        made = base._Callable
        for owner, name, session_of in (
            (base, "_call_tf_sessionrun", lambda session, _: session),
            (base, "_call_tf_sessionprun", lambda session, _: session),
            (made, "__init__", lambda _, args: args[0]),
            (made, "__call__", lambda its, _: its._session),
        ):
            self.before(owner, name, partial(self._began, session_of))
        self.replace(base, "_extend_graph", self._extend(base._extend_graph))
        self.after(base, "__init__", self._made)

    def _made(self, _: None, session: Any, *args: Any, **kwargs: Any) -> None:
        self._dumps.has_session()
        GpuChoices.devices_made = True
        with self._journal.guard("the configuration of a session"):
            if len(self._configs) < _MOST_CONFIGS:
                given = kwargs.get("config", args[_CONFIG] if len(args) > _CONFIG else None)
                found = {"is_own": given is not None, **_facts(session)}
                if found not in self._configs:
                    self._configs.append(found)
                    self._journal.write("session_config", **found)

    def _began(
        self, session_of: Callable[[Any, tuple[Any, ...]], Any], own: Any, *args: Any, **_: Any
    ) -> None:
        """Note that a session is about to run."""
        self._before_call("Session.run")
        with self._journal.guard("the graph of a session"):
            number = self._number(session_of(own, args).graph)
            traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
            traceme(_MARKER, graph=number).Stop()

    def _extend(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def extend(session: Any) -> None:
            version = getattr(session.graph, "version", None)
            if version is not None and getattr(session, _VERSION, None) == version:
                with unseen:
                    original(session)
                return
            # One graph at a time, so that new dumps are of this graph; but do not wait for long.
            is_only = self._placing.acquire(timeout=_LONGEST_WAIT_S)
            try:
                before = self._dumps.placements()
                with unseen:
                    original(session)
                with self._journal.guard("the session of a dumped graph"):
                    setattr(session, _VERSION, version)
                    new = self._dumps.placements() - before
                    if new:
                        self._dumps.are_of_graph(new, self._number(session.graph))
            finally:
                if is_only:
                    self._placing.release()

        return extend

    def _number(self, graph: Any) -> int:
        """Return a graph's number. Graphs built from the same lines share a number."""
        with self._lock:
            number = getattr(graph, _NUMBER, None)
            if number is not None:
                return int(number)
            ops = graph.get_operations()
            like = self._like.setdefault(tuple([(op.name, op.type, op.device) for op in ops]), [])
            lines = _lines(graph, len(ops)) if like else []
            alike = next((each for each in like if _lines(each, len(ops)) == lines), None)
            if alike is not None or len(like) >= _MOST_LIKE:
                number = int(getattr(like[-1] if alike is None else alike, _NUMBER))
            else:
                number = min(len(self.graphs), _MOST_GRAPHS - 1)
                if number == len(self.graphs):
                    self.graphs.append([])
                    if number:
                        self._dumps.has_several_graphs()
                like.append(graph)
            self.graphs[number].append(graph)
            setattr(graph, _NUMBER, number)
            return number


def _lines(graph: Any, count: int) -> list[tuple[str, int] | None]:
    return [line_of(op.traceback) for op in graph.get_operations()[:count]]


def _facts(session: Any) -> dict[str, Any]:
    config = session._config
    is_local = not session._target
    devices = session.list_devices() if is_local else ()  # a server would have to be asked
    return {
        "is_local": is_local,
        "device_types": sorted({device.device_type for device in devices}),
        "soft_placement": config.allow_soft_placement,
        "device_count": dict(sorted(config.device_count.items())),
        "rewrites": dict(_rewrites(config.graph_options.rewrite_options)),
    }


def _rewrites(options: Any) -> Iterator[tuple[str, Any]]:
    """Yield the optimizer options that are set; enum values are given by name."""
    for field, value in options.ListFields():
        if field.enum_type is not None:
            chosen = field.enum_type.values_by_number.get(value)
            yield field.name, chosen.name if chosen is not None else value
        elif field.name == "optimizers":
            yield field.name, list(map(str, value))
        elif isinstance(value, (bool, int, float)):
            yield field.name, value
