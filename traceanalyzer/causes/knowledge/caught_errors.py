"""Recorded errors: where they were raised and caught, and the ops that handlers put on the CPU."""

import re
from dataclasses import dataclass
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame
from traceanalyzer.causes._cause import BlockedOps
from traceanalyzer.causes.knowledge.finding_text import observed, scope_text
from traceanalyzer.cpu_ops import analyse
from traceanalyzer.format import size_text
from traceanalyzer.model import Certainty, Evidence
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.vocabulary import DTYPE_BYTES

_LONGEST: Final = 200  # characters of a message in evidence
# Characters at the end of a message. TensorFlow may add the lines of the graph's ops before them.
_TAIL: Final = 200

# `OpKernelContext::allocate_tensor` (op_kernel.cc).
_TENSOR: Final = re.compile(
    r"OOM when allocating tensor with shape(?P<shape>\[[\d,]*\]) and type (?P<type>\w+) on "
    r"(?P<device>\S+) by allocator (?P<allocator>\S+)"
)
# XLA's programs (xla/pjrt and xla/service/gpu) name bytes: `8589934592 bytes`, or `8.00GiB`.
_SOME_BYTES: Final = re.compile(
    r"[Oo]ut of memory (?:while )?trying to allocate (?P<size>\d+(?:\.\d+)?) ?"
    r"(?:bytes|(?P<power>[KMGT]?)(?P<base>i?)B)"
)
# The same error reports full disks, too many open files, and messages that are too long.
_NOT_MEMORY: Final = re.compile(
    r"no space left on device|too many open files|larger than max|quota|disk", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenError:
    """A recorded error and its consequences."""

    raised: Frame | None  #: the user's line that raised it, if known
    handler: Frame | None  #: the line of the `except` that caught it, if known
    is_uncaught: bool  #: whether this error, and no other one of its line, ended the program
    #: Ops that only CPU scopes inside the handler keep on the CPU, each with its first blocker.
    ops: BlockedOps | None
    #: Likely if the handler's source is unknown: scopes below it in the same function count then.
    certainty: Certainty
    evidence: tuple[Evidence, ...]  #: the error, its handler, and the scopes

    @property
    def op_ids(self) -> tuple[str, ...]:
        """The ids of the ops."""
        return () if self.ops is None else tuple(op.op_id for op in self.ops.ops)


def raised_evidence(capture_file: CaptureFile, error: CaughtError, message: str) -> Evidence:
    """Return evidence of an error, with part of its message, at the line that raised it."""
    text = f"{error.type} raised here: {message}"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return observed("error", text, "errors", line=_raised_at(capture_file, error))


def _raised_at(capture_file: CaptureFile, error: CaughtError) -> Frame | None:
    return capture_file.frame(error.raised[0]) if error.raised else None


def seen_error(
    run: Run, host: Host, capture_file: CaptureFile, error: CaughtError, message: str
) -> SeenError:
    """Find the handler of an error, and the ops that the handler put on the CPU."""
    handler = capture_file.frame(error.handler)
    evidence = [raised_evidence(capture_file, error, message)]
    members, is_certain = [], True
    if handler is not None:
        evidence.append(observed("handler", "the error was caught here", line=handler))
        body = error.handler_lines
        scopes: dict[Frame, str] = {}
        for cpu_op in analyse(run).cpu_ops.values():
            blockers = cpu_op.explanation.blockers
            if cpu_op.host != host.name or not blockers:
                continue
            found = [_cpu_scope(capture_file, blocker) for blocker in blockers]
            if all(f is not None and _is_inside(f, handler, body) for f in found):
                members.append((cpu_op, blockers[0]))
                is_certain &= bool(body) and cpu_op.explanation.certainty == "certain"
                scopes |= {f: scope_text(b) for f, b in zip(found, blockers, strict=True) if f}
        evidence += [
            observed("requested_device", f"{scope} is entered here", line=frame)
            for frame, scope in scopes.items()
        ]
    return SeenError(
        raised=_raised_at(capture_file, error),
        handler=handler,
        is_uncaught=handler is None and _is_uncaught(capture_file, error),
        ops=BlockedOps(tuple(members)) if members else None,
        certainty="certain" if is_certain else "likely",
        evidence=tuple(evidence),
    )


def _is_uncaught(capture_file: CaptureFile, error: CaughtError) -> bool:
    """Return whether an error ended the program; False if its line raised several errors."""
    line = error.where, error.raised[:1]
    times = sum((each.where, each.raised[:1]) == line for each in capture_file.errors)
    return times == 1 and any(
        each.where == "program"
        and (each.type, each.raised) == (error.type, error.raised)
        and each.message[-_TAIL:] == error.message[-_TAIL:]
        for each in capture_file.errors
    )


def _cpu_scope(capture_file: CaptureFile, blocker: Blocker) -> Frame | None:
    if blocker.link != "own":
        return None
    frame, device = blocker.scope_frame, blocker.scope or blocker.requested_device
    if blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.call is not None:
        frame, device = capture_file.frame(blocker.call.scope_frame), blocker.call.scope
    elif blocker.kind is not BlockerKind.REQUEST:
        return None
    return frame if asks_for_cpu(device) else None


def _is_inside(scope: Frame, handler: Frame, body: tuple[int, ...]) -> bool:
    if scope.file != handler.file:
        return False
    if body:
        return body[0] <= scope.line <= body[-1]
    return scope.code == handler.code and scope.line > handler.line


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustion:
    """A failed allocation; "" or None for facts that the message does not contain."""

    is_of_memory: bool = True  #: whether memory ran out, and not a disk or the like
    tensor: str = ""  #: the tensor, such as `float[8,8]`
    bytes: int | None = None
    device: str = ""
    allocator: str = ""

    @property
    def is_on_host(self) -> bool:
        """Whether host memory ran out, rather than GPU memory."""
        return "/device:CPU:" in self.device

    @property
    def attempt(self) -> str:
        """The failure as a predicate of "TensorFlow", such as "could not allocate 8 GB"."""
        size = "" if self.bytes is None else size_text(self.bytes)
        wanted = f"{self.tensor} ({size})" if self.tensor and size else self.tensor or size
        at = f" on {device_text(self.device)}" if self.device else ""
        return f"could not allocate {wanted or 'memory for an op'}{at}"


def exhaustion(message: str) -> Exhaustion:
    """Read the message of a ResourceExhaustedError."""
    if (tensor := _TENSOR.search(message)) is not None:
        size = DTYPE_BYTES.get(tensor["type"])
        for extent in tensor["shape"].strip("[]").split(","):
            size = size * int(extent) if size is not None and extent else size
        return Exhaustion(
            tensor=f"{tensor['type']}{tensor['shape']}",
            bytes=size,
            device=tensor["device"],
            allocator=tensor["allocator"],
        )
    if (some := _SOME_BYTES.search(message)) is not None:
        unit = (1024 if some["base"] else 1000) ** " KMGT".index(some["power"] or " ")
        return Exhaustion(bytes=int(float(some["size"]) * unit))
    return Exhaustion(is_of_memory=_NOT_MEMORY.search(message) is None)
