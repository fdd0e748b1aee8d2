"""Ops placed on the GPU but computed on the host."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from traceanalyzer.capture_file.document import line_text, lines_text
from traceanalyzer.causes._cause import (
    BlockedOps,
    Blocker,
    CauseMatch,
    CpuOp,
    FindingText,
    finding,
    fix,
)
from traceanalyzer.causes.knowledge.finding_text import at_lines, given_text, made_at, observed
from traceanalyzer.cpu_ops import analyse
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed, series, size_text
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.host_copies import Copied, HostCopies
from traceanalyzer.placement.kernel_types import (
    definition_of,
    is_copied_to_host,
    is_never_computed,
    types_computed,
)
from traceanalyzer.run import Run
from traceanalyzer.tables.functions import base_and_counter

_SUGGESTED: Final = {"int64": "int64", "float32": "float"}


def not_applicable(run: Run) -> str | None:
    return None if run.gpu_used or run.captured else "TensorFlow used no GPU"


def check(run: Run) -> Iterator[Finding]:
    copies = analyse(run).copies
    yield from copied(copies)
    ops = run.ops[~run.ops["op_id"].isin([op_id for _, op_ids in copies for op_id in op_ids])]
    found = ops[(ops["placement"] == "host_memory") & ~ops["type"].map(_makes_handles).astype(bool)]
    if found.empty or not run.gpu_used:
        return
    for scope, rows in found.groupby(found["type"].astype(str).map(_scope)):
        types = sorted(set(rows["type"].astype(str)))
        placement = f"ops on a GPU with values in host memory: {listed(types)}"
        yield finding(
            f"host_memory_kernel/{scope}",
            **_text(types, len(rows)),
            scope=str(scope),
            certainty="certain" if (rows["placement_certainty"] == "certain").all() else "likely",
            op_ids=tuple(rows["op_id"]),
            evidence=(observed("placement", placement),),
        )


def copied(found: Iterable[tuple[HostCopies, tuple[str, ...]]]) -> Iterator[Finding]:
    """Yield a finding for each function that copies values between GPU and host in each call."""
    for copies, op_ids in found:
        function = base_and_counter(copies.function)[0]
        fixes = []
        if copies.is_mended_by_int64 and not copies.is_of_library:
            fixes.append(fix("host_memory_kernel/int64", at=lines_text(copies.frames)))
        evidence = [observed("copies", text, f"function {function}") for text in _copies(copies)]
        lines = (observed("line", f"made at {line_text(f)}", line=f) for f in copies.frames)
        yield finding(
            f"host_memory_kernel/{'round_trip' if copies.computed else 'uploads'}",
            fixes,
            values={
                "function": function,
                "trip": series(copies.types),
                "uploads": _uploads(copies),
            },
            sub_reason="round_trip" if copies.computed else "uploads",
            scope=f"copies\0{function}",
            certainty="likely" if copies.doubt else "certain",
            op_ids=op_ids,
            evidence=(*evidence, *lines),
        )


def _copies(copies: HostCopies) -> Iterator[str]:
    for what, every in (
        ("from the GPU to the host", copies.arriving),
        ("back to the GPU", copies.leaving),
        ("from the host to the GPU, the same values in each call", copies.uploads),
    ):
        if every:
            said = (f"{copy.source} for {copy.target}{_size(copy)}" for copy in every)
            yield f"in each call {what}: {listed(list(said))}"
    if copies.doubt:
        yield copies.doubt


def _size(copy: Copied) -> str:
    return "" if copy.bytes is None else f", {size_text(copy.bytes)}"


def _uploads(copies: HostCopies) -> str:
    if not copies.uploads:
        return ""
    known = [copy.bytes for copy in copies.uploads if copy.bytes is not None]
    size = f" ({size_text(sum(known))})" if len(known) == len(copies.uploads) else ""
    number = counted(len(copies.uploads), "int32 tensor")
    return f" Each call also copies {number} from the host to the GPU{size}, always the same."


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.HOST_MEMORY or blocker.is_copied:
        return None
    given = f" with {given_text(blocker.attributes)}" if blocker.attributes else ""
    text = f"the GPU kernel of {blocker.type}{given} is registered with all data in host memory"
    registered = observed("kernel_registry", text)
    return CauseMatch(scope=_scope(blocker.type), evidence=(registered, *made_at(cpu_op)))


def describe(ops: BlockedOps) -> FindingText:
    types = list(dict.fromkeys(blocker.type for blocker in ops.blockers))
    case = f"host_memory_kernel{'/data' if is_copied_to_host(types[0]) else ''}"
    text = _text(types, len(ops.members), at_lines(ops.ops))
    return ops.described(case, text["fixes"], **text["values"])


def _makes_handles(op_type: str) -> bool:
    definition = definition_of(op_type)
    return definition is not None and definition.makes_handles


def _scope(op: str) -> str:
    return "data" if is_copied_to_host(op) else ""


def _text(types: Sequence[str], count: int, at: str = "") -> dict[str, Any]:
    """Return the keyword arguments of a finding: its fixes, and the values for its text."""
    never = [op for op in types if is_never_computed(op)]
    return {
        "fixes": () if is_copied_to_host(types[0]) else tuple(_fixes(types)),
        "values": {
            "subject": f"{types[0]}{at} is" if count == 1 else f"{counted(count, 'op')} are",
            "names": "" if count == 1 else f": {listed(types)}",
            "never": f" The host computes {series(never)} for any dtype." if never else "",
        },
    }


def _fixes(types: Sequence[str]) -> Iterator[Fix]:
    by_dtypes: dict[str, list[str]] = defaultdict(list)
    for op in types:
        names = [name for name, dtype in _SUGGESTED.items() if dtype in types_computed(op)]
        if names:
            by_dtypes[" or ".join(names)].append(op)
    if by_dtypes:
        computed_with = "; ".join(f"{series(ops)} with {names}" for names, ops in by_dtypes.items())
        yield Fix.of(
            "Create the tensors with another dtype",
            f"A GPU can compute {computed_with}. Small tensors need no change.",
            condition="the tensors are large",
            code="x = tf.constant(values, tf.int64)",
        )
