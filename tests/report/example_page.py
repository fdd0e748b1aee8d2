"""A page made by hand that uses every block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.report.example_explore import LOOKUP, STEP_US, explore, packed_ops, timeline
from traceanalyzer.model.blocks import (
    Bar,
    Bullets,
    Card,
    ChangeRow,
    Changes,
    Code,
    Column,
    DataPath,
    Diff,
    Fold,
    KeyValues,
    Line,
    Link,
    Note,
    Page,
    Part,
    PathStep,
    Quantity,
    Section,
    Source,
    StepBar,
    Strong,
    Table,
)

if TYPE_CHECKING:
    from traceanalyzer.model import PackedTable
    from traceanalyzer.model.blocks import Timeline


def us(value: float) -> Quantity:
    return Quantity(value=value, unit="us")


def size(value: float) -> Quantity:
    return Quantity(value=value, unit="bytes")


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
