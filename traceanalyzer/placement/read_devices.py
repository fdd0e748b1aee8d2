"""Requests that a program read off: of the device that something turned out to be on.

`tf.function` initializes a variable that it makes where its handle is (`assign_fn` of
eager/polymorphic_function/polymorphic_function.py, copied by eager/lift_to_graph.py), Keras makes
an optimizer's slots where the variable is (`add_variable_from_reference` of
keras/src/backend/tensorflow/optimizer.py), tf.data the ops of an optional where its value is
(data/ops/optional_ops.py), and TensorFlow lowers a loop to ops on the device of what enters it
(core/common_runtime/lower_while_op.cc). Without a GPU all these ask for the CPU by its full name;
with one they ask for where the same thing is then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceanalyzer.placement.devices import Machine
    from traceanalyzer.sidecar.document import Graph, Sidecar

__all__ = ["without_read_devices"]

# The code that reads devices off. Other library code names them in full, too, and means them: a
# distribution strategy resolves those that it is given.
_READERS: Final = (
    "/keras/src/backend/tensorflow/optimizer.py",
    "/tensorflow/python/data/ops/optional_ops.py",
    "/tensorflow/python/eager/lift_to_graph.py",
    "/tensorflow/python/eager/polymorphic_function/polymorphic_function.py",
)
# Their devices are bindings, not requests.
_ENDS: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})


def without_read_devices(sidecar: Sidecar, function: str, graph: Graph, recorded: Machine) -> Graph:
    """Return a graph without the requests that would be others on another machine.

    Args:
        sidecar: What was captured.
        function: The function whose graph it is.
        graph: The placer's input, as recorded.
        recorded: The machine of the capture. A device that was read off is named in full, as
            `/CPU:0` is not. The user's own code is taken at its word.
    """
    devices = list(graph.devices)
    for node, device in enumerate(graph.devices):
        if (
            device == recorded.host
            and graph.ops[node] not in _ENDS
            and _is_read_off(sidecar, function, graph, node)
        ):
            devices[node] = ""
    return replace(graph, devices=tuple(devices)) if tuple(devices) != graph.devices else graph


def _is_read_off(sidecar: Sidecar, function: str, graph: Graph, node: int) -> bool:
    definition = sidecar.definition(graph.origin_functions[node] or function)
    if definition is None:
        return False
    at = definition.index(graph.origin_nodes[node] or graph.names[node])
    if at < 0:
        return True  # no code made it: TensorFlow did, when it inlined or lowered what did
    scopes = [sidecar.scopes[number] for number in definition.scopes[at] or ()]
    innermost = next((scope for scope in reversed(scopes) if scope.device), None)
    frame = None if innermost is None else sidecar.frame(innermost.frame)
    return frame is not None and frame.file.replace("\\", "/").endswith(_READERS)
