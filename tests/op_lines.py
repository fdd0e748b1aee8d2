"""Which lines of a program make which ops, by TensorFlow's own account.

`main(OUT.json, PROGRAM.py)`, in a fork of the oracle's process, runs the program and writes, for
each op type, the lines of the program that made such ops. The line of an op in a graph is read from
its `traceback`, which AutoGraph's source map has corrected; that of an op run eagerly is the
innermost of the stack. Ops without a line of the program are left out, and so are the graphs in
which Keras tries a model's shapes, since they never run.
"""

import collections
import functools
import json
import runpy
import sys
from pathlib import Path

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

_TRIAL = ("keras_graph", "scratch_graph")  # parts of their names, in Keras 2 and Keras 3
# The last two run what the first cannot: ops with a fallback, and calls of functions.
_EAGER = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


class Lines:
    """The lines of one program, gathered while it runs."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.lines: dict[str, set[int]] = collections.defaultdict(set)

    def watch_graphs(self) -> None:
        """Note each op that is added to a graph."""
        # All ops of a graph go through it, those that are imported with a function too.
        plain = ops.Graph._create_op_helper  # noqa: SLF001

        @functools.wraps(plain)
        def noting(graph: ops.Graph, op: ops.Operation, *args: object, **kwargs: object) -> object:
            result = plain(graph, op, *args, **kwargs)
            if not is_trial(graph):
                # An op of a loaded function has no traceback.
                own = [frame[1] for frame in op.traceback or () if frame[0] == self.program]
                self.lines[op.type].update(own[-1:])
            return result

        ops.Graph._create_op_helper = noting  # noqa: SLF001

    def watch_eager(self, function: str, position: int) -> None:
        """Note each op that is executed at once; its type is the argument at `position`."""
        plain = getattr(pywrap_tfe, function)

        @functools.wraps(plain)
        def noting(*args: object, **kwargs: object) -> object:
            if context.executing_eagerly():
                name = args[position]
                op_type = name.decode() if isinstance(name, bytes) else str(name)
                self.lines[op_type].update(self._running())
            return plain(*args, **kwargs)

        setattr(pywrap_tfe, function, noting)

    def _running(self) -> list[int]:
        frame = sys._getframe(2)  # noqa: SLF001
        while frame is not None:
            if frame.f_code.co_filename == self.program:
                return [frame.f_lineno]
            frame = frame.f_back
        return []

    def write(self, file: Path) -> None:
        """Write them down as JSON."""
        lines = {op_type: sorted(found) for op_type, found in sorted(self.lines.items()) if found}
        file.write_text(json.dumps(lines), encoding="utf-8")


def is_trial(graph: ops.Graph | None) -> bool:
    """Whether a graph lies in one that Keras made only to learn shapes."""
    while graph is not None:
        if any(part in getattr(graph, "name", "") for part in _TRIAL):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def main(out: str, program: str) -> None:
    """Run the program under watch."""
    program = str(Path(program).resolve())
    sys.argv = [program]
    sys.path[0] = str(Path(program).parent)
    lines = Lines(program)
    lines.watch_graphs()
    for position, function in enumerate(_EAGER):
        lines.watch_eager(function, 1 if position == 0 else 2)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        lines.write(Path(out))
