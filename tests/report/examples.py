"""Reports written by hand: what the renderings are tried on."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

import pandas as pd

from tests.report.made_timeline import Made, MadeLane, made_timeline
from traceanalyzer.model import (
    AllocatorMemory,
    Belief,
    Blocker,
    Cell,
    CopyEdge,
    CopyGraph,
    CopyGroup,
    CopyGroups,
    CopyNode,
    CopyStorm,
    Cost,
    CriticalPath,
    DeviceCopies,
    DeviceInfo,
    DeviceTimeline,
    EventTimeline,
    Evidence,
    ExplainedShares,
    Finding,
    Fix,
    Gain,
    GroupCopies,
    Health,
    IdleGap,
    InputCure,
    InputHost,
    InputPipeline,
    Island,
    IslandCopies,
    IslandMove,
    Memory,
    MemoryGrowth,
    MemoryHolder,
    MemoryPeak,
    MovedOp,
    OnAGpu,
    OpRef,
    PackedTable,
    PathOp,
    PhaseTime,
    ReadBack,
    Report,
    RuledOut,
    RuleStatus,
    RunInfo,
    Scopes,
    SidecarWhere,
    SourceWhere,
    StepPhases,
    Steps,
    StepTime,
    StormEdge,
    Summary,
    Table,
    Tables,
    TfVersion,
    Timeline,
    ToolInfo,
    TraceWhere,
    Unexplained,
    UnexplainedOp,
)
from traceanalyzer.report import views
from traceanalyzer.report.ops import pack_ops

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "trainer-0"
TOOL = ToolInfo(version="0.1.0")

OPS_COLUMNS = (
    "op_id",
    "host",
    "function",
    "name",
    "type",
    "device",
    "placement",
    "placement_certainty",
    "placement_source",
    "is_eager",
    "in_input_pipeline",
    "occurrences",
    "host_self_us",
    "host_total_us",
    "kernel_us",
    "kernels",
    "h2d_bytes",
    "d2h_bytes",
    "copy_us",
    "exposed_us",
    "input_types",
    "output_types",
    "requested_device",
    "source_file",
    "source_line",
)
COPIES_COLUMNS = ("direction", "memory", "bytes", "count", "total_us", "producer", "consumer")
STEPS_COLUMNS = ("step", "start_us", "duration_us", "gpu_busy_us", "cpu_op_us")
KERNELS_COLUMNS = ("name", "op_id", "op", "stream", "device", "count", "duration_us")

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"

PY_FUNC = OpRef(
    op_id="a41f09c2",
    name="augment/EagerPyFunc",
    type="EagerPyFunc",
    host=HOST,
    placement="cpu",
    file="train/augment.py",
    line=88,
    source="image = tf.py_function(blur, [image], tf.float32)",
)
UNIQUE = OpRef(
    op_id="7be2d411",
    name="model/text_vectorization/string_lookup/None_Lookup/LookupTableFindV2",
    type="LookupTableFindV2",
    host=HOST,
    placement="cpu",
    file="train/model.py",
    line=41,
)
MATMUL = OpRef(
    op_id="c09d5510",
    name="model/ranker/scores/MatMul",
    type="MatMul",
    host=HOST,
    placement="cpu",
    file="train/ranker.py",
    line=132,
)
GATHER = OpRef(
    op_id="19aa73fe",
    name="model/ranker/embedding_lookup/ResourceGather",
    type="ResourceGather",
    host=HOST,
    placement="cpu",
)
CAST = OpRef(
    op_id="5d20be07",
    name="model/ranker/scores/Cast",
    type="Cast",
    host=HOST,
    placement="cpu",
    file="train/ranker.py",
    line=131,
)
CONV = OpRef(
    op_id="e6610b3a",
    name="model/backbone/block_3/conv2d/Conv2D",
    type="Conv2D",
    host=HOST,
    placement="gpu:0",
    file="train/backbone.py",
    line=27,
)


def _with_all_ops(build: Callable[[], Report]) -> Callable[[], Report]:
    """Has a report hold the ops of its table packed too, as `assemble` does."""

    @wraps(build)
    def built() -> Report:
        report = build()
        ops = report.tables.ops
        return replace(report, tables=replace(report.tables, all_ops=packed_ops(report, ops)))

    return built


def packed_ops(report: Report, ops: Table) -> PackedTable:
    """Packs rows of ops, with the causes that the report's findings give them."""
    frame = pd.DataFrame(ops.records(), columns=[*ops.columns], dtype=object)
    found = views.explanations(report)
    unexplained = {op.op_id for op in report.unexplained.ops}
    for name in ("cause", "certainty", "findings"):
        frame[name] = pd.Series("", index=frame.index, dtype=object)  # a lone surrogate is no str
    for row, op_id in enumerate(frame["op_id"]):
        told = found.get(op_id, [])
        causes = [
            f"{'dragged_along_by_' if e.dragged_along else ''}{e.finding.cause}" for e in told
        ]
        if not told and op_id in unexplained:
            causes = ["unexplained"]
        frame.loc[row, "cause"] = " | ".join(causes)
        frame.loc[row, "certainty"] = " | ".join(e.finding.certainty for e in told)
        frame.loc[row, "findings"] = " | ".join(e.finding.id for e in told)
    places = [
        file if file is None or line is None else f"{file}:{line}"
        for file, line in zip(frame["source_file"], frame["source_line"], strict=True)
    ]
    frame["source"] = pd.Series(places, index=frame.index, dtype=object)
    for name in ("is_eager", "in_input_pipeline"):
        frame[name] = frame[name].map({True: "yes", False: "no"})
    frame["role"] = "compute"
    frame["host_nested_us"] = frame["host_total_us"] - frame["host_self_us"]
    return pack_ops(frame, ops.total_rows)


def _op_row(op: OpRef, **figures: Cell) -> tuple[Cell, ...]:
    on_cpu = op.placement == "cpu"
    row: dict[str, Cell] = {
        "op_id": op.op_id,
        "host": op.host,
        "function": "__inference_train_step_4711",
        "name": op.name,
        "type": op.type,
        "device": CPU if on_cpu else GPU,
        "placement": op.placement,
        "placement_certainty": "certain",
        "placement_source": "sidecar",
        "is_eager": False,
        "in_input_pipeline": False,
        "occurrences": 0,
        "host_self_us": 0.0,
        "host_total_us": 0.0,
        "kernel_us": 0.0,
        "kernels": 0,
        "h2d_bytes": 0,
        "d2h_bytes": 0,
        "copy_us": 0.0,
        "exposed_us": None,
        "input_types": None,
        "output_types": None,
        "requested_device": None,
        "source_file": op.file,
        "source_line": op.line,
    }
    row.update(figures)
    return tuple(row[column] for column in OPS_COLUMNS)


def _finding_python_callback() -> Finding:
    return Finding(
        id="f3a91c07",
        cause="python_callback",
        sub_reason="eager_py_func",
        certainty="certain",
        harm="harmful",
        title="A Python function runs inside every step",
        why=(
            "tf.py_function calls back into the Python interpreter. The interpreter runs on the "
            "host, so TensorFlow registers EagerPyFunc for the CPU only. The GPU waits while the "
            "inputs are copied to the host, the function runs under the interpreter's lock, and "
            "the result is copied back."
        ),
        modifiers=("soft_placement_fallback",),
        ops=(PY_FUNC,),
        dragged_along=(CAST,),
        blockers=(
            Blocker(
                cause="python_callback",
                certainty="certain",
                sufficient=True,
                evidence=(
                    Evidence(
                        kind="kernel registry",
                        text="TensorFlow 2.18.0 registers EagerPyFunc for CPU only.",
                    ),
                ),
            ),
            Blocker(
                cause="explicit_cpu_placement",
                certainty="likely",
                sufficient=True,
                evidence=(
                    Evidence(
                        kind="source",
                        text='The call stands inside with tf.device("/CPU:0").',
                        where=SourceWhere(file="train/augment.py", line=84),
                    ),
                ),
            ),
        ),
        evidence=(
            Evidence(
                kind="kernel registry",
                text="TensorFlow 2.18.0 registers EagerPyFunc for CPU only.",
            ),
            Evidence(
                kind="trace event",
                text="EagerPyFunc ran 120 times on a host thread; the longest took 2.114 ms.",
                where=TraceWhere(
                    host=HOST,
                    plane="/host:CPU",
                    line="tf_Compute/2087",
                    offset_ps=412_339_000_000,
                    duration_ps=2_114_000_000,
                ),
            ),
            Evidence(
                kind="source",
                text="tf.py_function(blur, [image], tf.float32)",
                where=SourceWhere(
                    file="train/augment.py",
                    line=88,
                    source="image = tf.py_function(blur, [image], tf.float32)",
                ),
            ),
            Evidence(
                kind="placement",
                text="The placer assigned CPU:0 to this node; the request was GPU:0.",
                where=SidecarWhere(sidecar="functions/__inference_train_step_4711/augment"),
            ),
        ),
        ruled_out=(
            RuledOut(
                cause="no_gpu_visible", because="one GPU ran 36,480 kernels in the same trace"
            ),
            RuledOut(cause="host_pipeline", because="the op is outside every tf.data iterator"),
        ),
        cost=Cost(
            host_us=182_412.339,
            copy_us=21_480.5,
            copy_bytes=1_258_291_200,
            exposed_us_per_step=1_702.118,
        ),
        gain_us_per_step=Gain(
            low=1_100.0,
            high=1_702.118,
            basis="GPU idle time that overlaps this op and its copies",
        ),
        fixes=(
            Fix(
                text="Write the blur with TensorFlow ops, which have GPU kernels.",
                code=(
                    "kernel = tf.tile(gauss[:, :, None, None], [1, 1, 3, 1])\n"
                    'image = tf.nn.depthwise_conv2d(image, kernel, [1, 1, 1, 1], "SAME")'
                ),
                checked=True,
            ),
            Fix(
                text=(
                    "Or move it into the input pipeline, where it overlaps with the GPU's work: "
                    "dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE)."
                ),
            ),
        ),
    )


def _finding_dtype() -> Finding:
    return Finding(
        id="0be77d52",
        cause="dtype_unsupported",
        certainty="likely",
        harm="harmful",
        title="MatMul has no GPU kernel for int32",
        why=(
            "MatMul has GPU kernels for half, bfloat16, float, double, complex64 and complex128, "
            "not for int32. Without a kernel for T=int32 the placer is left with the CPU."
        ),
        ops=(MATMUL,),
        evidence=(
            Evidence(
                kind="kernel registry",
                text="TensorFlow 2.18.0: MatMul, T=int32, CPU only.",
            ),
            Evidence(
                kind="trace event",
                text="The event carries the shapes (int32[512,512], int32[512,64]).",
                where=TraceWhere(host=HOST, plane="/host:CPU", line="tf_Compute/2091"),
            ),
        ),
        cost=Cost(host_us=40_118.2, copy_us=3_020.0, copy_bytes=None, exposed_us_per_step=211.904),
        gain_us_per_step=Gain(low=0.0, high=211.904, basis="exposed time"),
        fixes=(
            Fix(
                text="Multiply in float32 and cast back: int32 values below 2**24 stay exact.",
                code="scores = tf.cast(tf.matmul(tf.cast(a, tf.float32), b), tf.int32)",
                checked=True,
            ),
        ),
    )


def _finding_host_pipeline() -> Finding:
    names = ("ParallelMapV2", "DecodeJpeg", "BatchV2", "Prefetch", "TensorSlice", "ShuffleV3")
    ops = tuple(
        OpRef(
            op_id=f"d{index:07x}",
            name=f"Iterator::Root::{name}",
            type=name,
            host=HOST,
            placement="cpu",
        )
        for index, name in enumerate(names * 9)
    )
    return Finding(
        id="9c1d2ab8",
        cause="host_pipeline",
        certainty="certain",
        harm="by_design",
        title="The input pipeline runs on the host",
        why=(
            "tf.data reads, decodes and batches on the host by design. It costs nothing as long "
            "as the next batch is ready when the GPU asks for it, as it was here."
        ),
        ops=ops,
        ops_total=212,
        evidence=(
            Evidence(
                kind="trace event",
                text="Iterator events on tf_data threads.",
                where=TraceWhere(
                    host=HOST, plane="/host:CPU", line="tf_data_iterator_resource/2101"
                ),
            ),
        ),
        cost=Cost(host_us=901_210.75, copy_us=None, copy_bytes=None, exposed_us_per_step=0.0),
    )


def _finding_lookup() -> Finding:
    return Finding(
        id="41d8e0c6",
        cause="no_gpu_kernel",
        certainty="certain",
        harm="harmless",
        title="String look-ups have no GPU kernel",
        why="LookupTableFindV2 over strings exists for the CPU only; strings live on the host.",
        ops=(UNIQUE,),
        evidence=(
            Evidence(
                kind="kernel registry",
                text="TensorFlow 2.18.0 registers LookupTableFindV2 for CPU only.",
            ),
        ),
        cost=Cost(host_us=812.4, copy_us=96.0, copy_bytes=491_520, exposed_us_per_step=3.2),
        fixes=(Fix(text="Look the words up in dataset.map, before the batch is copied."),),
    )


def _unexplained_op() -> UnexplainedOp:
    return UnexplainedOp(
        op_id=GATHER.op_id,
        name=GATHER.name,
        type=GATHER.type,
        host=GATHER.host,
        placement=GATHER.placement,
        occurrences=120,
        cost=Cost(host_us=5_120.25, copy_us=640.0, copy_bytes=31_457_280, exposed_us_per_step=28.4),
        candidates=("resource_on_cpu", "explicit_cpu_placement"),
        settled_by="a capture with `traceanalyzer capture`, which records the requested devices",
    )


def _gpu_ops() -> Table:
    rows = [
        _op_row(
            PY_FUNC,
            occurrences=120,
            host_self_us=182_412.339,
            host_total_us=184_001.02,
            h2d_bytes=629_145_600,
            d2h_bytes=629_145_600,
            copy_us=21_480.5,
            exposed_us=204_254.16,
            requested_device="/device:GPU:0",
        ),
        _op_row(
            MATMUL,
            occurrences=120,
            host_self_us=40_118.2,
            host_total_us=40_118.2,
            h2d_bytes=None,
            d2h_bytes=None,
            copy_us=3_020.0,
            exposed_us=25_428.48,
            input_types="int32[512,512], int32[512,64]",
        ),
        _op_row(
            GATHER,
            occurrences=120,
            host_self_us=5_120.25,
            host_total_us=5_120.25,
            h2d_bytes=31_457_280,
            copy_us=640.0,
            exposed_us=3_408.0,
        ),
        _op_row(
            UNIQUE,
            occurrences=120,
            host_self_us=812.4,
            host_total_us=812.4,
            h2d_bytes=491_520,
            copy_us=96.0,
            exposed_us=384.0,
        ),
        _op_row(CAST, occurrences=120, host_self_us=96.08, host_total_us=96.08, exposed_us=0.0),
        _op_row(
            CONV,
            occurrences=120,
            host_self_us=4_812.0,
            host_total_us=4_812.0,
            kernel_us=1_204_118.5,
            kernels=480,
        ),
    ]
    for block in range(1, 9):
        op = OpRef(
            op_id=f"b{block:07x}",
            name=f"gradient_tape/model/backbone/block_{block}/conv2d/Conv2DBackpropFilter",
            type="Conv2DBackpropFilter",
            host=HOST,
            placement="gpu:0",
        )
        kernel_us = 640_118.5 / block
        rows.append(_op_row(op, occurrences=120, kernel_us=kernel_us, kernels=240))
    return Table(columns=OPS_COLUMNS, rows=tuple(rows), total_rows=4697)


def _gpu_copy_graph() -> CopyGraph:
    return CopyGraph(
        nodes=(
            CopyNode(op_id=CONV.op_id, label=CONV.name, placement="gpu:0"),
            CopyNode(op_id=PY_FUNC.op_id, label=PY_FUNC.name, placement="cpu"),
            CopyNode(op_id=MATMUL.op_id, label=MATMUL.name, placement="cpu"),
            CopyNode(op_id="host", label="host", placement="cpu"),
            CopyNode(op_id="gpu:0", label="gpu:0", placement="gpu:0"),
            CopyNode(op_id="gpu:1", label="gpu:1", placement="gpu:1"),
        ),
        edges=(
            CopyEdge(
                source="host",
                target="gpu:0",
                direction="h2d",
                bytes=2_411_724_800,
                count=240,
                total_us=201_477.0,
                exposed_us=0.0,
            ),
            CopyEdge(
                source=CONV.op_id,
                target=PY_FUNC.op_id,
                direction="d2h",
                bytes=629_145_600,
                count=120,
                total_us=52_428.8,
                exposed_us=10_480.2,
            ),
            CopyEdge(
                source=PY_FUNC.op_id,
                target="gpu:0",
                direction="h2d",
                bytes=629_145_600,
                count=120,
                total_us=52_011.4,
                exposed_us=11_000.3,
            ),
            CopyEdge(
                source=MATMUL.op_id,
                target="gpu:0",
                direction="h2d",
                bytes=None,
                count=120,
                total_us=3_020.0,
                exposed_us=None,
            ),
            CopyEdge(
                source="gpu:0",
                target="gpu:1",
                direction="p2p",
                bytes=94_371_840,
                count=120,
                total_us=4_194.0,
                exposed_us=0.0,
            ),
        ),
        devices=(
            DeviceCopies(
                source="host",
                target="gpu:0",
                direction="h2d",
                bytes=3_040_870_400,
                count=480,
                total_us=256_508.4,
                exposed_us=11_000.3,
                hidden_us=201_477.0,
                bytes_per_s=11_855_000_000.0,
                link_bytes_per_s=31_507_692_307.692,
                link_source="pcie",
                pageable_count=120,
                pageable_bytes=629_145_600,
                pinned_count=360,
                pinned_bytes=2_411_724_800,
                async_count=360,
                sync_count=120,
            ),
            DeviceCopies(
                source="gpu:0",
                target="host",
                direction="d2h",
                bytes=629_145_600,
                count=120,
                total_us=52_428.8,
                bytes_per_s=12_000_000_000.0,
                link_bytes_per_s=12_400_000_000.0,
                link_source="seen",
            ),
            DeviceCopies(
                source="host",
                target="gpu:1",
                direction="h2d",
                bytes=None,
                count=12,
                total_us=41.2,
            ),
            DeviceCopies(
                source="gpu:0",
                target="gpu:1",
                direction="p2p",
                bytes=94_371_840,
                count=120,
                total_us=4_194.0,
            ),
        ),
        edges_total=61,
        groups=_gpu_copy_groups(),
    )


def _gpu_copy_groups() -> CopyGroups:
    def group(op: OpRef, *, islands: tuple[int, ...] = ()) -> CopyGroup:
        return CopyGroup(
            kind="op", label=op.name, ops=1, node=op.op_id, name=op.name, islands=islands
        )

    scope = CopyGroup(
        kind="scope", label="model/head", ops=12, node=MATMUL.op_id, name=MATMUL.name, islands=(1,)
    )
    rest = CopyGroup(kind="others", label="", ops=31, node=CAST.op_id, name=CAST.name)

    def memory(name: str) -> CopyGroup:
        return CopyGroup(kind="memory", label=name, ops=1, node=name, name=name)

    flow = GroupCopies(
        source=0,
        target=0,
        source_memory="host",
        target_memory="gpu:0",
        direction="h2d",
        bytes=2_411_724_800,
        unknown_bytes=0,
        count=240,
        total_us=201_477.0,
        exposed_us=0.0,
    )
    there = replace(flow, bytes=629_145_600, count=120, total_us=52_428.8)
    back = replace(there, direction="d2h", source_memory="gpu:0", target_memory="host")
    unsized = replace(flow, bytes=None, unknown_bytes=12, count=12, total_us=41.2)
    peer = replace(there, source_memory="gpu:0", target_memory="gpu:1", direction="p2p")
    return CopyGroups(
        sources=(memory("host"), group(CONV), group(PY_FUNC, islands=(1, 2)), scope, rest),
        targets=(memory("gpu:0"), group(PY_FUNC, islands=(1, 2)), memory("gpu:1")),
        flows=(
            flow,
            replace(back, source=1, target=1),
            replace(there, source=2, target=0),
            replace(unsized, source=3, target=2, target_memory="gpu:1"),
            replace(peer, source=4, target=2, bytes=94_371_840, total_us=4_194.0),
        ),
    )


def _gpu_input() -> InputPipeline:
    return InputPipeline(
        verdict="too_slow",
        text=(
            "The input pipeline is too slow on the CPU: a step waits 6.20 ms for input, 43 % of "
            "its time (mean of 118 steps). The stage `Root::Prefetch::Map` bounds the rate."
        ),
        host=HOST,
        cures=(
            InputCure(
                kind="parallel",
                text="Let several calls of the function run at once.",
                code="dataset = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE)",
                gain_us_per_step=Gain(
                    low=3_100.0,
                    high=6_180.5,
                    basis="input wait",
                    note="its calls on half of the CPUs at worst, on 8 CPUs at best",
                ),
            ),
        ),
        hosts=(
            InputHost(
                host=HOST,
                verdict="too_slow",
                reason=None,
                steps_count=118,
                wait_mean_us=6_200.0,
                wait_median_us=6_150.25,
                wait_share=0.43,
                other_us=8_205.0,
                slow_stage="Root::Prefetch::Map",
                slow_us=14_250.0,
                slow_wait_share=0.97,
                startup_us=812_000.0,
                shuffle_fill_us=800_000.0,
                shuffle_fill_count=10_000,
            ),
        ),
        stages=Table(
            columns=(
                *("host", "pipeline", "stage", "type", "is_async", "elements", "request_us"),
                *("self_us", "call_us", "parallelism"),
            ),
            rows=(
                (
                    HOST,
                    0,
                    "Root::Prefetch",
                    "Prefetch",
                    True,
                    120,
                    744_000.0,
                    744_000.0,
                    None,
                    None,
                ),
                (
                    HOST,
                    0,
                    "Root::Prefetch::Map",
                    "Map",
                    False,
                    120,
                    1_710_000.0,
                    1_610_000.0,
                    1_600_000.0,
                    1,
                ),
                (
                    HOST,
                    0,
                    "Root::Prefetch::Map::TFRecord",
                    "TFRecord",
                    False,
                    121,
                    100_000.0,
                    100_000.0,
                    None,
                    None,
                ),
            ),
            total_rows=3,
        ),
        waits=Table(
            columns=("host", "step", "duration_us", "wait_us", "wait_before_us", "kind"),
            rows=tuple(
                (HOST, step, 14_000.0 + step, 6_150.25 + step, 50.0, "regular")
                for step in range(3, 23)
            ),
            total_rows=120,
        ),
    )


def _holder(op: OpRef | None, size: int, count: int = 1) -> MemoryHolder:
    return MemoryHolder(
        op_id=None if op is None else op.op_id,
        op=None if op is None else op.name,
        type=None if op is None else op.type,
        file=None if op is None else op.file,
        line=None if op is None else op.line,
        region_type=None if op is None else "output",
        data_type=None if op is None else "float",
        shape=None if op is None else "[4096,1024]",
        bytes=size,
        count=count,
    )


def _gpu_memory() -> Memory:
    levels = (2_000_000_000, 7_760_000_000, 3_000_000_000, 7_000_000_000, 2_500_000_000)
    return Memory(
        remarks=("GPU_0_bfc was 97 % full at its peak (7.76 GB of 8.00 GB).",),
        allocators=(
            AllocatorMemory(
                host=HOST,
                allocator="GPU_0_bfc",
                kind="device",
                device="gpu:0",
                records=5_000,
                limit_bytes=8_000_000_000,
                highest_bytes=7_760_000_000,
                peak=MemoryPeak(
                    at_us=14_405.0,
                    bytes=7_760_000_000,
                    share=0.97,
                    named_bytes=5_000_000_000,
                    unnamed_bytes=760_000_000,
                    before_bytes=2_000_000_000,
                    reserved_bytes=0,
                    unaccounted_bytes=0,
                    rounding_bytes=1_024,
                    available_bytes=240_000_000,
                    fragmentation_share=0.25,
                    holders=(_holder(MATMUL, 5_000_000_000, 12), _holder(None, 760_000_000)),
                    holders_total=62,
                ),
                timeline=Table(
                    columns=("at_us", "bytes"),
                    rows=tuple((k * 14_405.0, size) for k, size in enumerate(levels)),
                    total_rows=5_000,
                ),
                steps=Table(
                    columns=("step", "start_us", "peak_bytes", "end_bytes"),
                    rows=((0, 0.0, 7_760_000_000, 2_500_000_000),),
                    total_rows=118,
                ),
                growth=MemoryGrowth(
                    steps=118,
                    first_bytes=2_000_000_000,
                    last_bytes=2_500_000_000,
                    bytes_per_step=4_250_000,
                    holders=(_holder(UNIQUE, 500_000_000, 117),),
                ),
            ),
            AllocatorMemory(
                host=HOST,
                allocator="gpu_host_bfc",
                kind="pinned_host",
                device=None,
                records=2,
                limit_bytes=None,
                highest_bytes=None,
                peak=None,
                timeline=Table(columns=("at_us", "bytes"), rows=(), total_rows=2),
                steps=_table(("step", "start_us", "peak_bytes", "end_bytes")),
            ),
        ),
        allocators_total=3,
    )


def phases(**shares: float) -> tuple[PhaseTime, ...]:
    return tuple(PhaseTime(phase=k, us=14_000.0 * v, share=v) for k, v in shares.items())


def _gpu_step_phases() -> StepPhases:
    """The first steps: one that warms up, and some in which the GPU waits for the host."""
    columns = ("step", "kind", "duration_us", "compute_us", "copy_us", "host_op_us", "runtime_us")
    rows = tuple(
        (
            k,
            "warm_up" if k < 2 else "regular",
            took,
            round(0.6 * took, 3),
            212.5,
            round(0.15 * took, 3),
            round(0.1 * took, 3),
        )
        for k, took in enumerate((61_200.0, 15_900.0, 14_405.0, 14_300.0, 14_600.0, 14_410.0))
    )
    table = Table(columns=columns, rows=rows, total_rows=120)
    return StepPhases(host=HOST, device="/device:GPU:0", steps=table)


def _gpu_timeline() -> Timeline:
    return Timeline(
        devices=(
            DeviceTimeline(
                host=HOST,
                device="/device:GPU:0",
                steps=118,
                us_per_step=14_000.0,
                phases=phases(compute=0.6, copy=0.05, host_op=0.15, input=0.1, launch=0.1),
                overlap_share=0.42,
            ),
        ),
    )


def _gpu_path() -> CriticalPath:
    return CriticalPath(
        host=HOST,
        steps=118,
        us_per_step=14_000.0,
        proved_share=0.92,
        phases=phases(compute=0.5, host_op=0.4, program=0.1),
        ops=(
            PathOp(
                op_id=MATMUL.op_id,
                name=MATMUL.name,
                type=MATMUL.type,
                placement=MATMUL.placement,
                us_per_step=5_600.0,
                share=0.4,
            ),
        ),
    )


SCOPES_COLUMNS = ("parent", "name", "kind", "cpu_us", "device_us", "launch_us", "ops")


def _gpu_scopes() -> Scopes:
    rows = (
        (None, "model", "scope", 30_000.0, 900_000.0, 45_000.0, 40),
        (0, "backbone", "scope", 0.0, 700_000.0, 30_000.0, 20),
        (0, "ranker", "scope", 30_000.0, 200_000.0, 15_000.0, 18),
        (1, "Conv2D", "op", 0.0, 700_000.0, 30_000.0, 1),
        (None, "augment", "scope", 182_412.25, 0.0, 0.0, 1),
        (2, "scores", "scope", 30_000.0, 0.0, 0.0, 1),
        (None, "train_step", "function", 2_000.0, 20_000.0, 5_000.0, 9),
        (None, "300 smaller", "others", 100.0, 50.0, 10.0, 700),
    )
    return Scopes(nodes=Table(columns=SCOPES_COLUMNS, rows=rows, total_rows=1_234))


def _gpu_trace() -> EventTimeline:
    """Forty steps: the GPU waits for a Python function in the middle of each."""
    steps: list[Made] = []
    kernels: list[Made] = []
    copies: list[Made] = []
    python: list[Made] = []
    threads: list[Made] = []
    input_: list[Made] = []
    for index in range(40):
        at = 14_100.0 * index
        steps.append(Made(at, 14_021.5, f"train {index}", "step"))
        kernels += [
            Made(at + 200 + 60 * k, 55, CONV.name, "compute", CONV.op_id) for k in range(100)
        ]
        kernels.append(Made(at + 9_000, 4_000, CONV.name, "compute", CONV.op_id))
        copies.append(Made(at + 6_250, 400, "copy, device to host", "copy", PY_FUNC.op_id))
        python.append(Made(at + 100, 13_000, None, "call"))
        threads += [
            Made(at + 150, 6_000, None, "runtime", count=7),
            Made(at + 6_700, 2_114, PY_FUNC.name, "host_op", PY_FUNC.op_id, "f3a91c07"),
            Made(at + 8_850, 120, MATMUL.name, "host_op", MATMUL.op_id, "0be77d52"),
        ]
        input_.append(Made(at + 2_000, 7_000, "Iterator::Root::Prefetch", "input"))
    gaps = [
        IdleGap(
            host=HOST,
            device="/device:GPU:0",
            start_us=14_100.0 * index + 6_650,
            duration_us=2_350 - index,
            step=f"train {index}",
            phase="host_op",
            phase_us=2_114,
            op_id=PY_FUNC.op_id,
            op=PY_FUNC.name,
            finding_id="f3a91c07",
            before="copy, device to host",
            after=CONV.name,
        )
        for index in range(30)
    ]
    gpu = "/device:GPU:0"
    return made_timeline(
        (
            MadeLane(HOST, "train", "steps", steps),
            MadeLane(HOST, "Stream #13(Compute)", "stream", kernels, gpu),
            MadeLane(HOST, "Stream #14(MemcpyD2H)", "stream", copies, gpu),
            MadeLane(HOST, "python", "thread", python, is_program=True),
            MadeLane(HOST, "tf_Compute/2087", "thread", threads),
            MadeLane(HOST, "tf_data_iterator_resource/2101", "thread", input_),
        ),
        gaps,
    )


@_with_all_ops
def gpu_run() -> Report:
    """A training run on a GPU with some ops on the CPU, one of them unexplained."""
    steps = tuple(
        (index, 14_100.0 * index, 14_021.5 + (index * 37) % 11 * 96.125, 9_120.0, 1_904.8)
        for index in range(40)
    )
    copies = (
        ("h2d", "pinned", 2_411_724_800, 240, 201_477.0, None, "model/backbone/Conv2D"),
        ("d2h", "pageable", 629_145_600, 120, 52_428.8, CONV.name, PY_FUNC.name),
        ("h2d", "pageable", 629_145_600, 120, 52_011.4, PY_FUNC.name, None),
        ("h2d", "unknown", None, 120, 3_020.0, MATMUL.name, None),
    )
    kernels = (
        (
            (
                "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_"
                "16x4_nhwc_align4>(cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_"
                "align4::Params)"
            ),
            CONV.op_id,
            CONV.name,
            "13",
            "gpu:0",
            480,
            1_204_118.5,
        ),
        ("ampere_sgemm_128x64_nn", "b0000001", "gradient_tape/…", "13", "gpu:0", 960, 640_118.5),
    )
    return Report(
        tool=TOOL,
        run=RunInfo(
            name="2026_11_20_17_04_31",
            path_name="2026_11_20_17_04_31",
            hosts=(HOST,),
            tf_version=TfVersion(value="2.18.0", source="sidecar"),
            duration_us=1_702_118.25,
            steps=120,
            devices=(
                DeviceInfo(name="/host:CPU", kind="cpu", model="AMD EPYC 7763", busy_us=None),
                DeviceInfo(
                    name="/device:GPU:0",
                    kind="gpu",
                    model="NVIDIA A100-SXM4-40GB",
                    kernels=36_480,
                    busy_us=1_094_461.0,
                    busy_share=0.643,
                ),
                DeviceInfo(
                    name="/device:GPU:1",
                    kind="gpu",
                    model="NVIDIA A100-SXM4-40GB",
                    kernels=120,
                    busy_us=4_194.0,
                    busy_share=0.002464,
                ),
            ),
            command="traceanalyzer capture --steps 10:130 train/main.py --token ***",
            recorded_at="2026-11-20 17:04:31",
            host_tracer_level=3,
        ),
        health=(
            Health(
                id="dropped_events",
                severity="warning",
                message=(
                    "The GPU tracer dropped 1,204 events: copies and kernels may be missing near "
                    "the end of the run."
                ),
            ),
            Health(
                id="unjoined_share",
                severity="info",
                message="0.8 % of kernel time could not be joined to an op.",
            ),
        ),
        summary=Summary(
            verdict=(
                "The GPU stood idle for 1.94 ms of each 14.4 ms step because 5 ops ran on the "
                "CPU; a Python function in the augmentation accounts for most of it."
            ),
            cpu_ops=5,
            cpu_op_us=228_559.269,
            explained=ExplainedShares(certain=0.802073, likely=0.175526, possible=0.0),
            explained_share=0.977599,
            gpu_idle_share=0.357,
            step_us=StepTime(median=14_405.0, p95=14_886.4),
            exposed_us_per_step=1_945.622,
        ),
        findings=(
            _finding_python_callback(),
            _finding_dtype(),
            _finding_lookup(),
            _finding_host_pipeline(),
        ),
        unexplained=Unexplained(cpu_op_us=5_120.25, ops=(_unexplained_op(),)),
        rules=(
            RuleStatus(cause="python_callback", status="fired"),
            RuleStatus(cause="dtype_unsupported", status="fired"),
            RuleStatus(cause="no_gpu_kernel", status="fired"),
            RuleStatus(cause="host_pipeline", status="fired"),
            RuleStatus(cause="no_gpu_visible", status="silent"),
            RuleStatus(
                cause="remote_host",
                status="not_applicable",
                reason="the trace holds a single host",
            ),
            RuleStatus(
                cause="grappler_pin_to_host",
                status="failed",
                reason="KeyError: 'pin_to_host_optimization'",
            ),
        ),
        steps=Steps(
            source="markers",
            note="Steps are the run's own step markers; the first two were left out as warm-up.",
            count=118,
            median_us=14_405.0,
            p95_us=14_886.4,
            phases=_gpu_step_phases(),
        ),
        timeline=_gpu_timeline(),
        scopes=_gpu_scopes(),
        critical_path=(_gpu_path(),),
        copy_graph=replace(
            _gpu_copy_graph(), storms=_storms(), read_backs=_read_backs(), read_backs_total=180
        ),
        islands=_islands(),
        islands_total=61,
        input_pipeline=_gpu_input(),
        memory=_gpu_memory(),
        beliefs=(
            Belief(
                id="memory",
                question="Was the GPU's memory too full?",
                answer=(
                    "GPU memory peaked at 97 % (7.76 GB of the 8.00 GB that GPU:0 has). That moved "
                    "no op to the CPU: TensorFlow raises ResourceExhausted instead, and did not "
                    "here."
                ),
            ),
        ),
        trace=_gpu_trace(),
        tables=Tables(
            ops=_gpu_ops(),
            copies=Table(columns=COPIES_COLUMNS, rows=copies, total_rows=612),
            steps=Table(columns=STEPS_COLUMNS, rows=steps, total_rows=120),
            kernels=Table(columns=KERNELS_COLUMNS, rows=kernels, total_rows=94),
        ),
    )


def _table(columns: tuple[str, ...]) -> Table:
    return Table(columns=columns, rows=(), total_rows=0)


@_with_all_ops
def cpu_only_run() -> Report:
    """A run in which TensorFlow saw no GPU."""
    finding = Finding(
        id="52c0aa19",
        cause="no_gpu_visible",
        sub_reason="hidden_by_env",
        certainty="certain",
        harm="harmful",
        title="TensorFlow saw no GPU in this process",
        why=(
            "CUDA_VISIBLE_DEVICES was set to -1, so the driver showed no device. Every op ran on "
            "the CPU, also those that asked for a GPU: soft placement allows it."
        ),
        ops=(MATMUL,),
        ops_total=412,
        evidence=(
            Evidence(
                kind="environment",
                text='CUDA_VISIBLE_DEVICES="-1"',
                where=SidecarWhere(sidecar="environment/CUDA_VISIBLE_DEVICES"),
            ),
        ),
        cost=Cost(host_us=9_812_004.5, copy_us=None, copy_bytes=None, exposed_us_per_step=None),
        fixes=(
            Fix(
                text="Unset the variable, then check that a GPU is listed.",
                code=(
                    "unset CUDA_VISIBLE_DEVICES\n"
                    "python -c 'import tensorflow as tf; "
                    'print(tf.config.list_physical_devices("GPU"))\''
                ),
                checked=False,
            ),
        ),
    )
    ops = Table(
        columns=OPS_COLUMNS,
        rows=(
            _op_row(MATMUL, occurrences=900, host_self_us=9_100_412.0, host_total_us=9_100_412.0),
            _op_row(CAST, occurrences=900, host_self_us=711_592.5, host_total_us=711_592.5),
        ),
        total_rows=412,
    )
    return Report(
        tool=TOOL,
        run=RunInfo(
            name="laptop",
            path_name="laptop",
            hosts=("laptop",),
            tf_version=TfVersion(value="2.21.0", source="sidecar"),
            duration_us=12_004_118.0,
            steps=None,
            devices=(DeviceInfo(name="/host:CPU", kind="cpu"),),
        ),
        health=(
            Health(
                id="no_device_plane",
                severity="error",
                message="The trace holds no GPU plane: nothing in it ran on a GPU.",
            ),
            Health(
                id="no_steps",
                severity="info",
                message="There are no step markers, so no figure is given per step.",
            ),
        ),
        summary=Summary(
            verdict="TensorFlow saw no GPU: CUDA_VISIBLE_DEVICES hid it, so all 412 ops ran on "
            "the CPU.",
            cpu_ops=412,
            cpu_op_us=9_812_004.5,
            explained=ExplainedShares(certain=1.0, likely=0.0, possible=0.0),
            explained_share=None,
            gpu_idle_share=None,
            step_us=None,
            exposed_us_per_step=None,
        ),
        findings=(finding,),
        unexplained=Unexplained(cpu_op_us=0.0, ops=()),
        rules=(
            RuleStatus(cause="no_gpu_visible", status="fired"),
            RuleStatus(
                cause="dtype_unsupported",
                status="not_applicable",
                reason="no GPU was visible, so no op was refused by one",
            ),
        ),
        on_a_gpu=OnAGpu(
            assumed="one GPU and the kernels of TensorFlow 2.21.0 for Linux with CUDA",
            findings=(replace(_finding_dtype(), id="0be77d53", cost=_no_cost()),),
            unexplained=Unexplained(cpu_op_us=0.0, ops=()),
            program_differs=("train/main.py:12 asks whether a GPU is listed",),
        ),
        steps=Steps(source="missing", note="The trace has no step markers."),
        copy_graph=None,
        tables=Tables(
            ops=ops,
            copies=_table(COPIES_COLUMNS),
            steps=_table(STEPS_COLUMNS),
            kernels=_table(KERNELS_COLUMNS),
        ),
    )


def _no_cost() -> Cost:
    return Cost(host_us=None, copy_us=None, copy_bytes=None, exposed_us_per_step=None)


def empty_run() -> Report:
    """A trace with no op, no step and no device in it."""
    return Report(
        tool=TOOL,
        run=RunInfo(
            name="empty",
            path_name="empty.xplane.pb",
            hosts=(),
            tf_version=TfVersion(value=None, source=None),
            duration_us=None,
            steps=None,
            devices=(),
        ),
        health=(),
        summary=Summary(
            verdict="The trace holds no TensorFlow op.",
            cpu_ops=0,
            cpu_op_us=0.0,
            explained=ExplainedShares(certain=None, likely=None, possible=None),
            explained_share=None,
            gpu_idle_share=None,
            step_us=None,
            exposed_us_per_step=None,
        ),
        findings=(),
        unexplained=Unexplained(cpu_op_us=0.0, ops=()),
        rules=(),
        tables=Tables(
            ops=_table(OPS_COLUMNS),
            copies=_table(COPIES_COLUMNS),
            steps=_table(STEPS_COLUMNS),
            kernels=_table(KERNELS_COLUMNS),
        ),
    )


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" ' `{{ 7 * 7 }}` [bold red]"
    "\u2028\u2029\u202egnp.exe\u2066\u200b\ufeff\x00\x07\x1b[31m\x9b31m\ud800"
)
# Names whose characters come out wider than letters do, and such as are read from the right.
EMOJI = "模型/編碼器/\U0001f469\u200d\U0001f680\ufdfd\ufdfd\ufdfd" * 9
RIGHT_TO_LEFT = "שכבה/רכיב/الطبقة الأولى/مقياس" * 3


def _storms() -> tuple[CopyStorm, ...]:
    edges = (
        StormEdge(source="host", target="gpu:0", count=3_600),
        StormEdge(source=MATMUL.op_id, target="gpu:0", count=120),
    )
    return (
        CopyStorm(
            source="host",
            target="gpu:0",
            direction="h2d",
            count=3_720,
            count_per_step=31,
            bytes_each=4.0,
            each_us=1.408,
            total_us=5_237.76,
            carrying_us=0.472,
            edges=edges,
            edges_total=7,
        ),
    )


def _read_backs() -> tuple[ReadBack, ...]:
    loss = ReadBack(
        host=HOST,
        device="/device:GPU:0",
        reader="python",
        certainty="certain",
        source="gpu:0",
        source_name=None,
        consumer_name=None,
        count=240,
        count_per_step=2,
        bytes_each=4,
        total_us=338.4,
        wait_us=96_004.5,
        idle_us=80_110.25,
    )
    finite = replace(
        loss,
        reader="predicate",
        certainty="likely",
        source=CONV.op_id,
        source_name=CONV.name,
        consumer_name="cond/readvariableop_resource/_6",
        count_per_step=None,
        bytes_each=None,
        wait_us=None,
        idle_us=None,
    )
    return loss, finite, replace(finite, reader="unknown", certainty="possible")


def _islands() -> tuple[Island, ...]:
    move = IslandMove(
        to_gpu=(MovedOp(op_id=MATMUL.op_id, name=MATMUL.name, type=MATMUL.type),),
        to_cpu=(MovedOp(op_id=None, name="model/head/Max", type="Max"),),
        saved_bytes=629_145_120,
        stays_bytes=629_145_600,
        saved_us=None,
        stays_us=None,
        unknown_before=1,
        unknown_after=0,
    )
    copies = IslandCopies(count=120, bytes=629_145_600, total_us=52_428.8, exposed_us=10_480.2)
    first = Island(
        host=HOST,
        function="train_step",
        certainty="certain",
        ops=(PY_FUNC, MATMUL),
        ops_total=5,
        unseen=("model/head/Reshape",),
        arriving=copies,
        leaving=replace(copies, total_us=52_011.4),
        move=move,
    )
    unknown = IslandCopies(count=None, bytes=None, total_us=None, exposed_us=None)
    second = replace(
        first,
        certainty="likely",
        ops=(UNIQUE,),
        ops_total=1,
        between=(CAST,),
        arriving=unknown,
        leaving=replace(unknown, count=1),
        move=replace(
            move, saved_bytes=None, stays_bytes=None, saved_us=12.5, stays_us=0.0, unknown_before=0
        ),
    )
    third = replace(
        second,
        function=None,
        move=replace(move, to_cpu=(), saved_bytes=None, stays_bytes=None, unknown_before=3),
    )
    return first, second, third, replace(third, move=None)


@_with_all_ops
def hostile_run() -> Report:
    """The GPU run, each text in it replaced by something that tries to act."""
    run = gpu_run()
    long_name = "n" * 100_000
    op = OpRef(
        op_id=HOSTILE,
        name=HOSTILE,
        type=HOSTILE,
        host=HOSTILE,
        placement="cpu",
        file=HOSTILE,
        source=HOSTILE,
    )
    long_op = replace(op, op_id="long", name=long_name, type=long_name, file=long_name, line=1)
    finding = replace(
        run.findings[0],
        id=HOSTILE,
        cause=HOSTILE,
        title=HOSTILE,
        why=HOSTILE,
        modifiers=(HOSTILE,),
        ops=(op, long_op),
        dragged_along=(op,),
        evidence=(
            Evidence(
                kind=HOSTILE,
                text=HOSTILE,
                where=SourceWhere(file=HOSTILE, line=None, source=HOSTILE),
            ),
            Evidence(kind=HOSTILE, text=long_name, where=SidecarWhere(sidecar=HOSTILE)),
            Evidence(
                kind=HOSTILE,
                text=HOSTILE,
                where=TraceWhere(host=HOSTILE, plane=HOSTILE, line=HOSTILE),
            ),
        ),
        ruled_out=(RuledOut(cause=HOSTILE, because=HOSTILE),),
        fixes=(Fix(text=HOSTILE, code=HOSTILE),),
    )
    graph = CopyGraph(
        nodes=(CopyNode(op_id=HOSTILE, label=HOSTILE, placement=HOSTILE),),
        edges=(
            CopyEdge(
                source=HOSTILE,
                target=long_name,
                direction="h2d",
                bytes=1,
                count=1,
                total_us=1.0,
            ),
        ),
        devices=(
            DeviceCopies(
                source=HOSTILE,
                target=long_name,
                direction="h2d",
                bytes=1,
                count=1,
                total_us=1.0,
            ),
        ),
    )
    groups = CopyGroups(
        sources=(
            CopyGroup(kind="op", label=HOSTILE, ops=1, node=HOSTILE, name=HOSTILE, islands=(1, 9)),
            CopyGroup(kind="scope", label=long_name, ops=9, node="long", name=long_name),
            CopyGroup(kind="type", label=RIGHT_TO_LEFT, ops=2, node="x", name=EMOJI),
        ),
        targets=(
            CopyGroup(kind="memory", label=HOSTILE, ops=1, node=HOSTILE, name=HOSTILE),
            CopyGroup(kind="op", label=EMOJI, ops=1, node="y", name=EMOJI),
        ),
        flows=tuple(
            GroupCopies(
                source=source,
                target=target,
                source_memory=memory,
                target_memory=long_name,
                direction="unknown",
                bytes=size,
                unknown_bytes=1,
                count=10**15,
                total_us=us,
                exposed_us=None,
            )
            for source, target, memory, size, us in (
                (0, 0, HOSTILE, None, 0.0),
                (1, 0, EMOJI, 10**30, 1e300),
                (2, 1, RIGHT_TO_LEFT, 1, None),
            )
        ),
    )
    pipeline = InputPipeline(
        verdict="unknown",
        text=HOSTILE,
        host=HOSTILE,
        cures=(
            InputCure(
                kind=HOSTILE,
                text=HOSTILE,
                code=HOSTILE,
                gain_us_per_step=Gain(low=None, high=None, basis=HOSTILE, note=HOSTILE),
            ),
        ),
        hosts=(replace(_gpu_input().hosts[0], host=HOSTILE, slow_stage=long_name),),
        stages=Table(columns=("stage", HOSTILE), rows=((HOSTILE, long_name),), total_rows=1),
        waits=Table(columns=("step", HOSTILE), rows=((1, HOSTILE),), total_rows=1),
    )
    holder = replace(
        _holder(op, 1), region_type=HOSTILE, data_type=long_name, shape=long_name, op_id=HOSTILE
    )
    edge = StormEdge(source=HOSTILE, target=long_name, count=9)
    storm = replace(_storms()[0], source=HOSTILE, target=HOSTILE, edges=(edge,))
    back = replace(
        _read_backs()[1],
        host=HOSTILE,
        device=HOSTILE,
        source=HOSTILE,
        source_name=HOSTILE,
        consumer_name=long_name,
    )
    moved = MovedOp(op_id=None, name=HOSTILE, type=HOSTILE)
    move = _islands()[0].move
    island = replace(
        _islands()[0],
        host=HOSTILE,
        function=HOSTILE,
        ops=(op,),
        unseen=(HOSTILE,),
        between=(op,),
        move=move and replace(move, to_gpu=(moved,), to_cpu=(replace(moved, op_id=HOSTILE),)),
    )
    trace = made_timeline(
        (
            MadeLane(HOSTILE, HOSTILE, "steps", [Made(0, 9, HOSTILE, "step")]),
            MadeLane(HOSTILE, long_name, "stream", [Made(1, 2, long_name, "compute")], HOSTILE),
            MadeLane(
                HOSTILE,
                HOSTILE,
                "thread",
                [Made(2, 5, HOSTILE, "host_op", HOSTILE, HOSTILE), Made(2, 0, "", "wait")],
            ),
        ),
        [
            IdleGap(
                host=HOSTILE,
                device=HOSTILE,
                start_us=3,
                duration_us=4,
                step=HOSTILE,
                phase=HOSTILE,
                phase_us=1,
                op_id=HOSTILE,
                op=long_name,
                finding_id=HOSTILE,
                before=HOSTILE,
                after=long_name,
            )
        ],
    )
    memory = _gpu_memory()
    peak = memory.allocators[0].peak
    allocator = replace(
        memory.allocators[0],
        host=HOSTILE,
        allocator=HOSTILE,
        device=HOSTILE,
        peak=None
        if peak is None
        else replace(peak, holders=(holder, replace(holder, op=long_name))),
        growth=None,
    )
    return replace(
        run,
        trace=trace,
        run=replace(
            run.run,
            name=HOSTILE,
            path_name=HOSTILE,
            hosts=(HOSTILE, long_name),
            tf_version=TfVersion(value=HOSTILE, source=HOSTILE),
            devices=(DeviceInfo(name=HOSTILE, kind=HOSTILE, model=long_name),),
        ),
        health=(Health(id=HOSTILE, severity="error", message=HOSTILE),),
        summary=replace(run.summary, verdict=HOSTILE),
        findings=(finding,),
        unexplained=Unexplained(
            cpu_op_us=1.0,
            ops=(
                UnexplainedOp(
                    op_id=HOSTILE,
                    name=HOSTILE,
                    type=HOSTILE,
                    host=HOSTILE,
                    placement="cpu",
                    cost=_no_cost(),
                    candidates=(HOSTILE,),
                    settled_by=HOSTILE,
                ),
            ),
        ),
        rules=(RuleStatus(cause=HOSTILE, status="failed", reason=HOSTILE),),
        steps=Steps(source="missing", note=HOSTILE),
        timeline=Timeline(
            devices=tuple(
                DeviceTimeline(
                    host=name, device=name, steps=None, us_per_step=1.0, phases=phases(copy=1.0)
                )
                for name in (HOSTILE, long_name, "/device:GPU:0", "/device:GPU:1")
            ),
        ),
        scopes=Scopes(
            nodes=Table(
                columns=SCOPES_COLUMNS,
                rows=(
                    (None, HOSTILE, "scope", 5.0, 5.0, 1.0, 2),
                    (0, long_name, "op", 5.0, 0.0, 1.0, 1),
                    (0, HOSTILE, "op", 0.0, 5.0, 0.0, 1),
                ),
                total_rows=3,
            )
        ),
        critical_path=(replace(_gpu_path(), host=HOSTILE),),
        copy_graph=replace(graph, storms=(storm,), read_backs=(back,), groups=groups),
        islands=(island,),
        input_pipeline=pipeline,
        memory=replace(memory, remarks=(HOSTILE,), allocators=(allocator,)),
        beliefs=(Belief(id=HOSTILE, question=HOSTILE, answer=HOSTILE),),
        tables=Tables(
            ops=Table(columns=OPS_COLUMNS, rows=(_op_row(op), _op_row(long_op)), total_rows=2),
            copies=Table(columns=(HOSTILE, "bytes"), rows=((HOSTILE, None),), total_rows=1),
            steps=_table(STEPS_COLUMNS),
            kernels=Table(columns=("name", HOSTILE), rows=((long_name, HOSTILE),), total_rows=1),
        ),
    )


EXAMPLES = {
    "gpu": gpu_run,
    "cpu_only": cpu_only_run,
    "empty": empty_run,
    "hostile": hostile_run,
}
