"""Records the lines of user and library code that created each graph node, and its scopes.

A graph is read when TensorFlow turns it into a function's definition (atomic_function.py,
`from_func_graph`; in TensorFlow 2.12 monomorphic_function.py, `_EagerDefinedFunction`). A
definition lacks the Python tracebacks that the graph's nodes still have. Graphs of v1 sessions,
which never become definitions, are read at the end; the first one has the empty name.

Each `model.predict` makes three datasets with new names, whose functions TensorFlow traces and
places again. Recording all of them takes longer than running them, so only the first few are
recorded.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any, Callable, Iterable

from .dumps import OF_DATASETS, Dumps, session_graph
from .earlier import EarlierFunctions
from .frames import GENERATED, FramePool, Pool, user_and_library, user_frame
from .hooks import JournalWriter, RecorderPart
from .origins import UNKNOWN, Scope, locations

_ENOUGH = 3  # functions that are alike
_NUMBER = re.compile(r"_\d+$")
_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function."


class FunctionRecorder(RecorderPart):
    def __init__(  # noqa: PLR0913, PLR0917
        self,
        journal: JournalWriter,
        frames: FramePool,
        scopes: Pool,
        dumps: Dumps,
        defined: Callable[[str], None],
        traced: Callable[[str, Any, Any], None],  # gets a graph's name, the graph, and its type
    ) -> None:
        super().__init__()
        self.op_types: set[str] = set()
        self.earlier = EarlierFunctions(journal, dumps, self._record)
        # The earlier function that represents a repeated one, by its name.
        self.stand_in: dict[str, str] = {}
        self._journal = journal
        self._frames = frames
        self._scopes = scopes
        self._dumps = dumps
        self._defined = defined
        self._traced = traced
        self._alike: dict[tuple[Any, ...], list[str]] = {}  # recorded functions, by their contents

    def install(self) -> None:
        with self._journal.guard("functions that were traced before"):
            for name in self.earlier.find():
                if name.startswith(OF_DATASETS):  # no call of the program leads to it
                    self.earlier.describe(name)
        try:
            atomic = importlib.import_module(_POLYMORPHIC + "atomic_function")
            self.after(atomic, "from_func_graph", self._made)
        except (ImportError, AttributeError):  # 2.12
            monomorphic = importlib.import_module(_POLYMORPHIC + "monomorphic_function")
            own = monomorphic._EagerDefinedFunction
            self.after(own, "__init__", lambda result, _, *args, **__: self._made(result, *args))

    def finish(self, session_graphs: list[list[Any]]) -> None:
        for number, graphs in enumerate(session_graphs):
            self._record(session_graph(number) if number else "", *graphs)

    def is_repeated(self, name: str, graph: Any) -> bool:
        """Return whether enough functions like this one were already recorded."""
        if not name.startswith(OF_DATASETS):
            return False
        alike = self._alike.setdefault((_NUMBER.sub("", name), *_contents(graph)), [])
        if len(alike) >= _ENOUGH:
            self.stand_in[name] = alike[-1]
            return True
        alike.append(name)
        return False

    def _made(self, result: Any, name: Any, graph: Any, *_: Any, **__: Any) -> Any:
        known = name.decode() if isinstance(name, bytes) else str(name)
        with self._journal.guard("the arguments of a function"):
            self._traced(known, graph, getattr(result, "function_type", None))
        self._record(known, graph)
        return result

    def _record(self, name: str, *graphs: Any) -> None:
        with self._journal.guard("the lines of a function"):
            if self.is_repeated(name, graphs[0]):
                self._dumps.repeated(name)
                return
            nodes = self._lines(graphs)
            users, libraries, scopes = zip(*nodes.values()) if nodes else ((), (), ())
            found = {"frames": users, "libraries": libraries, "scopes": scopes}
            self._frames.write()
            self._scopes.write()
            self._journal.write("function", name=name, nodes=list(nodes), **found)
            self.op_types.update(op.type for graph in graphs for op in graph.get_operations())
            self._defined(name)

    def _lines(self, graphs: Iterable[Any]) -> dict[str, Any]:
        """Return the numbers of each node's line, its library's line, and its scopes, by name."""
        # Ops of a loaded function have no traceback: the line that loads it takes their place.
        here = self._frames.add_frame(user_frame(sys._getframe(1)))
        nodes: dict[str, Any] = {}
        for graph in graphs:
            for op in graph.get_operations():
                user, library = (
                    -1
                    if place is None
                    else self._frames.add(place.filename, place.lineno, place.name)
                    for place in _places(op.traceback)
                )
                given = (_known(scope, library) for scope in locations(op))
                scopes = [self._scopes.number(scope) for scope in given]
                found = here if op.traceback is None else user, library, scopes or None
                nodes[op.name] = found if nodes.get(op.name, found) == found else (-1, -1, None)
        return nodes


def _known(scope: Scope, library: int) -> Scope:
    """Return a scope; one of an earlier op whose line is unknown may be of the op's library."""
    device, line, origin = scope
    return (device, library, origin) if line == -1 and origin == UNKNOWN else scope


def _contents(graph: Any) -> tuple[Any, ...]:
    """Return a key that repeated functions share: placement facts, and the lines of some nodes.

    The first node has the line of the `map` call; a middle node has a line of the mapped function.
    """
    ops = graph.get_operations()
    some = (ops[0], ops[len(ops) // 2], ops[-1]) if ops else ()  # asking all takes longer
    return (
        tuple([(op.name, op.type, op.device) for op in ops]),
        tuple([tensor.dtype for op in ops for tensor in op.outputs]),
        tuple([_captured(tensor) for tensor in graph.external_captures]),
        tuple([line_of(op.traceback) for op in some]),
    )


def _captured(tensor: Any) -> tuple[Any, ...]:
    """Return the facts that determine a captured tensor's device, such as a resource's identity.

    Without a GPU, all resources are on the CPU, so their devices cannot distinguish them.
    """
    number = tensor._id if tensor.dtype.name == "resource" else None
    return tensor.dtype, getattr(tensor, "device", None), number


def line_of(traceback: Any) -> tuple[str, int] | None:
    """Return the file and line of the innermost frame in user code."""
    user, _ = _places(traceback)
    return None if user is None else (user.filename, user.lineno)


def _places(traceback: Any) -> tuple[Any, Any]:
    """Return the user's frame that created an op, and the library frame that it called."""
    # Without TensorFlow's own frames, and with AutoGraph's lines mapped back to the source.
    stack = () if traceback is None else traceback.get_user_frames()
    outwards = (stack[k] for k in range(len(stack) - 1, -1, -1))
    # A frame that still names a generated file has no known source.
    return user_and_library((f.filename, f) for f in outwards if GENERATED not in f.filename)
