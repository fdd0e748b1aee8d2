"""XLA cannot compile a function."""

import re
from collections.abc import Iterator
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, CaughtError, line_text, same_place
from traceanalyzer.causes._cause import finding
from traceanalyzer.causes.knowledge.caught_errors import seen_error
from traceanalyzer.causes.knowledge.finding_text import observed, types_at
from traceanalyzer.findings import Finding
from traceanalyzer.run import Host, Run

needs: Final = "capture"

# Nodes at the ends of a function.
_ENDS: Final = {
    "_Arg": "it cannot use the function's argument {}",
    "_Retval": "it cannot return the function's result",
}
_MESSAGE: Final = re.compile(
    r"when trying to compile graph (?P<graph>[^\s\[]+)\S* on (?P<device>\w+): (?P<op>\w+) \("
    r".*?\{\{node (?P<node>[^}]+)\}\}",
    re.DOTALL,
)
# The function to compile encloses the graph that contains the op, such as a branch.
_COMPILED: Final = re.compile(r"while converting ([^\s\[]+)\[_XlaMustCompile=true")
_CALLED: Final = re.compile(r"\[Op:(\w+)\]\s*$")  # the only name in 2.12's message
_NUMBERED: Final = re.compile(r"(?:__(?:inference|forward|backward)_)?(.+?)_\d+")


def check(run: Run) -> Iterator[Finding]:
    for host, capture_file in run.captured:
        findings: dict[str, Finding] = {}  # a loop can raise the same error again and again
        for error in capture_file.errors:
            if error.where == "xla_unsupported":  # see `CaughtError`
                found = _found(run, host, capture_file, error)
                findings.setdefault(found.scope, found)
        yield from findings.values()


def _found(run: Run, host: Host, capture_file: CaptureFile, error: CaughtError) -> Finding:
    message = error.message.strip().partition("{{node")[0].partition("\nThe op is created")[0]
    seen = seen_error(run, host, capture_file, error, message.strip())
    evidence = list(seen.evidence)
    function = op = reason = ""  # unknown in another version's message, or a cut one
    if (found := _MESSAGE.search(error.message)) is not None:
        op, function = found["op"], _function(error.message, found["graph"])
        made_at = capture_file.frame_of_node(found["graph"], found["node"])
        at = "" if made_at is None else f" ({line_text(made_at)})"
        reason = f": it has no kernel for {op}{at}"
        if op in _ENDS:
            reason = f": {_ENDS[op].format(found['node'])}"
        if made_at is not None:
            evidence.insert(1, observed("op", f"{op} is created here", line=made_at))
    case = "not_caught" if seen.is_uncaught else "handler_unknown"
    if seen.handler is not None:
        case = "" if seen.ops is None else "moved"
    return finding(
        f"xla_not_whole/{case}",
        values={
            "function": function or "a function",
            "reason": reason,
            "handler": "" if seen.handler is None else line_text(seen.handler),
            "ops": "" if seen.ops is None else types_at(seen.ops.ops),
            "part": op if op and op not in _ENDS else "the unsupported part",
        },
        sub_reason={"": "caught", "moved": "caught", "not_caught": "not_caught"}.get(case),
        scope=f"{host.name} {function} {op} {same_place(seen.handler)}",
        certainty=seen.certainty,
        op_ids=seen.op_ids,
        evidence=tuple(evidence),
    )


def _function(message: str, graph: str) -> str:
    compiled = _COMPILED.findall(message)
    if not compiled and not graph.startswith("__"):
        compiled = _CALLED.findall(message)
    name = str(compiled[-1]) if compiled else graph
    numbered = _NUMBERED.fullmatch(name)
    return numbered[1] if numbered else name
