"""A page made by hand that uses every block, and the same page with hostile texts."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from tests.report.bad_input import HOSTILE
from tests.report.made_timeline import Made, MadeLane, made_timeline
from traceanalyzer.model import PackedTable
from traceanalyzer.model.blocks import (
    Bar,
    BigTable,
    Bullets,
    Card,
    ChangeRow,
    Changes,
    Chart,
    Code,
    Column,
    DataPath,
    Diff,
    Flow,
    FlowNode,
    Flows,
    Fold,
    Icicle,
    IcicleNode,
    KeyValues,
    Line,
    Link,
    Note,
    Page,
    Part,
    PathStep,
    Quantity,
    Section,
    Series,
    Source,
    StepBar,
    Strong,
    Tab,
    Table,
    Tabs,
    Timeline,
)
from traceanalyzer.report.packed import Numbers, Texts, pack

STEP_US: Final = 30_000.0
#: The op that the drawer's tests select.
LOOKUP: Final = "0000000001"
_TYPES: Final = ("MatMul", "Cast", "AddV2", "Conv2DBackpropFilter", "StridedSlice")
_COLUMNS: Final = (
    Column(name="name", title="Op", kind="code", opens="op"),
    Column(name="type", title="Type"),
    Column(name="placement", title="Placement", term="placement"),
    Column(name="cause", title="Cause"),
    Column(name="certainty", title="Certainty"),
    Column(name="host_us", title="Host time", kind="us", term="host time"),
    Column(name="wait_us", title="GPU wait", kind="us", term="GPU wait"),
    Column(name="runs", title="Runs", kind="count"),
    Column(name="h2d_bytes", title="To device", kind="bytes"),
    Column(name="source", title="Source", kind="code", opens="source"),
    Column(name="requested_device", title="Requested device", kind="code"),
)


def us(value: float) -> Quantity:
    return Quantity(value=value, unit="us")


def size(value: float) -> Quantity:
    return Quantity(value=value, unit="bytes")


def texts(values: list[str | None]) -> Texts:
    known = list(dict.fromkeys(value for value in values if value is not None))
    place = {value: k for k, value in enumerate(known)}
    return Texts(np.array([-1 if v is None else place[v] for v in values], np.int64), known)


def numbers(values: list[float | None], per: float = 1000) -> Numbers:
    return Numbers(np.array([np.nan if v is None else v for v in values], np.float64), per)


def packed_ops(count: int = 194, odd: tuple[str, ...] = ()) -> PackedTable:
    """Ops, the first with odd names."""
    chance = random.Random(7)  # noqa: S311 - made the same each time
    kinds = [chance.choice(_TYPES) for _ in range(count)]
    names = [f"model/block_{k % 12}/Layer_{k % 7}/{kind}_{k}" for k, kind in enumerate(kinds)]
    names[: len(odd)] = odd
    if not odd:
        names[1] = "tower/items/embedding_lookup"
    on_cpu = [k < 17 for k in range(count)]
    return pack(
        {
            "op_id": texts([f"{k:010x}" for k in range(count)]),
            "name": texts([*names]),
            "type": texts([*kinds]),
            "placement": texts(["cpu" if cpu else "gpu:0" for cpu in on_cpu]),
            "cause": texts(["dtype_unsupported" if cpu else "" for cpu in on_cpu]),
            "certainty": texts(["possible" if cpu else "" for cpu in on_cpu]),
            "host_us": numbers([chance.random() * 3000 for _ in kinds]),
            "wait_us": numbers([chance.random() * 900 if cpu else 0.0 for cpu in on_cpu]),
            "runs": numbers([float(chance.randint(1, 12)) for _ in kinds], 1),
            "h2d_bytes": numbers(
                [None if chance.random() < 0.2 else float(chance.randint(0, 10**7)) for _ in kinds],
                1,
            ),
            "source": texts(
                [chance.choice((None, f"train.py:{k % 90 + 1}")) for k in range(count)]
            ),
            "requested_device": texts([None] * count),
        },
        count,
    )


def timeline(per_lane: int = 240, names: tuple[str, ...] = ()) -> Timeline:
    """12 steps on a stream, a copy stream, and two threads, with one arrow pair per step."""
    chance = random.Random(11)  # noqa: S311 - made the same each time
    total = 12 * STEP_US

    def lane(kind: str, words: tuple[str, ...], share: float) -> list[Made]:
        pitch = total / per_lane
        return [
            Made(
                k * pitch + chance.random() * pitch * 0.1,
                pitch * share * (0.3 + 0.7 * chance.random()),
                words[k % len(words)],
                kind,
                f"{(k % 190) + 1:010x}" if kind in {"compute", "host_op"} else None,
            )
            for k in range(per_lane)
        ]

    kernels = names or ("volta_sgemm_128x64_nn", "EigenMetaKernel", "cudnn::bn_fw_tr_1C11")
    lanes = [
        MadeLane(
            "host-a",
            "Steps",
            "steps",
            [Made(k * STEP_US, STEP_US - 1, str(k), "step") for k in range(12)],
        ),
        MadeLane("host-a", "Stream 13", "stream", lane("compute", kernels, 0.6), "GPU:0"),
        MadeLane(
            "host-a", "Stream 14", "copies", lane("copy", ("MemcpyH2D", "MemcpyD2H"), 0.3), "GPU:0"
        ),
        MadeLane(
            "host-a", "python3", "thread", lane("program", ("EagerExecute",), 0.9), is_program=True
        ),
        MadeLane(
            "host-a",
            names[0] if names else "tf_Compute/4121",
            "thread",
            lane("host_op", names or ("ResourceGather", "ExecutorState::Process"), 0.5),
        ),
    ]
    begins = np.cumsum([0, *(len(made.events) for made in lanes)])
    each = np.arange(0, per_lane, max(1, per_lane // 12))
    arrows = pack(
        {
            "from": Numbers(np.concatenate([begins[4] + each, begins[2] + each])),
            "to": Numbers(np.concatenate([begins[2] + each, begins[1] + each])),
        },
        2 * len(each),
    )
    return Timeline(events=made_timeline(lanes), arrows=arrows)


def step_bar() -> StepBar:
    parts = (
        Part(kind="compute", label="compute", value=12_600, to="time-0.000-12600.000"),
        Part(kind="transfer", label="transfers", value=4_200, to="transfers"),
        Part(kind="cpu_op", label="CPU ops", value=5_000, to="time-16800.000-21800.000"),
        Part(kind="input", label="input", value=1_140),
        Part(
            kind="runtime", label="TensorFlow runtime", value=6_000, to="time-22940.000-28940.000"
        ),
        Part(kind="program", label="your program", value=1_060),
    )
    return StepBar(
        unit="us",
        bars=(Bar(label="GPU:0", total=STEP_US, parts=parts, by_placement=9_200),),
        note=("12 steps recorded, median",),
    )


def first_card() -> Card:
    return Card(
        id="change-a3f1",
        title=(
            "Move the embedding ",
            Code(text="tower/items"),
            " and its Adagrad update to the GPU",
        ),
        where=("not in this trace",),
        saves=("up to ", us(9_200), " / step"),
        certainty="possible",
        facts=(
            "17 ops · GPU wait ",
            us(9_200),
            " · ",
            size(24e6),
            " up, ",
            size(24e6),
            " down per step",
        ),
        links=(
            Link(text="timeline", to="time-16800.000-21800.000"),
            Link(text="ops", to="ops"),
        ),
        blocks=(
            Diff(
                file="train.py",
                line=49,
                old=("emb = Embedding(50_000, 128)",),
                new=(
                    'with tf.device("/GPU:0"):',
                    "    emb = Embedding(50_000, 128)",
                    "    emb.build(None)",
                ),
                is_verified=True,
            ),
            Note(
                text=(
                    "Variable ",
                    Code(text="items"),
                    " (",
                    Line(file="train.py", line=49),
                    ") is on the CPU, so the lookup is too.",
                )
            ),
            DataPath(
                steps=(
                    PathStep(label="Cast", device="gpu", bytes_after=128_000),
                    PathStep(
                        label="items/embedding_lookup",
                        device="cpu",
                        us=3_100,
                        op_id=LOOKUP,
                        bytes_after=24e6,
                        is_marked=True,
                    ),
                    PathStep(label="dense … gradients", device="gpu", bytes_after=24e6),
                    PathStep(
                        label="Adagrad/update (16 ops)", device="cpu", us=6_100, is_marked=True
                    ),
                )
            ),
            Table(
                columns=(
                    Column(name="cause", title="Candidate cause"),
                    Column(name="fits", title="Explains"),
                    Column(name="check", title="Check", kind="code"),
                    Column(name="edit", title="If so, change"),
                ),
                rows=(
                    (
                        (Strong(text="The embedding variable is on the CPU"),),
                        "7 of 17 directly, 10 follow",
                        "print(model.items.embeddings.device)",
                        "Create it on the GPU",
                    ),
                    (
                        ("No GPU kernel for ", Code(text="Unique"), " in TF 2.4"),
                        "1 of 17",
                        "traceanalyzer kernels Unique --tf 2.4",
                        "Upgrade TensorFlow",
                    ),
                    (
                        "Your code asks for the CPU",
                        "17 of 17",
                        'grep -n "tf.device" *.py',
                        "Remove the scope",
                    ),
                ),
                total_rows=3,
            ),
            Source(
                file="train.py",
                first_line=47,
                lines=(
                    "def build():",
                    "\tname = 'items'",
                    "\temb = Embedding(50_000, 128)",
                    "\treturn emb",
                ),
                marked=(49,),
            ),
            Fold(
                summary=("Evidence (2)",),
                blocks=(
                    Bullets(
                        items=(
                            (
                                "ResourceGather ran on ",
                                Code(text="/device:CPU:0"),
                                " in all 12 steps.",
                            ),
                            ("The trace has no requested devices.",),
                        )
                    ),
                ),
            ),
            Fold(
                summary=("Blockers",),
                blocks=(
                    KeyValues(
                        rows=(
                            ("variable on the CPU", ("possible",)),
                            ("no GPU kernel", ("ruled out",)),
                        )
                    ),
                ),
            ),
        ),
        is_open=True,
    )


def explore(ops: PackedTable, events: Timeline) -> Tabs:
    gaps = Table(
        id="gaps",
        columns=(
            Column(name="waited_for", title="Waited for"),
            Column(name="op", title="Op", opens="op"),
            Column(name="gaps", title="Gaps", kind="count"),
            Column(name="each_us", title="Each (mean)", kind="us"),
            Column(name="share", title="Share", kind="share"),
            Column(name="rate", title="Rate", kind="bytes_per_s"),
        ),
        rows=(
            (
                "CPU op",
                (Link(text="tower/items/embedding_lookup", to=f"op-{LOOKUP}", is_code=True),),
                36,
                400.25,
                0.153,
                11.2e9,
            ),
            ("kernel launch", None, 12, 17.5, 0.004, None),
        ),
        total_rows=48,
        caption=("Idle time of devices, gaps that waited for the same together.",),
        ids=("time-17000.000-17900.000", "time-60000.000-60020.000"),
    )
    flows = Flows(
        nodes=(
            FlowNode(label="tower/items/embedding_lookup", memory="host", op_id=LOOKUP),
            FlowNode(label="dense/MatMul", memory="gpu:0", ops=3),
            FlowNode(label="Adagrad/update", memory="host", ops=16),
            FlowNode(label="IteratorGetNext", memory="host"),
        ),
        flows=(
            Flow(source=0, target=1, bytes=24e6, count=12, us=2_000, gpu_wait_us=1_500),
            Flow(source=1, target=2, bytes=24e6, count=12, gpu_wait_us=900),
            Flow(source=2, target=1, bytes=3e6, count=12),
            Flow(source=3, target=1, bytes=128_000, count=12),
            Flow(source=1, target=0, bytes=None, count=2),
        ),
    )
    scopes = Icicle(
        measures=(("CPU", "us"), ("GPU", "us"), ("Ops", "count")),
        nodes=(
            IcicleNode(parent=-1, label="model", kind="scope", values=(9_000.0, 12_000.0, 150.0)),
            IcicleNode(parent=0, label="tower", kind="scope", values=(6_000.0, 2_000.0, 40.0)),
            IcicleNode(
                parent=1,
                label="embedding_lookup",
                kind="op",
                values=(3_100.0, 0.0, 1.0),
                op_id=LOOKUP,
            ),
            IcicleNode(parent=0, label="block_1", kind="scope", values=(1_000.0, 10_000.0, 60.0)),
            IcicleNode(parent=-1, label="Adagrad", kind="scope", values=(6_100.0, 700.0, 16.0)),
        ),
    )
    steps = Chart(
        style="bars",
        x_label="Step",
        x_unit="count",
        x=tuple(float(k) for k in range(12)),
        y_unit="us",
        series=(
            Series(
                label="compute", kind="compute", values=tuple(12_600.0 + 90 * k for k in range(12))
            ),
            Series(label="transfers", kind="transfer", values=(4_200.0,) * 12),
            Series(label="CPU ops", kind="cpu_op", values=(*(5_000.0,) * 11, None)),
        ),
        to=tuple(f"time-{k * STEP_US:.3f}-{(k + 1) * STEP_US:.3f}" for k in range(12)),
    )
    memory = Chart(
        style="steps",
        x_label="Time",
        x_unit="us",
        x=tuple(k * 3_000.0 for k in range(120)),
        y_unit="bytes",
        series=(Series(label="GPU_0_bfc", values=tuple(1e9 + 4e8 * (k % 10) for k in range(120))),),
        limit=("pool of 16 GB", 16e9),
    )
    return Tabs(
        tabs=(
            Tab(id="timeline", title="Timeline", blocks=(events, gaps)),
            Tab(
                id="ops",
                title="Ops",
                count=ops.rows,
                blocks=(BigTable(id="ops-table", columns=_COLUMNS, packed=ops),),
            ),
            Tab(id="transfers", title="Transfers", blocks=(flows,)),
            Tab(id="scopes", title="Scopes", blocks=(scopes,)),
            Tab(id="steps", title="Steps and input", blocks=(steps,)),
            Tab(id="memory", title="Memory", blocks=(memory,)),
        )
    )


def example_page(ops: PackedTable | None = None, events: Timeline | None = None) -> Page:
    """Return a page of kind A with every block."""
    ops = ops or packed_ops()
    changes = Changes(
        rows=(
            ChangeRow(
                to="change-a3f1",
                title=(
                    "Move the embedding ",
                    Code(text="tower/items"),
                    " and its Adagrad update to the GPU",
                ),
                detail=(
                    "17 ops, ",
                    size(48e6),
                    " copied per step. Cause unknown; 3 candidates, each with a check",
                ),
                where=("not in this trace",),
                saves=("up to ", us(9_200)),
                share=0.307,
                certainty="possible",
            ),
            ChangeRow(
                to="change-77aa",
                title=("Create ", Code(text="asked"), " as int64"),
                detail=("2 ops",),
                where=(Line(file="program.py", line=49),),
                saves=(us(300), " to ", us(800)),
                share=0.02,
                certainty="certain",
            ),
            ChangeRow(
                to="change-0c0c",
                title=("Find the cause for certain",),
                detail=(
                    Code(text="traceanalyzer capture train.py"),
                    " records dtypes and requested devices",
                ),
                where=("your script",),
                saves=(),
                is_by_placement=False,
            ),
        )
    )
    cards = (
        first_card(),
        Card(
            id="change-77aa",
            title=("Create ", Code(text="asked"), " as int64"),
            where=(Line(file="program.py", line=49),),
            saves=(us(300), " to ", us(800), " / step"),
            certainty="certain",
            facts=("2 ops, GPU wait ", us(600), ", ", size(0)),
            links=(Link(text="timeline", to="time-0.000-100.000"),),
            blocks=(
                Diff(
                    file="program.py",
                    line=49,
                    old=("a = tf.zeros([9], tf.int32)",),
                    new=("a = tf.zeros([9], tf.int64)",),
                ),
                Note(text=("Why: int32 variables cannot live on the GPU.",)),
            ),
        ),
        Card(
            id="change-0c0c",
            title=("Find the cause for certain",),
            where=("your script",),
            saves=(),
            certainty=None,
            facts=(),
            links=(),
            blocks=(Note(text=("Run a capture.",)),),
        ),
    )
    about = (
        Note(text=("Host tracer level 2: cheap CPU ops are missing.",), tone="warning"),
        KeyValues(
            rows=(("Host", ("host-a",)), ("TensorFlow", ("2.4.1",)), ("Devices", ("1 GPU",)))
        ),
        Fold(
            id="glossary",
            summary=("Glossary",),
            blocks=(
                KeyValues(
                    rows=(
                        ("placement", ("The device that TensorFlow chose for an op.",)),
                        ("certainty", ("How well a statement is supported.",)),
                        ("host time", ("How long host threads worked on an op.",)),
                        ("GPU wait", ("Idle time attributed to a CPU op.",)),
                    ),
                    ids=("term-placement", "term-certainty", "term-host-time", "term-GPU-wait"),
                ),
            ),
        ),
    )
    return Page(
        kind="A",
        title="31 % of each step for CPU ops: 2021_03_14_09_26_53",
        facts=("2021_03_14_09_26_53", "host-a", "TF 2.4", "1 GPU", "12 steps"),
        links=(
            Link(text="Changes 3", to="changes"),
            Link(text="Timeline", to="timeline"),
            Link(text="Ops 194", to="ops"),
            Link(text="Transfers", to="transfers"),
            Link(text="Memory", to="memory"),
            Link(text="About the trace ▲1", to="about"),
        ),
        happened=(
            "The GPU waits ",
            us(9_200),
            " of each ",
            us(STEP_US),
            " step (",
            Quantity(value=0.307, unit="share"),
            ") for 17 ops on the CPU, all from one place: the embedding ",
            Code(text="tower/items"),
            " and its Adagrad update.",
        ),
        next=(
            "This trace does not show why. Most likely the embedding's variable is on the CPU; ",
            Link(text="check it in one line", to="change-a3f1"),
            ". If it moves to the GPU, so can the 17 ops.",
        ),
        sections=(
            Section(id="step", title="Where a step goes", blocks=(step_bar(),)),
            Section(id="changes", title="What to change", blocks=(changes,)),
            Section(
                id="folds",
                title="",
                blocks=(
                    Fold(
                        summary=("✓ By design on the CPU: 11 ops, ", us(400)),
                        tone="good",
                        blocks=(Bullets(items=(("RandomShuffle",), ("WriteSummary",))),),
                    ),
                    Fold(
                        summary=("✓ Not the cause: GPU memory (23 % used), copy cost",),
                        blocks=(Note(text=("Memory was free.",), tone="good"),),
                    ),
                    Fold(
                        summary=("Limits of this trace: cheap CPU ops are missing",),
                        tone="warning",
                        blocks=(Note(text=("Level 2.",)),),
                    ),
                ),
            ),
            Section(id="cards", title="", blocks=cards),
            Section(id="explore", title="Explore", blocks=(explore(ops, events or timeline()),)),
            Section(
                id="about", title="About the trace", summary=("Recorded on host-a.",), blocks=about
            ),
        ),
        details={
            LOOKUP: (
                KeyValues(
                    rows=(("Requested device", (Code(text="/GPU:0"),)), ("Outputs", (size(24e6),)))
                ),
                Note(text=("See ", Link(text="change 1", to="change-a3f1"), ".")),
            )
        },
        left_out=(),
    )


MARKDOWN: Final = {"": "# The GPU waits", "change-a3f1": "## Move `tower/items` to the GPU"}

_ODD: Final = (
    HOSTILE,
    '</script><script>alert(1)</script><img src=x onerror="alert(2)">',
    "\u202eevil\u2066 \u200b\x00\x1b[31m",
    "two\nlines\u2028three",
    "n" * 5_000,
    "scope/" * 900,
    "\"quoted' `ticks` & &amp; <b>bold</b>",
    "=1+1",
    "half \udc80 a pair",
)
_KEPT: Final = {
    "to",
    "id",
    "ids",
    "op_id",
    "kind",
    "unit",
    "device",
    "certainty",
    "tone",
    "style",
    "key",
    "data",
    "name",
    "x_unit",
    "y_unit",
    "opens",
    "inline",
    "block",
}


def hostile_page() -> Page:
    """Return the example page with each of its texts exchanged for a hostile one."""
    place = 0

    def exchanged(value: Any, field: str = "") -> Any:  # noqa: ANN401, PLR0911 - by type
        nonlocal place
        if isinstance(value, str):
            if field in _KEPT or not value:
                return value
            place += 1
            return _ODD[place % len(_ODD)]
        if isinstance(value, tuple):
            if field == "measures":
                return tuple((exchanged(name), unit) for name, unit in value)
            return tuple(exchanged(part, field) for part in value)
        if isinstance(value, PackedTable):
            return value
        if isinstance(value, msgspec.Struct):
            changes = {
                name: exchanged(getattr(value, name), name) for name in value.__struct_fields__
            }
            return msgspec.structs.replace(value, **changes)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{f.name: exchanged(getattr(value, f.name), f.name) for f in fields(value)}
            )
        if isinstance(value, dict):
            return {key: exchanged(part) for key, part in value.items()}
        return value

    page: Page = exchanged(example_page(packed_ops(odd=_ODD), timeline(names=_ODD)))
    return page
