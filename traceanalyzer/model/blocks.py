"""The typed blocks of a report, shared by the page, the terminal, and Markdown.

A section is a title, a summary, and a list of blocks. Renderers know blocks, but not sections. A
new block needs a class here, a renderer for the page (a template if it can be read without scripts,
otherwise a module of `report/web`), and a case in `report.text_output` for terminal and Markdown.

Figures are numbers with a unit (`Quantity`), so that all renderers round them the same way, and the
page can show them exactly. Names from traces can be malicious, so they are always plain text.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

from traceanalyzer.model._record import Certainty, PackedTable
from traceanalyzer.model.figures import EventTimeline, StepPart

Unit: TypeAlias = Literal["us", "bytes", "share", "count", "bytes_per_s"]
Kind: TypeAlias = Literal["text", "code", "us", "bytes", "share", "count", "bytes_per_s"]
Tone: TypeAlias = Literal["plain", "good", "warning", "bad"]

#: A place on the page that links lead to: `change-<id>`, `finding-<id>`, `op-<op_id>` (opens the
#: op's drawer), `term-<name>` (the glossary), `time-<begin_us>-<end_us>` (a range of the timeline),
#: or the id of a section, tab, or card.
Target: TypeAlias = str


class _Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of blocks: immutable and keyword-only. JSON omits fields with default values."""


# --- text within a line ----------------------------------------------------------------------


class Code(_Struct, tag_field="inline", tag="code", frozen=True, kw_only=True):
    """A name or a piece of code."""

    text: str


class Link(_Struct, tag_field="inline", tag="link", frozen=True, kw_only=True):
    """A link to another place in the report."""

    text: str
    to: Target
    is_code: bool = False  # the text is a name


class Line(_Struct, tag_field="inline", tag="line", frozen=True, kw_only=True):
    """A source line of the user's program or of a library."""

    file: str
    line: int | None = None


class Quantity(_Struct, tag_field="inline", tag="quantity", frozen=True, kw_only=True):
    """A number with a unit, rounded to three digits unless the reader asks for the exact value."""

    value: float
    unit: Unit

    def __post_init__(self) -> None:
        """Reject NaN and infinity. Unknown numbers must be described in words."""
        if not math.isfinite(self.value):
            msg = f"a figure must be finite, not {self.value}"
            raise ValueError(msg)


class Strong(_Struct, tag_field="inline", tag="strong", frozen=True, kw_only=True):
    """Emphasized words."""

    text: str


Inline: TypeAlias = str | Code | Link | Line | Quantity | Strong
Text: TypeAlias = tuple[Inline, ...]


# --- blocks ----------------------------------------------------------------------------------


class Note(_Struct, tag_field="block", tag="note", frozen=True, kw_only=True):
    """A paragraph."""

    text: Text
    tone: Tone = "plain"


class KeyValues(_Struct, tag_field="block", tag="key_values", frozen=True, kw_only=True):
    """A list of named facts, one per line."""

    rows: tuple[tuple[str, Text], ...]
    ids: tuple[Target, ...] = ()  # link target of each row; in the glossary: `term-<name>`


class Bullets(_Struct, tag_field="block", tag="bullets", frozen=True, kw_only=True):
    """A bulleted list, for example of evidence or excluded causes."""

    items: tuple[Text, ...]


class Column(_Struct, frozen=True, kw_only=True):
    """A column of a table."""

    name: str  # in JSON and in queries
    title: str
    kind: Kind = "text"
    term: str = ""  # its entry in the glossary
    opens: Literal["", "op", "source"] = ""  # what a click on a cell opens


Cell: TypeAlias = str | float | Text | None


class Table(_Struct, tag_field="block", tag="table", frozen=True, kw_only=True):
    """A small table. The kind of a column is also the unit of its numbers."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: int  # before the table was cut
    id: str = ""
    caption: Text = ()
    ids: tuple[Target, ...] = ()  # where each row leads; empty if rows lead nowhere


class BigTable(_Struct, tag_field="block", tag="big_table", frozen=True, kw_only=True):
    """A large table with search, filters, and sorting. Its rows are packed (`report.packed`)."""

    id: str
    columns: tuple[Column, ...]
    packed: PackedTable
    key: str = "op_id"  # the column that identifies selected rows


class Source(_Struct, tag_field="block", tag="source", frozen=True, kw_only=True):
    """Lines of a source file, or example code without a file name."""

    file: str  # "" for an example
    first_line: int
    lines: tuple[str, ...]
    marked: tuple[int, ...] = ()  # line numbers
    language: Literal["python", "sh"] = "python"


class Diff(_Struct, tag_field="block", tag="diff", frozen=True, kw_only=True):
    """An edit to a file, shown as one hunk of a unified diff."""

    file: str
    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    is_verified: bool = False  # a replay of the placer shows that the ops move


class PathStep(_Struct, frozen=True, kw_only=True):
    """An op or a group of ops on a data path."""

    label: str
    device: Literal["gpu", "cpu", "unknown"]
    us: float | None = None
    op_id: str | None = None
    bytes_after: float | None = None  # transferred to the next step of the path
    is_marked: bool = False


class DataPath(_Struct, tag_field="block", tag="data_path", frozen=True, kw_only=True):
    """The path of data across devices, such as GPU op, transfer, CPU op, transfer, GPU op."""

    steps: tuple[PathStep, ...]


#: A part of a step; in a bar of ops, where they would be on a machine with a GPU.
BarPart: TypeAlias = StepPart | Literal["on_gpu", "on_cpu", "on_cpu_once", "other"]


class Part(_Struct, frozen=True, kw_only=True):
    """A labelled part of a bar."""

    kind: BarPart
    label: str
    value: float
    to: Target = ""  # link to an example in the timeline


class Bar(_Struct, frozen=True, kw_only=True):
    """A bar whose parts add up to its total."""

    label: str
    total: float
    parts: tuple[Part, ...]
    by_placement: float | None = None  # the part of the total that CPU placement causes


class StepBar(_Struct, tag_field="block", tag="step_bar", frozen=True, kw_only=True):
    """The parts of a step, shown as one bar per device."""

    unit: Unit  # "us", or "count" of ops where no device was used
    bars: tuple[Bar, ...]
    note: Text = ()


class FlowNode(_Struct, frozen=True, kw_only=True):
    """A source or target of transfers, such as an op or a name scope."""

    label: str
    memory: str  # "host", "gpu:0"
    ops: int = 0
    op_id: str | None = None


class Flow(_Struct, frozen=True, kw_only=True):
    """Transfers from one node to another."""

    source: int  # index of a node
    target: int
    bytes: float | None
    count: int
    us: float | None = None
    gpu_wait_us: float | None = None


class Flows(_Struct, tag_field="block", tag="flows", frozen=True, kw_only=True):
    """Transfers between ops, shown as a Sankey diagram and as a table."""

    nodes: tuple[FlowNode, ...]
    flows: tuple[Flow, ...]


class Timeline(_Struct, tag_field="block", tag="timeline", frozen=True, kw_only=True):
    """The timeline of all events, by thread and stream."""

    events: EventTimeline
    #: `from` and `to` are rows of the packed events: a producer and its transfer, a transfer
    #: and its consumer, a launch and its kernel.
    arrows: PackedTable | None = None


class IcicleNode(_Struct, frozen=True, kw_only=True):
    """A node of an icicle chart. Its values include those of all nodes below it."""

    parent: int  # index of an earlier node; -1 for a root
    label: str
    kind: str
    values: tuple[float, ...]  # one per measure
    op_id: str | None = None


class Icicle(_Struct, tag_field="block", tag="icicle", frozen=True, kw_only=True):
    """An icicle chart that shows one measure at a time. A node's width represents its value."""

    measures: tuple[tuple[str, Unit], ...]
    nodes: tuple[IcicleNode, ...]


class Series(_Struct, frozen=True, kw_only=True):
    """One line of a line chart, or one layer of a stacked bar chart."""

    label: str
    values: tuple[float | None, ...]
    kind: BarPart = "other"


class Chart(_Struct, tag_field="block", tag="chart", frozen=True, kw_only=True):
    """A line chart, a step chart, or a stacked bar chart."""

    style: Literal["lines", "bars", "steps"]  # "steps": a value holds until the next
    x_label: str
    x_unit: Unit
    x: tuple[float, ...]
    y_unit: Unit
    series: tuple[Series, ...]
    limit: tuple[str, float] | None = None  # a horizontal line, with its label
    to: tuple[Target, ...] = ()  # where each x leads


class ChangeRow(_Struct, frozen=True, kw_only=True):
    """A row of the table of changes."""

    to: Target  # its card
    title: Text
    detail: Text
    where: Text
    saves: Text
    share: float | None = None  # of the step
    certainty: Certainty | None = None


class Changes(_Struct, tag_field="block", tag="changes", frozen=True, kw_only=True):
    """The table of changes, largest saving first."""

    rows: tuple[ChangeRow, ...]


# --- blocks of blocks ------------------------------------------------------------------------


class Fold(_Struct, tag_field="block", tag="fold", frozen=True, kw_only=True):
    """A summary line that expands to show more blocks."""

    summary: Text
    blocks: tuple[Block, ...]
    id: str = ""
    tone: Tone = "plain"
    is_open: bool = False


class Card(_Struct, tag_field="block", tag="card", frozen=True, kw_only=True):
    """A change with all its details. The first card starts open."""

    id: Target
    title: Text
    where: Text
    saves: Text
    certainty: Certainty | None
    facts: Text  # ops, GPU wait, bytes
    links: tuple[Link, ...]
    blocks: tuple[Block, ...]
    accepts: tuple[str, ...] = ()  # ids of findings that a budget of `check` can accept
    is_open: bool = False


class Tab(_Struct, frozen=True, kw_only=True):
    """A tab: its title and its blocks."""

    id: Target
    title: str
    blocks: tuple[Block, ...]


class Tabs(_Struct, tag_field="block", tag="tabs", frozen=True, kw_only=True):
    """A group of tabs, of which one is shown at a time."""

    tabs: tuple[Tab, ...]


Block: TypeAlias = (
    Note | KeyValues | Bullets | Table | BigTable | Source | Diff | DataPath | StepBar | Flows
    | Timeline | Icicle | Chart | Changes | Fold | Card | Tabs
)  # fmt: skip


class Section(_Struct, frozen=True, kw_only=True):
    """A titled section of the page."""

    id: Target
    title: str
    blocks: tuple[Block, ...]
    summary: Text = ()


PageKind: TypeAlias = Literal["A", "B", "C", "D", "E"]


class Page(_Struct, frozen=True, kw_only=True):
    """The content of a report's page, from top to bottom."""

    #: A: CPU placement costs time. B: placement is fine. C: no GPU used, a bare trace. D: no GPU,
    #: captured: a prediction. E: nothing to explain.
    kind: PageKind
    title: str  # title of the browser's tab
    facts: tuple[str, ...]  # in the title bar: run, host, TensorFlow's version, devices, steps
    links: tuple[Link, ...]  # in the title bar
    happened: Text  # what happened, what it costs, and where
    next: Text  # what to do
    sections: tuple[Section, ...]
    #: The contents of op drawers, by op id; a drawer also shows the row of the table of ops.
    details: dict[str, tuple[Block, ...]] = {}
    left_out: tuple[str, ...] = ()  # omissions from a page that is too large for one file
