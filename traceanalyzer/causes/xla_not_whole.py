"""XLA cannot compile a function as a whole.

## What it detects

Functions that XLA was to compile, with `jit_compile=True` or by Keras, and that hold an op which it
cannot compile; and what the program did about the error: ops that ran on the CPU because the
handler of the error asks for it.

## Why it happens

XLA compiles from implementations of its own. It has none for ops on strings, for calls back into
Python, and for a number of others, such as `Eig`, `ResizeArea` or `CTCGreedyDecoder`. A function
with `jit_compile=True` is compiled whole or not at all: TensorFlow raises InvalidArgumentError
(`Detected unsupported operations when trying to compile graph`; seen with 2.12, 2.18 and 2.21),
which names the first such op, and runs none of it elsewhere. So no op is on the CPU because of XLA:
either the error ends the program, or a handler goes on without XLA, where ops are placed one by
one, as always, and have causes of their own.

It is another matter with auto-clustering (`TF_XLA_FLAGS=--tf_xla_auto_jit=2`), which raises nothing
and leaves such ops outside; they are placed as usual, and have their usual causes. Keras 3 decides
with `jit_compile="auto"`, model by model: what switches XLA off there is said under *health*.

## How to fix it

Compile less: give `jit_compile=True` to the part that XLA can compile, and call the other op
outside of it. What works on strings belongs into the input pipeline. Of several such ops the error
names one at a time.

## How sure it is

Certain that XLA cannot compile the function: TensorFlow's own error says so. For ops that the
handler put on the CPU: certain where its source shows the scope, else likely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import line_text, same_place
from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.after_errors import (
    handler_evidence,
    no_errors_known,
    raised_evidence,
    went_on_on_the_cpu,
)
from traceanalyzer.causes.knowledge.finding_text import line_evidence, ops_text
from traceanalyzer.findings import Finding
from traceanalyzer.model import Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame
    from traceanalyzer.run import Host, Run

_WHERE: Final = "xla_unsupported"  # see `CaughtError`
_MESSAGE: Final = re.compile(
    r"when trying to compile graph (?P<graph>[^\s\[]+)\S* on (?P<device>\w+): (?P<op>\w+) \("
    r".*?\{\{node (?P<node>[^}]+)\}\}",
    re.DOTALL,
)
# The function that was to be compiled encloses the graph that holds the op, a branch for one.
_COMPILED: Final = re.compile(r"while converting ([^\s\[]+)\[_XlaMustCompile=true")
_CALLED: Final = re.compile(r"\[Op:(\w+)\]\s*$")  # all that 2.12 tells of it
_COUNTED: Final = re.compile(r"(?:__(?:inference|forward|backward)_)?(.+?)_\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """What XLA's error says.

    Attributes:
        function: The function that was to be compiled, as the program calls it; "" if not told.
        op: The type of the op that XLA cannot compile; "" if not told.
        node: Its name.
        made_at: The user's line that made it, or None.
    """

    function: str
    op: str
    node: str
    made_at: Frame | None


def _refusal(capture_file: CaptureFile, message: str) -> _Refusal:
    found = _MESSAGE.search(message)
    if found is None:  # worded otherwise by another version, or cut
        return _Refusal(function="", op="", node="", made_at=None)
    compiled = _COMPILED.findall(message)
    if not compiled and not found["graph"].startswith("__"):
        compiled = _CALLED.findall(message)
    name = compiled[-1] if compiled else found["graph"]
    counted = _COUNTED.fullmatch(name)
    return _Refusal(
        function=counted[1] if counted else name,
        op=found["op"],
        node=found["node"],
        made_at=capture_file.frame_of_node(found["graph"], found["node"]),
    )


def _check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        if host.capture_file is None:
            continue
        told: set[str] = set()
        for error in host.capture_file.errors:
            if error.where != _WHERE:
                continue
            finding = _finding(run, host, host.capture_file, error)
            if finding.scope not in told:  # a loop may meet the same error again and again
                told.add(finding.scope)
                yield finding


def _finding(run: Run, host: Host, capture_file: CaptureFile, error: CaughtError) -> Finding:
    refusal = _refusal(capture_file, error.message)
    handler = capture_file.frame(error.handler)
    moved = None if handler is None else went_on_on_the_cpu(run, host, handler)
    members = () if moved is None else moved.members
    title = f"XLA cannot compile {refusal.function or 'a function'}{_because(refusal)}"
    if members:
        title += f"; then the program put {ops_text(members)} on the CPU"
    evidence = [raised_evidence(capture_file, error, _told(error))]
    if refusal.made_at is not None:
        evidence.append(line_evidence("op", f"{refusal.op} is made here", refusal.made_at))
    if handler is not None:
        evidence.append(handler_evidence(handler))
    if moved is not None:
        evidence += moved.evidence
    return Finding(
        cause=CAUSE.id,
        sub_reason="not_caught" if handler is None else "caught",
        scope=f"{host.name} {refusal.function} {refusal.op} {same_place(handler)}",
        certainty="certain" if moved is None or moved.is_certain else "likely",
        harm="harmful",
        title=title,
        why=(
            "A function is compiled whole or not at all: TensorFlow raised an error that names the "
            f"first op which XLA has no kernel for, and ran none of it elsewhere. "
            f"{_what_followed(handler, has_moved=bool(members))}"
        ),
        op_ids=tuple(cpu_op.op_id for cpu_op, _ in members),
        evidence=tuple(evidence),
        fixes=_fixes(refusal),
    )


def _because(refusal: _Refusal) -> str:
    at = "" if refusal.made_at is None else f" ({line_text(refusal.made_at)})"
    if refusal.op == "_Arg":
        return f": it cannot take its argument {refusal.node}"
    if refusal.op == "_Retval":
        return ": it cannot return what the function returns"
    return f": it has no kernel for {refusal.op}{at}" if refusal.op else ""


def _what_followed(handler: Frame | None, *, has_moved: bool) -> str:
    if handler is None:
        return "No handler of the program caught it."
    if has_moved:
        return f"{line_text(handler)} caught it, and what follows there asks for the CPU."
    return (
        f"{line_text(handler)} caught it. What runs instead is placed op by op; what of it is on "
        "the CPU has a cause of its own."
    )


def _fixes(refusal: _Refusal) -> tuple[Fix, ...]:
    what = refusal.op if refusal.op and not refusal.op.startswith("_") else "what XLA cannot take"
    return (
        Fix(
            text=(
                f"Compile the part without {what}: take that out of the function with "
                "jit_compile=True, or into the input pipeline. The error names one such op at a "
                "time."
            ),
        ),
        Fix(text="Where little of it gains by XLA, go without.", code="@tf.function  # no XLA"),
    )


def _told(error: CaughtError) -> str:
    line = error.message.strip().partition("{{node")[0].partition("\nThe op is created")[0]
    return line.strip()


CAUSE = Cause(
    id="xla_not_whole",
    title="XLA cannot compile a function as a whole",
    documentation=__doc__,
    check=_check,
    not_applicable=no_errors_known,
)
