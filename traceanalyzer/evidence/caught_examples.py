"""An error that a program caught, and what it did then, as recorded: for the examples of rules."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from traceanalyzer.sidecar.document import CaughtError, Frame, Sidecar, Signature, Tensor
from traceanalyzer.tables.joined import OpRecord

__all__ = ["IN_SCOPE", "MATMUL", "caught"]

_CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
# A file that is nowhere: what the source would tell is left open.
_FILE: Final = str(PurePosixPath("/nowhere/train.py"))

MATMUL: Final[dict[str, Any]] = {
    "name": "MatMul",
    "type": "MatMul",
    "function": "",
    "is_eager": True,
}
"""The row of the op in the op table."""

IN_SCOPE: Final = OpRecord(frame=None, requested_device="/device:CPU:0", signatures=(0,))
"""What the sidecar tells of that row."""


def caught(where: str, error: str, message: str, scope_line: int, op: str) -> Sidecar:
    """An error of line 4, caught in line 5, and an eager op of line 7 in a scope for the CPU.

    Args:
        where: What kind of error it is, as `CaughtError.where`.
        error: Its class.
        message: Its text.
        scope_line: The line that opens the scope.
        op: The type of the op.
    """
    tensor = Tensor(dtype="float", device=_CPU, backing_device=_CPU, resource=None, shape=(8, 8))
    return Sidecar(
        tool="",
        host="h",
        complete=True,
        environment={"tensorflow": {"version": "2.21.0"}},
        devices={"logical": [{"name": "/device:CPU:0"}, {"name": "/device:GPU:0"}]},
        errors=(
            CaughtError(
                where=where, type=error, message=message, raised=(0,), handler=1, call=None
            ),
        ),
        frames=tuple(
            Frame(file=_FILE, line=at, code="step", is_user=True) for at in (4, 5, scope_line, 7)
        ),
        attributes=({"T": "float"},),
        signatures=(
            Signature(
                op=op,
                is_function=False,
                scope=_CPU,
                scope_frame=2,
                frame=3,
                attributes=0,
                inputs=(tensor, tensor),
                outputs=(tensor,),
            ),
        ),
    )
