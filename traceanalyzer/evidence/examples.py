"""Subjects and what holds them, written in a line: for the examples of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.evidence.analysis import Subject
from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.held import Held
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.sidecar.document import Frame, Resource, Signature

if TYPE_CHECKING:
    from traceanalyzer.evidence.held import Link

__all__ = ["call", "held", "line", "resource", "subject"]


def subject(op_type: str, **fields: Any) -> Subject:  # noqa: ANN401 - any field of a subject
    """An op of `train.py:7` on the CPU, of which nothing else is known."""
    plain: dict[str, Any] = {
        "op_id": "op0",
        "host": "h",
        "name": op_type,
        "function": "train_step",
        "file": "train.py",
        "line": 7,
        "host_self_ps": 1_000_000,
        "requested_device": "",
        "case": Case(type=op_type, basis="replay", certainty="certain", is_complete=True),
    }
    return Subject(**{**plain, "type": op_type, **fields})


def held(hold: str, op_type: str, link: Link = "own", **fields: Any) -> Held:  # noqa: ANN401
    """Something that keeps an op from a GPU."""
    return Held(hold=Hold(hold), link=link, type=op_type, **fields)


def line(number: int, *, is_user: bool = True, file: str = "train.py") -> Frame:
    """A line of the user's program, or of a library's."""
    return Frame(file=file, line=number, code="train_step", is_user=is_user)


def resource(name: str, dtype: str = "float", device: str = "/device:CPU:0") -> Resource:
    """A variable of which nothing else is known."""
    return Resource(signature=-1, name=name, dtype=dtype, shape=None, bytes=None, device=device)


def call(scope: str = "", function: str = "__inference_train_step_12") -> Signature:
    """A call of a function, within a scope or none."""
    return Signature(
        op=function,
        is_function=True,
        scope=scope,
        scope_frame=-1,
        frame=-1,
        attributes=-1,
        inputs=(),
        outputs=(),
    )
