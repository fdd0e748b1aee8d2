"""Ops that a graph optimizer moved to the host."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.causes._cause import finding
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Evidence
from traceanalyzer.placement.devices import asks_for_cpu, device_text
from traceanalyzer.placement.on_a_gpu import OPTION, pinned_by
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.vocabulary import Role

needs: Final = "capture"

# How the option was set: the evidence, its place in the capture file, and code that undoes it.
_SET_BY: Final = {
    "program": (
        f"the program set {OPTION}",
        "devices: optimizer_options",
        f'tf.config.optimizer.set_experimental_options({{"{OPTION}": False}})',
    ),
    "session": (
        f"the session's ConfigProto sets {OPTION}",
        "session_configs: rewrites",
        f"config.graph_options.rewrite_options.{OPTION} = rewriter_config_pb2.RewriterConfig.OFF",
    ),
}


def check(run: Run) -> Iterator[Finding]:
    for host, capture_file in run.captured:
        moved: dict[str, dict[int, Evidence]] = defaultdict(dict)
        for row, set_by, evidence in _moved(host, capture_file):
            moved[set_by][row] = evidence
        for set_by, by_row in moved.items():
            rows = host.tables.ops.iloc[list(by_row)]
            is_certain = bool((rows["placement_certainty"] == "certain").all())
            option, place, code = _SET_BY[set_by]
            yield finding(
                "grappler_pin_to_host",
                values={
                    "option": OPTION,
                    "count": counted(len(rows), "op"),
                    "types": listed(sorted(set(rows["type"].astype(str)))),
                    "code": code,
                },
                scope="" if set_by == "program" else set_by,
                certainty="certain" if is_certain else "likely",
                op_ids=tuple(rows["op_id"]),
                evidence=(observed("optimizer_options", option, place), *[*by_row.values()][:5]),
            )


def _moved(host: Host, capture_file: CaptureFile) -> Iterator[tuple[int, str, Evidence]]:
    """Yield each op that moved to the CPU: its row, who set the option, and the evidence."""
    ops, joined = host.tables.ops, host.tables.joined
    records = () if joined is None else joined.records
    is_on_cpu = ((ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)).tolist()
    for row, record in enumerate(records):
        if not is_on_cpu[row]:
            continue
        if record is None or not record.node or not asks_for_cpu(record.device or ""):
            continue
        assigned = _assigned(capture_file, record.function, record.node)
        set_by = pinned_by(capture_file, is_of_session=is_session(record.function))
        if set_by and assigned and not any(asks_for_cpu(d) or not d for d in assigned):
            text = f"{record.node} was placed on {device_text(min(assigned))}, but ran on the CPU"
            yield row, set_by, observed("assigned_device", text, f"node {record.node}")


def _assigned(capture_file: CaptureFile, name: str, node: str) -> set[str]:
    function = capture_file.function(name)
    instances = () if function is None else function.instances
    places = [(each.assigned, each.input.index(node)) for each in instances]
    return {assigned[at] if at < len(assigned) else "" for assigned, at in places if at >= 0}
