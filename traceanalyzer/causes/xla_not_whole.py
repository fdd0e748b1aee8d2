"""XLA cannot compile a function.

## What it detects

Functions that XLA was to compile, with `jit_compile=True` or by Keras, and that contain an op it
cannot compile; and how the program handled the error: ops on the CPU because the error's handler
requests it.

## Why it happens

XLA compiles its own implementations of ops. It has none for string ops, Python callbacks, and some
others, such as `Eig`, `ResizeArea`, and `CTCGreedyDecoder`. A function with `jit_compile=True` is
compiled completely or not at all: TensorFlow raises InvalidArgumentError (`Detected unsupported
operations when trying to compile graph`, in 2.12, 2.18, and 2.21), names the first such op, and
runs none of the function elsewhere. So XLA puts no op on the CPU: either the error ends the
program, or a handler continues without XLA, and then ops are placed one by one, as always, with
causes of their own.

Auto-clustering (`TF_XLA_FLAGS=--tf_xla_auto_jit=2`) is different: it raises nothing and leaves such
ops outside, where they have their usual placement and causes. Keras 3 decides model by model with
`jit_compile="auto"`; the trace's health section says what switched XLA off.

## How to fix it

Compile less: give `jit_compile=True` only to the part that XLA can compile, and call the other op
outside it. String ops belong in the input pipeline. The error names only one such op at a time.

## How sure it is

Certain that XLA cannot compile the function: TensorFlow's error says so. For ops that the handler
put on the CPU: certain if its source shows the scope, otherwise likely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import line_text, same_place
from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.error_handlers import (
    handled_ops,
    handler_evidence,
    no_errors_known,
    raised_evidence,
)
from traceanalyzer.causes.knowledge.finding_text import observed, ops_text
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
# The function to compile encloses the graph that holds the op, such as a branch.
_COMPILED: Final = re.compile(r"while converting ([^\s\[]+)\[_XlaMustCompile=true")
_CALLED: Final = re.compile(r"\[Op:(\w+)\]\s*$")  # the only name in 2.12's message
_NUMBERED: Final = re.compile(r"(?:__(?:inference|forward|backward)_)?(.+?)_\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """What XLA's error says; "" for what it does not say."""

    #: The function to compile, by its Python name.
    function: str = ""
    #: Type and name of the op that XLA cannot compile.
    op: str = ""
    node: str = ""
    #: The user's line that created the op.
    made_at: Frame | None = None


def _refusal(capture_file: CaptureFile, message: str) -> _Refusal:
    found = _MESSAGE.search(message)
    if found is None:  # another version's message, or a cut one
        return _Refusal()
    compiled = _COMPILED.findall(message)
    if not compiled and not found["graph"].startswith("__"):
        compiled = _CALLED.findall(message)
    name = compiled[-1] if compiled else found["graph"]
    numbered = _NUMBERED.fullmatch(name)
    return _Refusal(
        function=numbered[1] if numbered else name,
        op=found["op"],
        node=found["node"],
        made_at=capture_file.frame_of_node(found["graph"], found["node"]),
    )


def check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        if host.capture_file is None:
            continue
        findings: dict[str, Finding] = {}  # a loop can raise the same error again and again
        for error in host.capture_file.errors:
            if error.where == _WHERE:
                finding = _finding(run, host, host.capture_file, error)
                findings.setdefault(finding.scope, finding)
        yield from findings.values()


def _finding(run: Run, host: Host, capture_file: CaptureFile, error: CaughtError) -> Finding:
    refusal = _refusal(capture_file, error.message)
    handler = capture_file.frame(error.handler)
    ops = None if handler is None else handled_ops(run, host, handler)
    moved = "" if ops is None else f"; then the program put {ops_text(ops.members)} on the CPU"
    evidence = [raised_evidence(capture_file, error, _first_line(error))]
    if refusal.made_at is not None:
        evidence.append(observed("op", f"{refusal.op} is created here", line=refusal.made_at))
    if handler is not None:
        evidence.append(handler_evidence(handler))
    if ops is not None:
        evidence += ops.evidence
    return Finding(
        cause=CAUSE.id,
        sub_reason="not_caught" if handler is None else "caught",
        scope=f"{host.name} {refusal.function} {refusal.op} {same_place(handler)}",
        certainty="certain" if ops is None or ops.is_certain else "likely",
        harm="harmful",
        title=f"XLA cannot compile {refusal.function or 'a function'}{_reason(refusal)}{moved}",
        why=(
            "XLA compiles a function completely or not at all. TensorFlow raised an error that "
            "names the first op without an XLA kernel, and ran none of the function elsewhere. "
            f"{_what_followed(handler, has_moved=ops is not None)}"
        ),
        op_ids=() if ops is None else tuple(cpu_op.op_id for cpu_op, _ in ops.members),
        evidence=tuple(evidence),
        fixes=_fixes(refusal),
    )


def _reason(refusal: _Refusal) -> str:
    at = "" if refusal.made_at is None else f" ({line_text(refusal.made_at)})"
    if refusal.op == "_Arg":
        return f": it cannot use its argument {refusal.node}"
    if refusal.op == "_Retval":
        return ": it cannot return the function's result"
    return f": it has no kernel for {refusal.op}{at}" if refusal.op else ""


def _what_followed(handler: Frame | None, *, has_moved: bool) -> str:
    if handler is None:
        return "The program did not catch it."
    if has_moved:
        return f"{line_text(handler)} caught it, and the handler requests the CPU."
    return (
        f"{line_text(handler)} caught it. Ops that run instead are placed one by one; those on the "
        "CPU have causes of their own."
    )


def _fixes(refusal: _Refusal) -> tuple[Fix, ...]:
    op = refusal.op if refusal.op and not refusal.op.startswith("_") else "the unsupported part"
    return (
        Fix(
            text=(
                f"Compile the rest without {op}: move it out of the function with "
                "jit_compile=True, or into the input pipeline. The error names one such op at a "
                "time."
            ),
        ),
        Fix(text="If XLA gains little here, do without it.", code="@tf.function  # no XLA"),
    )


def _first_line(error: CaughtError) -> str:
    line = error.message.strip().partition("{{node")[0].partition("\nThe op is created")[0]
    return line.strip()


CAUSE = Cause(
    __name__, "XLA cannot compile a function", __doc__, check=check, not_applicable=no_errors_known
)
