"""The shapes of the tensors of a graph, as far as they are known before it runs.

`pin_to_host_optimization` decides by them which ops it moves to the host. Few programs switch it
on; of the others no shapes are read.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional

__all__ = ["pins_program", "pins_session", "static_shapes"]

_OPTION = "pin_to_host_optimization"
_OPTIMIZER = "pin_to_host"  # its name in a list of them


def pins_program(context: Any) -> bool:  # noqa: ANN401 - a module
    """Return whether the program has switched the optimizer on; nothing is initialised for it.

    Args:
        context: TensorFlow's module `python.eager.context`.
    """
    current = context._context  # noqa: SLF001 - see `device_facts`
    if current is None or not current._initialized:  # noqa: SLF001
        return False
    return bool(current.get_optimizer_experimental_options().get(_OPTION))


def pins_session(session: Any) -> bool:  # noqa: ANN401 - a BaseSession
    """Return whether a session of TensorFlow 1 has the optimizer on."""
    options = session._config.graph_options.rewrite_options  # noqa: SLF001 - see `session_configs`
    return bool(getattr(options, _OPTION) == options.ON) or _OPTIMIZER in options.optimizers


def static_shapes(nodes: Iterable[str], graphs: Iterable[Any]) -> List[Any]:
    """Return the shapes of nodes' outputs: sizes, -1 for an unknown one, None for unknown rank.

    Args:
        nodes: Names of nodes.
        graphs: The graphs they are in; where several have one of a name with other shapes, these
            are not known.

    Returns:
        An entry a node: its outputs' shapes, or None.
    """
    found: Dict[str, Optional[List[Optional[List[int]]]]] = {}
    for graph in graphs:
        for op in graph.get_operations():
            shapes = [_sizes(output.shape) for output in op.outputs]
            found[op.name] = shapes if found.get(op.name, shapes) == shapes else None
    return [found.get(node) for node in nodes]


def _sizes(shape: Any) -> Optional[List[int]]:  # noqa: ANN401 - a TensorShape
    if shape.rank is None:
        return None
    return [-1 if size is None else int(size) for size in shape.as_list()]
