"""Matches the ops of two runs, even if their names differ."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from traceanalyzer.model import FindingRecord, Report

_LEAST_IN_COMMON: Final = 0.6  # of the ops
_LEAST_OF_PARTS: Final = 0.1  # of the listed ops, if both reports list a part of their ops
_NUMBER: Final = re.compile(r"_\d+(?=/|$)")


@dataclass(frozen=True, eq=False)
class ComparedOp:
    """An op of a run, with the finding that explains its placement, if any."""

    op_id: str
    function: str
    name: str
    type: str
    types: str  # of inputs and outputs; "" if unknown
    shapes: str  # of inputs, such as `[64,64];[]`; "" if unknown
    requested_device: str
    placement: str  # "cpu", "gpu", "unknown", or another device; without a GPU: predicted
    place: tuple[str, int] | None  # file and line
    finding: FindingRecord | None

    @property
    def scope(self) -> str:
        """The name without its last part."""
        return self.name.rpartition("/")[0]

    @property
    def at(self) -> str:
        """The source line as text, such as " at train.py:3"; "" if unknown."""
        return "" if self.place is None else " at {}:{}".format(*self.place)


@dataclass(frozen=True)
class Matching:
    """The ops that two runs share, and the ops that only one of them has."""

    pairs: tuple[tuple[ComparedOp, ComparedOp], ...]
    gone: tuple[ComparedOp, ...]
    new: tuple[ComparedOp, ...]
    share: float  # of the ops of both runs: those with a partner of the same name or line
    cut: tuple[str, ...] = ()  # "base" and "new": reports that list only a part of their ops

    @property
    def is_enough(self) -> bool:
        """Whether the runs have enough in common to compare them."""
        # Of two parts, it is unknown which ops both runs have.
        return self.share >= (_LEAST_OF_PARTS if len(self.cut) > 1 else _LEAST_IN_COMMON)


def ops_of(report: Report) -> tuple[ComparedOp, ...]:
    """Return a report's ops with the role `compute`."""
    there = report.on_a_gpu
    findings = report.findings if there is None else there.findings
    finding_of = {op.op_id: f for f in findings for op in (*f.ops, *f.dragged_along)}
    column, found = "placement" if there is None else "predicted_placement", []
    for row in report.tables.ops.records():
        if row["role"] != "compute":
            continue
        text = {name: str(value or "") for name, value in row.items()}
        types, line = (text["input_types"], text["output_types"]), row["source_line"]
        found.append(
            ComparedOp(
                **{name: text[name] for name in ("op_id", "function", "name", "type")},
                types=" -> ".join(types) if any(types) else "",
                shapes=text.get("input_shapes", ""),
                requested_device=text["requested_device"],
                placement=(text.get(column) or "unknown").split(":", maxsplit=1)[0],
                place=(text["source_file"], int(line)) if row["source_file"] and line else None,
                finding=finding_of.get(text["op_id"]),
            )
        )
    return tuple(found)


def without_numbers(name: str) -> str:
    """Return a name without its numeric suffixes: dense/MatMul for dense_1/MatMul_2."""
    return _NUMBER.sub("", name)


#: From the surest to the loosest: by everything, by names without numbers, by line; and, in runs
#: that share enough ops, by the last part of the name.
_KEYS: Final[Sequence[Callable[[ComparedOp], Hashable]]] = (
    lambda op: (op.function, op.name, op.type, op.types, op.place),
    lambda op: (op.function, op.name, op.type, op.types),
    lambda op: (op.function, without_numbers(op.name), op.type, op.types),
    lambda op: (op.function, without_numbers(op.name), op.type),
    lambda op: (op.place or op.name, op.type, op.types),
)
_LOOSE_KEYS: Final[Sequence[Callable[[ComparedOp], Hashable]]] = (
    lambda op: (op.name.rpartition("/")[2], op.type, op.types),
    lambda op: (without_numbers(op.name), op.type),
)


#: If a report lists a part of its ops, the others of its ops may have these names or lines.
_EXACT_KEYS: Final[Sequence[Callable[[ComparedOp], Hashable]]] = (
    *_KEYS[:2],
    lambda op: (op.function, op.name, op.type),
)


def match(base: Report, new: Report) -> Matching:
    """Match the ops of two runs one to one.

    Of a report that lists a part of its ops, only ops of the same name are matched, and the share
    is that of the shorter list.
    """
    runs = (("base", base), ("new", new))
    cut = tuple(run for run, each in runs if each.tables.ops.total_rows > len(each.tables.ops.rows))
    in_base, in_new = (sorted(ops_of(each), key=_order) for each in (base, new))
    sure = _matched(in_base, in_new, _EXACT_KEYS if cut else _KEYS)
    found, shorter = len(sure.pairs), min(len(in_base), len(in_new))
    if cut:
        return replace(sure, share=found / shorter if shorter else 1.0, cut=cut)
    total = len(in_base) + len(in_new)
    loose = _matched(sure.gone, sure.new, _LOOSE_KEYS)
    share = 2 * found / total if total else 1.0
    return Matching((*sure.pairs, *loose.pairs), loose.gone, loose.new, share)


def _matched(
    base: Sequence[ComparedOp],
    new: Sequence[ComparedOp],
    keys: Sequence[Callable[[ComparedOp], Hashable]],
) -> Matching:
    """Match ops by each key in turn. Ops with equal keys are matched in order."""
    pairs: list[tuple[ComparedOp, ComparedOp]] = []
    for key in keys:
        partners: dict[Hashable, list[ComparedOp]] = defaultdict(list)
        for op in reversed(new):
            partners[key(op)].append(op)
        found = [(op, partners[key(op)].pop()) for op in base if partners[key(op)]]
        pairs += found
        matched = {id(op) for pair in found for op in pair}
        base, new = ([op for op in ops if id(op) not in matched] for ops in (base, new))
    return Matching(tuple(pairs), tuple(base), tuple(new), 0.0)


def _order(op: ComparedOp) -> tuple[Any, ...]:
    """Return a sort key that compares the numbers in names as numbers: a_2 comes before a_10."""
    parts = [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", op.name)]
    return (op.function, parts, op.place or ("", 0))
