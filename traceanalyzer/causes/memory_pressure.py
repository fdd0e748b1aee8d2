"""The program continued on the CPU after memory ran out."""

from collections.abc import Iterator
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, CaughtError, line_text, same_place
from traceanalyzer.causes._cause import finding
from traceanalyzer.causes.knowledge.caught_errors import Exhaustion, exhaustion, seen_error
from traceanalyzer.causes.knowledge.finding_text import observed, types_at
from traceanalyzer.causes.knowledge.gpu_memory import BFC, gpu_memory
from traceanalyzer.findings import Finding
from traceanalyzer.format import size_text
from traceanalyzer.model import Evidence
from traceanalyzer.run import Host, Run

needs: Final = "capture"


def check(run: Run) -> Iterator[Finding]:
    for host, capture_file in run.captured:
        distinct: dict[object, CaughtError] = {}  # one per handler, and per line without a handler
        for error in capture_file.errors:
            failed, is_caught = exhaustion(error.message), error.handler >= 0
            is_of_memory = error.where == "resource_exhausted" and failed.is_of_memory
            if is_of_memory and not (is_caught and failed.is_on_host):
                distinct.setdefault(error.handler if is_caught else error.raised[:1], error)
        for error in distinct.values():
            yield from _exhausted(run, host, capture_file, error)


def _exhausted(
    run: Run, host: Host, capture_file: CaptureFile, error: CaughtError
) -> Iterator[Finding]:
    """Yield the finding about an error, unless it was caught without moving ops to the CPU."""
    lines = error.message.strip().splitlines() or [""]
    # A session's message begins with where the op was created.
    message = next((each for each in lines if "OOM" in each or "emory" in each), lines[0])
    seen = seen_error(run, host, capture_file, error, message)
    failed, raised, handler = exhaustion(error.message), seen.raised, seen.handler
    if handler is not None and seen.ops is None:
        return
    case = "not_caught" if seen.is_uncaught else "handler_unknown"
    scope = f"{host.name} {same_place(raised)} not caught"
    if handler is not None:
        case, scope = "", f"{same_place(raised)} {same_place(handler)}"
    yield finding(
        f"memory_pressure/{case}",
        values={
            "error": error.type,
            "at": "" if raised is None else f" at {line_text(raised)}",
            "ops": "" if seen.ops is None else types_at(seen.ops.ops),
            "attempt": failed.attempt,
            "handler": "" if handler is None else line_text(handler),
        },
        sub_reason={"": "caught", "not_caught": "not_caught"}.get(case),
        scope=scope,
        certainty=seen.certainty,
        op_ids=seen.op_ids,
        evidence=(*seen.evidence, *_allocator(host, failed)),
    )


def _allocator(host: Host, failed: Exhaustion) -> Iterator[Evidence]:
    if failed.bytes is not None:
        allocator = f" from {failed.allocator}" if failed.allocator else ""
        text = f"{size_text(failed.bytes)} were requested{allocator}"
        yield observed("allocator", text, "errors")
    name = BFC.fullmatch(failed.allocator)
    number = int(name[1]) if name is not None else 0
    for gpu in () if failed.is_on_host else gpu_memory(host):
        if gpu.number == number and gpu.peak_bytes is not None:
            yield observed("allocator", gpu.peak_text)
        if gpu.number == number and gpu.others_bytes:
            text = f"other processes used {size_text(gpu.others_bytes)} of the GPU's memory"
            yield observed("other_processes", text)
