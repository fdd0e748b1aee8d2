"""For each node of each graph: the user's and the library's line that made it, and its scopes.

A graph is read when TensorFlow turns it into a function's definition (atomic_function.py,
`from_func_graph`; in TensorFlow 2.12 monomorphic_function.py, `_EagerDefinedFunction`). Its nodes
still hold their Python tracebacks then; the definition has lost them. The graphs of v1 sessions
never become definitions; they are read at the end, the first of them under the empty name.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Optional,
    Set,
    Tuple,
)

from ..ops.frames import (
    GENERATED,
    FramePool,
    is_library_file,
    is_plumbing,
    is_user_file,
    user_frame,
)
from ..ops.scopes import locations
from ..process.hooks import Part, unseen
from .dumps import OF_DATASETS
from .text_dumps import session_graph

if TYPE_CHECKING:
    from ..journal import Journal

_ENOUGH = 3
_NUMBER = re.compile(r"_\d+$")
_CONFIG = 2  # its place among the arguments of a session
_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function."


class RepeatedFunctions:
    """Recognises functions of datasets that a program makes over and over, under new names.

    `model.predict` in a loop makes three datasets each time, and TensorFlow traces and places their
    functions again. The first few show everything; recording all takes longer than running them.
    """

    def __init__(self) -> None:
        # By the name of a repeated function, that of the earlier one that stands for it.
        self.stand_in: Dict[str, str] = {}
        self._recorded: Dict[Tuple[Any, ...], List[str]] = {}

    def is_repeated(self, name: str, graph: Any) -> bool:
        """Return whether enough functions like this one were recorded before it."""
        if not name.startswith(OF_DATASETS):
            return False
        recorded = self._recorded.setdefault((_NUMBER.sub("", name), *_contents(graph)), [])
        if len(recorded) >= _ENOUGH:
            self.stand_in[name] = recorded[-1]
            return True
        recorded.append(name)
        return False


def _contents(graph: Any) -> Tuple[Any, ...]:
    """Return what decides where a function's nodes are placed, and which lines made some."""
    ops = graph.get_operations()
    some = (ops[0], ops[len(ops) // 2], ops[-1]) if ops else ()  # to ask all takes longer
    return (
        tuple([(op.name, op.type, op.device) for op in ops]),
        tuple([tensor.dtype for op in ops for tensor in op.outputs]),
        tuple([_captured(tensor) for tensor in graph.external_captures]),
        tuple([line_of(op.traceback) for op in some]),
    )


def _captured(tensor: Any) -> Tuple[Any, ...]:
    """Return what decides where a captured tensor is: of a resource, which one it is.

    Without a GPU all are on the CPU, so their devices show nothing.
    """
    number = tensor._id if tensor.dtype.name == "resource" else None
    return tensor.dtype, getattr(tensor, "device", None), number


def line_of(traceback: Any) -> Optional[Tuple[str, int]]:
    """Return the innermost line that is the user's."""
    frames = () if traceback is None else traceback.get_user_frames()
    lines = [(f.filename, f.lineno) for f in frames if is_user_file(f.filename)]
    return lines[-1] if lines else None


class FunctionRecorder(Part):
    """Journals the lines of graphs; see the module."""

    def __init__(
        self,
        journal: Journal,
        scope_frames: FramePool,
        defined: Callable[[str], None],
        has_session: Callable[[Any, bool], None],
        session_graphs: List[List[Any]],
    ) -> None:
        """Prepare.

        Args:
            journal: Where to write.
            scope_frames: The pool that the numbers in `scopes.locations` belong to.
            defined: Called with the name of a function that was defined.
            has_session: Called with a v1 session, and whether the program configured it.
            session_graphs: The graphs that v1 sessions ran, those that are alike together.
        """
        super().__init__()
        self._journal = journal
        self._scope_frames = scope_frames
        self._defined = defined
        self._has_session = has_session
        self._session_graphs = session_graphs
        self.definitions: Dict[str, FrozenSet[str]] = {}  # the nodes' names, by function
        self.op_types: Set[str] = set()
        self.repeated = RepeatedFunctions()

    def install(self) -> None:
        """Wrap the TensorFlow functions that create definitions and sessions."""
        atomic = _module(_POLYMORPHIC + "atomic_function")
        if atomic is not None and hasattr(atomic, "from_func_graph"):
            self._wrap(atomic, "from_func_graph", self._after_definition)
        else:
            monomorphic = importlib.import_module(_POLYMORPHIC + "monomorphic_function")
            definition = monomorphic._EagerDefinedFunction
            self._wrap(definition, "__init__", self._after_eager_definition)
        session = importlib.import_module("tensorflow.python.client.session")
        self._wrap(session.BaseSession, "__init__", self._after_session)

    def finish(self) -> None:
        """Read the graphs of v1 sessions."""
        for number, graphs in enumerate(self._session_graphs):
            name = session_graph(number) if number else ""
            self._record(name, *graphs)
        self._session_graphs.clear()

    def _wrap(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        self._patches.replace(owner, name, wrap(getattr(owner, name)))

    def _after_definition(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def from_func_graph(name: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
            with unseen:
                result = original(name, graph, *args, **kwargs)
            self._record(name, graph)
            return result

        return from_func_graph

    def _after_eager_definition(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(definition: Any, name: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
            with unseen:
                original(definition, name, graph, *args, **kwargs)
            self._record(name, graph)

        return init

    def _after_session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(session: Any, *args: Any, **kwargs: Any) -> None:
            with unseen:
                original(session, *args, **kwargs)
            given = kwargs.get("config", args[_CONFIG] if len(args) > _CONFIG else None)
            self._has_session(session, given is not None)

        return init

    def _record(self, name: Any, *graphs: Any) -> None:
        try:
            label = name.decode() if isinstance(name, bytes) else str(name)
            if self.repeated.is_repeated(label, graphs[0]):
                return
            found = _lines(label, graphs, self._scope_frames)
            self._journal.write("function", **found)
            self.definitions[label] = frozenset(found["nodes"])
            self.op_types.update(op.type for graph in graphs for op in graph.get_operations())
            self._defined(label)
        except Exception as error:
            self._journal.failed("the lines of a function", error)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _lines(name: str, graphs: Iterable[Any], scope_frames: FramePool) -> Dict[str, Any]:
    """Return the journal's record of a graph, or of several that go by one name."""
    frames = FramePool()
    # Ops of a loaded function have no traceback: the line that loads it takes their place.
    here = frames.add_frame(user_frame(sys._getframe(1)))
    places = scope_frames.to_list()
    scope_numbers: Dict[Tuple[str, int, Optional[int]], int] = {}

    def scope_number(device: str, place: int, origin: Optional[int]) -> int:
        known = 0 <= place < len(places)
        frame = frames.add(*places[place][:3]) if known else -1
        return scope_numbers.setdefault((device, frame, origin), len(scope_numbers))

    nodes: Dict[str, Tuple[int, int, Tuple[int, ...]]] = {}
    for graph in graphs:
        for op in graph.get_operations():
            lines = (here, -1) if op.traceback is None else _lines_of(op.traceback, frames)
            found = (*lines, tuple(scope_number(*scope) for scope in locations(op)))
            nodes[op.name] = found if nodes.get(op.name, found) == found else (-1, -1, ())
    return {
        "name": name,
        "nodes": list(nodes),
        "frame": [line for line, _, _ in nodes.values()],
        "library": [line for _, line, _ in nodes.values()],
        "scopes": [list(scopes) or None for _, _, scopes in nodes.values()],
        "frames": frames.to_list(),
        "scope_pool": list(scope_numbers),
    }


def _lines_of(traceback: Any, frames: FramePool) -> Tuple[int, int]:
    """Return the innermost frames of the user and of a library that it called, -1 for none."""
    library, plumbing = None, None
    # Without TensorFlow's own frames, and with AutoGraph's lines mapped back to the source.
    found = traceback.get_user_frames()
    for k in range(len(found) - 1, -1, -1):
        frame = found[k]
        # A generated file that is still named has no source that is known.
        if is_user_file(frame.filename) and GENERATED not in frame.filename:
            return _add(frame, frames), _add(library or plumbing, frames)
        if library is None and is_library_file(frame.filename):
            if is_plumbing(frame.filename):
                plumbing = plumbing or frame
            else:
                library = frame
    return -1, _add(library or plumbing, frames)


def _add(frame: Any, frames: FramePool) -> int:
    return -1 if frame is None else frames.add(frame.filename, frame.lineno, frame.name)
