"""The section Explore of the example page: ops, events, and pictures."""

import random
from typing import Final

import numpy as np

from tests.report.made_timeline import Made, MadeLane, made_timeline
from traceanalyzer.model import PackedTable
from traceanalyzer.model import blocks as b
from traceanalyzer.report.packed import Numbers, Texts, pack

STEP_US: Final = 30_000.0
#: The op that the drawer's tests select.
LOOKUP: Final = "0000000001"
_TYPES: Final = ("MatMul", "Cast", "AddV2", "Conv2DBackpropFilter", "StridedSlice")
_COLUMNS: Final = (
    b.Column(name="name", title="Op", kind="code", opens="op"),
    b.Column(name="type", title="Type"),
    b.Column(name="placement", title="Placement", term="placement"),
    b.Column(name="cause", title="Cause"),
    b.Column(name="certainty", title="Certainty"),
    b.Column(name="host_us", title="Host time", kind="us", term="host time"),
    b.Column(name="wait_us", title="GPU wait", kind="us", term="GPU wait"),
    b.Column(name="runs", title="Runs", kind="count"),
    b.Column(name="h2d_bytes", title="To device", kind="bytes"),
    b.Column(name="source", title="Source", kind="code", opens="source"),
    b.Column(name="requested_device", title="Requested device", kind="code"),
)


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


def timeline(per_lane: int = 240, names: tuple[str, ...] = ()) -> b.Timeline:
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
    return b.Timeline(events=made_timeline(lanes), arrows=arrows)


def explore(ops: PackedTable, events: b.Timeline) -> b.Tabs:
    gaps = b.Table(
        id="gaps",
        columns=(
            b.Column(name="waited_for", title="Waited for"),
            b.Column(name="op", title="Op", opens="op"),
            b.Column(name="gaps", title="Gaps", kind="count"),
            b.Column(name="each_us", title="Each (mean)", kind="us"),
            b.Column(name="share", title="Share", kind="share"),
            b.Column(name="rate", title="Rate", kind="bytes_per_s"),
        ),
        rows=(
            (
                "CPU op",
                (b.Link(text="tower/items/embedding_lookup", to=f"op-{LOOKUP}", is_code=True),),
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
    nodes = (
        ("tower/items/embedding_lookup", "host", 1, LOOKUP),
        ("dense/MatMul", "gpu:0", 3, None),
        ("Adagrad/update", "host", 16, None),
        ("IteratorGetNext", "host", 1, None),
    )
    flows = b.Flows(
        nodes=tuple(b.FlowNode(label=n, memory=m, ops=k, op_id=i) for n, m, k, i in nodes),
        flows=(
            b.Flow(source=0, target=1, bytes=24e6, count=12, us=2_000, gpu_wait_us=1_500),
            b.Flow(source=1, target=2, bytes=24e6, count=12, gpu_wait_us=900),
            b.Flow(source=2, target=1, bytes=3e6, count=12),
            b.Flow(source=3, target=1, bytes=128_000, count=12),
            b.Flow(source=1, target=0, bytes=None, count=2),
        ),
    )
    tree = (
        (-1, "model", "scope", (9_000.0, 12_000.0, 150.0), None),
        (0, "tower", "scope", (6_000.0, 2_000.0, 40.0), None),
        (1, "embedding_lookup", "op", (3_100.0, 0.0, 1.0), LOOKUP),
        (0, "block_1", "scope", (1_000.0, 10_000.0, 60.0), None),
        (-1, "Adagrad", "scope", (6_100.0, 700.0, 16.0), None),
    )
    scopes = b.Icicle(
        measures=(("CPU", "us"), ("GPU", "us"), ("Ops", "count")),
        nodes=tuple(
            b.IcicleNode(parent=parent, label=label, kind=kind, values=values, op_id=op_id)
            for parent, label, kind, values, op_id in tree
        ),
    )
    steps = b.Chart(
        style="bars",
        x_label="Step",
        x_unit="count",
        x=tuple(float(k) for k in range(12)),
        y_unit="us",
        series=(
            b.Series(
                label="compute", kind="compute", values=tuple(12_600.0 + 90 * k for k in range(12))
            ),
            b.Series(label="transfers", kind="transfer", values=(4_200.0,) * 12),
            b.Series(label="CPU ops", kind="cpu_op", values=(*(5_000.0,) * 11, None)),
        ),
        to=tuple(f"time-{k * STEP_US:.3f}-{(k + 1) * STEP_US:.3f}" for k in range(12)),
    )
    memory = b.Chart(
        style="steps",
        x_label="Time",
        x_unit="us",
        x=tuple(k * 3_000.0 for k in range(120)),
        y_unit="bytes",
        series=(
            b.Series(label="GPU_0_bfc", values=tuple(1e9 + 4e8 * (k % 10) for k in range(120))),
        ),
        limit=("pool of 16 GB", 16e9),
    )
    tabs: dict[str, tuple[b.Block, ...]] = {
        "Timeline": (events, gaps),
        "Ops": (b.BigTable(id="ops-table", columns=_COLUMNS, packed=ops),),
        "Transfers": (flows,),
        "Scopes": (scopes,),
        "Steps and input": (steps,),
        "Memory": (memory,),
    }
    return b.Tabs(
        tabs=tuple(
            b.Tab(id=title.partition(" ")[0].lower(), title=title, blocks=blocks)
            for title, blocks in tabs.items()
        )
    )
