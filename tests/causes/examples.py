"""Reads the examples of causes, `tests/causes/CAUSE.toml`, and builds their ops and blockers.

    [[example]]                  # one blocker of one op
    title = "a product of integers"
    op = { type = "MatMul" }     # an op of train.py:7; missing fields are filled in
    blocker = { kind = "attributes", type = "MatMul", attributes = { T = "int32" } }
    is_match = true              # whether it belongs to this cause
    finding = { harm = "harmful", title = "int32", code = "..." }  # optional: its text

    [[run]]                      # the op table of a run, for causes that look at whole runs
    title = "a GPU in use"
    ops = [{ name = "StringJoin", type = "StringJoin" }]
    finds = []                   # the names of the ops that the cause must name

The value "?" stands for one that was not recorded. Of a finding, `title`, `why` and `fix` (the text
of the first fix) are parts that it must contain; `harm`, `certainty`, `sub_reason`, `modifiers`,
`code` and `checked` (of the first fix) are the values themselves.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaughtError,
    Frame,
    Resource,
    SessionConfig,
    Signature,
    Tensor,
)
from traceanalyzer.capture_file.function_records import Function, Graph, Instance
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.placement.blocker import Blocker, BlockerKind, Link
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.graph_nodes import OpRecord
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.tables.joined import Joined
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.tables.schema import ALLOCATIONS, KERNELS, OPS, STEPS, TRANSFERS

FOLDER = Path(__file__).parent
LOCALHOST = "/job:localhost/replica:0/task:0"
CPU = f"{LOCALHOST}/device:CPU:0"

_FACTS = TracerFacts(
    host_level=2,
    host_level_source="assumed",
    options=None,
    accelerators={"/device:GPU:0": 100},
    gpu_used=True,
    gpu_witness="events on /device:GPU:0",
    gpu_may_be_missed=False,
    pluggable_used=False,
)
_ROW: dict[str, Any] = {
    "host": "h",
    "function": "train_step",
    "role": "compute",
    "placement": "cpu",
    "placement_certainty": "likely",
    "placement_source": "host_event",
    "is_eager": False,
    "in_input_pipeline": False,
    "occurrences": 1,
    "host_self_ps": 1_000_000,
    "host_total_ps": 1_000_000,
}


@dataclass(frozen=True, kw_only=True)
class Example:
    """The op table of a run, and the names of the ops that the cause must name."""

    title: str
    ops: Sequence[dict[str, Any]]
    fires_on: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    capture_file: CaptureFile | None = None
    record: OpRecord | None = None

    def run(self) -> Run:
        """The rows as a run, beside what was captured."""
        rows = [{**_ROW, "op_id": f"op{k}", **op} for k, op in enumerate(self.ops)]
        frame = pd.DataFrame(rows, columns=list(OPS.columns))
        numbers = [c for c, dtype in OPS.columns.items() if dtype == "int64"]
        frame[numbers] = frame[numbers].fillna(0)
        empty: dict[str, Any] = {
            schema.name: pd.DataFrame({c: [] for c in schema.columns})
            for schema in (KERNELS, TRANSFERS, ALLOCATIONS, STEPS)
        }
        tables = HostTables(ops=frame, facts=replace(_FACTS, **self.facts), **empty)
        host = Host(
            name="h",
            file=None,
            tables=tables,
            start_ps=0,
            end_ps=10_000_000,
            device_properties={},
        )
        run = Run(name="example", path_name="example", hosts=(host,))
        if self.capture_file is None:
            return run
        return captured(run, self.capture_file, (self.record,) * len(self.ops))


def captured(run: Run, capture_file: CaptureFile, records: Sequence[OpRecord | None]) -> Run:
    """A run of one host beside its capture file, with the record of each row of the op table."""
    (host,) = run.hosts
    tables = replace(host.tables, joined=Joined(records=tuple(records), calls={}))
    return replace(run, hosts=(replace(host, capture_file=capture_file, tables=tables),))


@dataclass(frozen=True, kw_only=True)
class BlockerExample:
    """A blocker of an op, and whether it belongs to the cause."""

    title: str
    cpu_op: CpuOp
    blocker: Blocker
    fires: bool
    finding: dict[str, Any] = field(default_factory=dict)


def cpu_op(op_type: str, **fields: Any) -> CpuOp:  # noqa: ANN401 - any field of the op
    """An op of `train.py:7` on the CPU, about which nothing else is known."""
    plain: dict[str, Any] = {
        "op_id": "op0",
        "host": "h",
        "name": op_type,
        "function": "train_step",
        "file": "train.py",
        "line": 7,
        "host_self_ps": 1_000_000,
        "requested_device": "",
        "explanation": PlacementExplanation(
            type=op_type, basis="replay", certainty="certain", is_complete=True
        ),
    }
    return CpuOp(**{**plain, "type": op_type, **fields})


def blocker(kind: str, op_type: str, link: Link = "own", **fields: Any) -> Blocker:  # noqa: ANN401
    """Something that keeps an op off the GPU."""
    return Blocker(kind=BlockerKind(kind), link=link, type=op_type, **fields)


def line(
    number: int,
    *,
    is_user: bool = True,
    file: str = "train.py",
    code: str = "train_step",
    text: str | None = None,
) -> Frame:
    """A line of the user's program, or of a library's."""
    return Frame(file=file, line=number, code=code, is_user=is_user, text=text)


def resource(name: str, dtype: str = "float", device: str = "/device:CPU:0") -> Resource:
    """A variable about which nothing else is known."""
    return Resource(signature=-1, name=name, dtype=dtype, shape=None, bytes=None, device=device)


def call(scope: str = "", function: str = "__inference_train_step_12") -> Signature:
    """A call of a function, within a scope or none."""
    return _signature(function, scope=scope, is_function=True)


def _signature(op: str, **fields: Any) -> Signature:  # noqa: ANN401 - any field of a signature
    plain: dict[str, Any] = {
        "is_function": False,
        "scope": "",
        "scope_frame": -1,
        "frame": -1,
        "attributes": -1,
        "inputs": (),
        "outputs": (),
    }
    return Signature(op=op, **{**plain, **fields})


def caught(where: str, error: str, message: str, scope_line: int, op: str) -> CaptureFile:
    """A capture of an error of line 4, caught in line 5, and an eager op of line 7.

    Args:
        where: What kind of error it is, as `CaughtError.where`.
        error: Its class.
        message: Its text.
        scope_line: The line that opens a scope for the CPU, which the op is in.
        op: The type of the op.
    """
    tensor = Tensor(dtype="float", device=CPU, backing_device=CPU, resource=None, shape=(8, 8))
    return CaptureFile(
        tool="",
        host="h",
        complete=True,
        environment={"tensorflow": {"version": "2.21.0"}},
        devices={"logical": [{"name": "/device:CPU:0"}, {"name": "/device:GPU:0"}]},
        # The lines of the handler are not recorded.
        errors=(CaughtError(where=where, type=error, message=message, raised=(0,), handler=1),),
        frames=tuple(
            Frame(file="/nowhere/train.py", line=at, code="step", is_user=True)
            for at in (4, 5, scope_line, 7)
        ),
        attributes=({"T": "float"},),
        signatures=(
            _signature(
                op,
                scope=CPU,
                scope_frame=2,
                frame=3,
                attributes=0,
                inputs=(tensor, tensor),
                outputs=(tensor,),
            ),
        ),
    )


IN_SCOPE = OpRecord(frame=None, requested_device="/device:CPU:0", signatures=(0,))
"""The record of that op."""


def placed(
    assigned: str,
    *,
    options: bool = False,
    rewrites: dict[str, Any] | None = None,
    function: str = "__inference_f_3",
) -> CaptureFile:
    """A capture of a function of one `Mul`.

    Args:
        assigned: The device that the placer gave it.
        options: Whether the program switched on `pin_to_host_optimization`.
        rewrites: The rewrites of its session's configuration; None for no session.
        function: The function's name.
    """
    graph = Graph(
        names=("Mul",),
        ops=("Mul",),
        inputs=((),),
        devices=("",),
        attributes=(-1,),
        origin_functions=("",),
        origin_nodes=("",),
    )
    instance = Instance(input=graph, assigned=(LOCALHOST + assigned,), partitions=())
    config = SessionConfig(
        is_own=True, is_local=True, soft_placement=False, rewrites=rewrites or {}
    )
    return CaptureFile(
        tool="",
        host="h",
        complete=True,
        devices={"optimizer_options": {"pin_to_host_optimization": options}},
        session_configs=() if rewrites is None else (config,),
        functions=(Function(name=function, instances=(instance,)),),
    )


@cache
def examples_of(cause: str) -> tuple[tuple[Example, ...], tuple[BlockerExample, ...]]:
    """The examples of a cause: runs, and single blockers."""
    file = FOLDER / f"{cause}.toml"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return read_examples(text)


def read_examples(text: str) -> tuple[tuple[Example, ...], tuple[BlockerExample, ...]]:
    """The examples that a TOML document describes: runs, and single blockers."""
    document = tomllib.loads(text)
    return (
        tuple(map(_run, document.get("run", ()))),
        tuple(map(_blocker, document.get("example", ()))),
    )


def _run(entry: dict[str, Any]) -> Example:
    capture_file, record = None, None
    if "caught" in entry:
        capture_file, record = caught(message=entry["message"], **entry["caught"]), IN_SCOPE
    elif "placed" in entry:
        capture_file = placed(**entry["placed"])
        function = entry["placed"].get("function", "__inference_f_3")
        record = OpRecord(
            frame=None,
            requested_device="",
            device=CPU,
            node="Mul",
            function=function,
        )
    elif "variables" in entry:
        environment = {"variables": entry["variables"]}
        capture_file = CaptureFile(tool="", host="h", complete=True, environment=environment)
    return Example(
        title=entry["title"],
        ops=[_known(op) for op in entry["ops"]],
        fires_on=entry.get("finds", ()),
        facts=entry.get("facts", {}),
        capture_file=capture_file,
        record=record,
    )


def _blocker(entry: dict[str, Any]) -> BlockerExample:
    op, fields = dict(entry["op"]), dict(entry["blocker"])
    if not op.pop("has_line", True):
        op |= {"file": None, "line": None}
    known = ("certainty", "doubt", "habit", "inferred_from", "library")
    explained = {name: op.pop(name) for name in known if name in op}
    if explained:
        if "library" in explained:
            explained["library"] = _line(explained["library"])
        op["explanation"] = PlacementExplanation(type=op["type"], basis="replay", **explained)
    if "scope_line" in fields:
        fields["scope_frame"] = _line(fields.pop("scope_line"))
    if "types" in fields:
        fields["types"] = tuple(fields["types"])
    if "resource" in fields:
        fields["resource"] = resource(**fields["resource"])
    if "call" in fields:
        fields["call"] = call(**fields["call"])
    if "attributes" in fields:
        fields["attributes"] = _known(fields["attributes"])
    return BlockerExample(
        title=entry["title"],
        cpu_op=cpu_op(op.pop("type"), **op),
        blocker=blocker(fields.pop("kind"), fields.pop("type"), **fields),
        fires=entry["is_match"],
        finding=entry.get("finding", {}),
    )


def _line(where: dict[str, Any]) -> Frame:
    fields = dict(where)
    return line(fields.pop("line"), **fields)


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value == "?" else value for name, value in fields.items()}
