"""Which kernels there are for ops that are not TensorFlow's own, but of a library that was loaded.

The process that has loaded a library can be asked, also where there is no GPU
(python/framework/kernels.py, `get_registered_kernels_for_op`, of 2.12 and 2.21).
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from .attributes import dtype_name
from .loaded import loaded

__all__ = ["foreign_kernels"]

_MOST_OPS = 50
_MOST_KERNELS = 200  # of one op
_MOST_VALUES = 50  # of one attribute
_LONGEST = 200  # characters of a name


def foreign_kernels(types: Iterable[str]) -> List[Dict[str, Any]]:
    """Return the kernels of those ops that TensorFlow itself does not have.

    Args:
        types: Types of ops of the program; names of functions may be among them.
    """
    own = loaded("tensorflow").raw_ops
    registered = loaded("tensorflow.python.framework.op_def_registry").get
    foreign = [
        op
        for op in sorted(set(types))
        if not op.startswith("_") and not hasattr(own, op) and registered(op) is not None
    ]
    return [kernel for op in foreign[:_MOST_OPS] for kernel in _kernels(op)]


def _kernels(op: str) -> List[Dict[str, Any]]:
    from tensorflow.python.framework import kernels  # noqa: PLC0415 - the program's

    found = kernels.get_registered_kernels_for_op(op).kernel
    return [_kernel(each) for each in found[:_MOST_KERNELS]]


def _kernel(kernel: Any) -> Dict[str, Any]:  # noqa: ANN401 - a KernelDef
    return {
        "op": kernel.op[:_LONGEST],
        "device_type": kernel.device_type[:_LONGEST],
        "constraints": {
            each.name[:_LONGEST]: _values(each.allowed_values.list) for each in kernel.constraint
        },
        "host_memory_args": [name[:_LONGEST] for name in kernel.host_memory_arg],
        "priority": kernel.priority,
        "label": kernel.label[:_LONGEST],
    }


def _values(allowed: Any) -> List[Any]:  # noqa: ANN401 - an AttrValue.ListValue
    """Return the values that a kernel takes: types by name, strings as plain text."""
    types = [dtype_name(number) for number in allowed.type]
    texts = [text.decode("utf-8", "backslashreplace")[:_LONGEST] for text in allowed.s]
    return [*types, *texts, *map(int, allowed.i), *map(bool, allowed.b)][:_MOST_VALUES]
