"""A page made by hand that uses every block."""

from typing import Any, Final

from tests.report.example_explore import LOOKUP, STEP_US, explore, packed_ops, timeline
from traceanalyzer.model import PackedTable
from traceanalyzer.model import blocks as b

_ITEMS: Final = b.Code(text="tower/items")
_MOVE: Final[b.Text] = ("Move the embedding ", _ITEMS, " and its Adagrad update to the GPU")
_ASKED: Final[b.Text] = ("Create ", b.Code(text="asked"), " as int64")
_AT: Final[b.Text] = (b.Line(file="program.py", line=49),)
MARKDOWN: Final = {"": "# The GPU waits", "change-a3f1": "## Move `tower/items` to the GPU"}


def us(value: float) -> b.Quantity:
    return b.Quantity(value=value, unit="us")


def size(value: float) -> b.Quantity:
    return b.Quantity(value=value, unit="bytes")


def note(*text: b.Inline, tone: b.Tone = "plain") -> b.Note:
    return b.Note(text=text, tone=tone)


def fold(summary: b.Text, *blocks: b.Block, **more: Any) -> b.Fold:  # noqa: ANN401
    return b.Fold(summary=summary, blocks=blocks, **more)


def step_bar() -> b.StepBar:
    parts = (
        ("compute", "compute", 12_600, "time-0.000-12600.000"),
        ("transfer", "transfers", 4_200, "transfers"),
        ("cpu_op", "CPU ops", 5_000, "time-16800.000-21800.000"),
        ("input", "input", 1_140, ""),
        ("runtime", "TensorFlow runtime", 6_000, "time-22940.000-28940.000"),
        ("program", "your program", 1_060, ""),
    )
    made = tuple(b.Part(kind=k, label=label, value=v, to=to) for k, label, v, to in parts)  # type: ignore[arg-type]
    bar = b.Bar(label="GPU:0", total=STEP_US, parts=made, by_placement=9_200)
    return b.StepBar(unit="us", bars=(bar,), note=("12 steps recorded, median",))


def candidates() -> b.Table:
    titles = ("Candidate cause", "Explains", "Check", "If so, change")
    names = ("cause", "fits", "check", "edit")
    rows: tuple[tuple[b.Cell, ...], ...] = (
        (
            (b.Strong(text="The embedding variable is on the CPU"),),
            "7 of 17 directly, 10 follow",
            "print(model.items.embeddings.device)",
            "Create it on the GPU",
        ),
        (
            ("No GPU kernel for ", b.Code(text="Unique"), " in TF 2.4"),
            "1 of 17",
            "traceanalyzer kernels Unique --tf 2.4",
            "Upgrade TensorFlow",
        ),
        ("Your code asks for the CPU", "17 of 17", 'grep -n "tf.device" *.py', "Remove the scope"),
    )
    columns = tuple(
        b.Column(name=name, title=title, kind="code" if name == "check" else "text")
        for name, title in zip(names, titles, strict=True)
    )
    return b.Table(columns=columns, rows=rows, total_rows=3)


def data_path() -> b.DataPath:
    def step(label: str, device: Any, **more: Any) -> b.PathStep:  # noqa: ANN401
        return b.PathStep(label=label, device=device, is_marked=device == "cpu", **more)

    return b.DataPath(
        steps=(
            step("Cast", "gpu", bytes_after=128_000),
            step("items/embedding_lookup", "cpu", us=3_100, op_id=LOOKUP, bytes_after=24e6),
            step("dense … gradients", "gpu", bytes_after=24e6),
            step("Adagrad/update (16 ops)", "cpu", us=6_100),
        )
    )


def first_card() -> b.Card:
    new = ('with tf.device("/GPU:0"):', "    emb = Embedding(50_000, 128)", "    emb.build(None)")
    code = ("def build():", "\tname = 'items'", "\temb = Embedding(50_000, 128)", "\treturn emb")
    ran = ("ResourceGather ran on ", b.Code(text="/device:CPU:0"), " in all 12 steps.")
    blockers = (("variable on the CPU", ("possible",)), ("no GPU kernel", ("ruled out",)))
    at = b.Line(file="train.py", line=49)
    up_and_down = (" · ", size(24e6), " up, ", size(24e6), " down per step")
    return b.Card(
        id="change-a3f1",
        title=_MOVE,
        where=("not in this trace",),
        saves=("up to ", us(9_200), " / step"),
        certainty="possible",
        facts=("17 ops · GPU wait ", us(9_200), *up_and_down),
        links=(
            b.Link(text="timeline", to="time-16800.000-21800.000"),
            b.Link(text="ops", to="ops"),
        ),
        blocks=(
            b.Diff(file="train.py", line=49, old=(code[2].strip(),), new=new, is_verified=True),
            note("Variable ", b.Code(text="items"), " (", at, ") is on the CPU, so the lookup is."),
            data_path(),
            candidates(),
            b.Source(file="train.py", first_line=47, lines=code, marked=(49,)),
            fold(
                ("Evidence (2)",),
                b.Bullets(items=(ran, ("The trace has no requested devices.",))),
            ),
            fold(("Blockers",), b.KeyValues(rows=blockers)),
        ),
        is_open=True,
    )


def other_cards() -> tuple[b.Card, ...]:
    old, new = "a = tf.zeros([9], tf.int32)", "a = tf.zeros([9], tf.int64)"
    return (
        b.Card(
            id="change-77aa",
            title=_ASKED,
            where=_AT,
            saves=(us(300), " to ", us(800), " / step"),
            certainty="certain",
            facts=("2 ops, GPU wait ", us(600), ", ", size(0)),
            links=(b.Link(text="timeline", to="time-0.000-100.000"),),
            blocks=(
                b.Diff(file="program.py", line=49, old=(old,), new=(new,)),
                note("Why: int32 variables cannot live on the GPU."),
            ),
        ),
        b.Card(
            id="change-0c0c",
            title=("Find the cause for certain",),
            where=("your script",),
            saves=(),
            certainty=None,
            facts=(),
            links=(),
            blocks=(note("Run a capture."),),
        ),
    )


def changes() -> b.Changes:
    command = b.Code(text="traceanalyzer capture train.py")
    copied = (" copied per step. Cause unknown; 3 candidates, each with a check",)
    return b.Changes(
        rows=(
            b.ChangeRow(
                to="change-a3f1",
                title=_MOVE,
                detail=("17 ops, ", size(48e6), *copied),
                where=("not in this trace",),
                saves=("up to ", us(9_200)),
                share=0.307,
                certainty="possible",
            ),
            b.ChangeRow(
                to="change-77aa",
                title=_ASKED,
                detail=("2 ops",),
                where=_AT,
                saves=(us(300), " to ", us(800)),
                share=0.02,
                certainty="certain",
            ),
            b.ChangeRow(
                to="change-0c0c",
                title=("Find the cause for certain",),
                detail=(command, " records dtypes and requested devices"),
                where=("your script",),
                saves=("unknown",),
            ),
        )
    )


def folds() -> tuple[b.Fold, ...]:
    by_design = b.Bullets(items=(("RandomShuffle",), ("WriteSummary",)))
    not_the_cause = ("✓ Not the cause: GPU memory (23 % used), copy cost",)
    limits = ("Limits of this trace: cheap CPU ops are missing",)
    return (
        fold(("✓ By design on the CPU: 11 ops, ", us(400)), by_design, tone="good"),
        fold(not_the_cause, note("Memory was free.", tone="good")),
        fold(limits, note("Level 2."), tone="warning"),
    )


def about() -> tuple[b.Block, ...]:
    terms = {
        "placement": "The device that TensorFlow chose for an op.",
        "certainty": "How well a statement is supported.",
        "host time": "How long host threads worked on an op.",
        "GPU wait": "Idle time attributed to a CPU op.",
    }
    glossary = b.KeyValues(
        rows=tuple((name, (meaning,)) for name, meaning in terms.items()),
        ids=tuple(f"term-{name.replace(' ', '-')}" for name in terms),
    )
    facts = (("Host", ("host-a",)), ("TensorFlow", ("2.4.1",)), ("Devices", ("1 GPU",)))
    return (
        note("Host tracer level 2: cheap CPU ops are missing.", tone="warning"),
        b.KeyValues(rows=facts),
        fold(("Glossary",), glossary, id="glossary"),
    )


def example_page(ops: PackedTable | None = None, events: b.Timeline | None = None) -> b.Page:
    """Return a page of kind A with every block."""
    ops = ops or packed_ops()
    links = {
        "changes": "Changes 3",
        "timeline": "Timeline",
        "ops": "Ops",
        "transfers": "Transfers",
        "memory": "Memory",
        "about": "About the trace ▲1",
    }
    recorded = ("Recorded on host-a.",)
    return b.Page(
        kind="A",
        title="31 % of each step for CPU ops: 2021_03_14_09_26_53",
        facts=("2021_03_14_09_26_53", "host-a", "TF 2.4", "1 GPU", "12 steps"),
        links=tuple(b.Link(text=text, to=to) for to, text in links.items()),
        happened=(
            "The GPU waits ",
            us(9_200),
            " of each ",
            us(STEP_US),
            " step (",
            b.Quantity(value=0.307, unit="share"),
            ") for 17 ops on the CPU, all from one place: the embedding ",
            _ITEMS,
            " and its Adagrad update.",
        ),
        next=(
            "This trace does not show why. Most likely the embedding's variable is on the CPU; ",
            b.Link(text="check it in one line", to="change-a3f1"),
            ". If it moves to the GPU, so can the 17 ops.",
        ),
        sections=(
            b.Section(id="step", title="Where a step goes", blocks=(step_bar(),)),
            b.Section(id="changes", title="What to change", blocks=(changes(),)),
            b.Section(id="folds", title="", blocks=folds()),
            b.Section(id="cards", title="", blocks=(first_card(), *other_cards())),
            b.Section(id="explore", title="Explore", blocks=(explore(ops, events or timeline()),)),
            b.Section(id="about", title="About the trace", summary=recorded, blocks=about()),
        ),
        details={
            LOOKUP: (
                b.KeyValues(
                    rows=(
                        ("Requested device", (b.Code(text="/GPU:0"),)),
                        ("Outputs", (size(24e6),)),
                    )
                ),
                note("See ", b.Link(text="change 1", to="change-a3f1"), "."),
            )
        },
    )
