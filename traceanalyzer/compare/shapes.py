"""Describes changes in the input shapes of ops, and in batch sizes."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

from traceanalyzer.compare.matching import ComparedOp
from traceanalyzer.format import counted, series
from traceanalyzer.model import Report

Sizes: TypeAlias = tuple[int, int]  # of a dimension, in the base run and in the new run

_MOST_NAMED: Final = 4
_FEWEST_OF_A_BATCH: Final = 3  # ops


class _Change(NamedTuple):
    """A change in the input shapes of an op."""

    sizes: tuple[Sizes, ...]
    is_first: bool  # only first dimensions changed
    before: str
    after: str


def changed_shapes(
    pairs: Sequence[tuple[ComparedOp, ComparedOp]],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a sentence about each change in input shapes, with the names of the affected ops."""
    has_shapes = [any(op.shapes for op in ops) for ops in zip(*pairs, strict=True)]
    if any(has_shapes) and not all(has_shapes):
        run = "base" if has_shapes[0] else "new"
        yield f"Shapes cannot be compared: only those of the {run} run are known", ()
    changes = [(now, found) for was, now in pairs if (found := _change(was, now))]
    factors = {Fraction(b, a or 1) for _, change in changes for a, b in change.sizes}
    is_batch = len(changes) >= _FEWEST_OF_A_BATCH and len(factors) == 1
    if is_batch and all(change.is_first for _, change in changes):
        sizes = dict.fromkeys(each for _, change in changes for each in change.sizes)
        text = f"The first dimension of inputs of {counted(len(changes), 'op')} is {_said(sizes)}"
        names = _names([op for op, _ in changes])
        yield f"{text}, which suggests a different batch size: {series(names, _MOST_NAMED)}", names
        return
    groups: dict[Any, list[tuple[ComparedOp, _Change]]] = defaultdict(list)
    for op, change in changes:
        groups[change.sizes or change[2:]].append((op, change))
    for members in groups.values():
        ops, change = [op for op, _ in members], members[0][1]
        names = _names(ops)
        named = f"{series(names, _MOST_NAMED)} {'has' if len(ops) == 1 else 'have'}"
        at = ops[0].at if len({op.at for op in ops}) == 1 else ""
        text = f"inputs of shapes {change.after} instead of {change.before}"
        if change.sizes:
            text = f"inputs with a dimension of {_said(change.sizes)}"
        yield f"{named} {text}{at}", names


def changed_batches(base: Report, new: Report) -> Iterator[str]:
    """Yield a sentence about each tf.data stage whose batch size changed."""
    before, after = (_batches(report) for report in (base, new))
    for key in before.keys() & after.keys():
        (was, _), (now, source) = before[key], after[key]
        if was != now:
            made = f" at {source}" if source else ""
            yield f"The batch size of the dataset{made} is {now} instead of {was}"


def _batches(report: Report) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the batch size and the line of each stage that makes batches."""
    rows = report.input_pipeline.stages.records() if report.input_pipeline else []
    return {
        (row["pipeline"], row["stage"]): (row["batch_size"], row["source"])
        for row in rows
        if row.get("batch_size")
    }


def _said(sizes: Sequence[Sizes] | dict[Sizes, None]) -> str:
    return series([f"{after} instead of {before}" for before, after in sizes], _MOST_NAMED)


def _names(ops: Sequence[ComparedOp]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op.name for op in ops))


def _change(was: ComparedOp, now: ComparedOp) -> _Change | None:
    """Return how the shapes of two matched ops' inputs differ; None if no difference is known."""
    shapes = list(zip(was.shapes.split(";"), now.shapes.split(";"), strict=False))
    is_known = was.shapes and now.shapes and was.types == now.types
    known = [pair for pair in shapes if is_known and "?" not in pair and pair[0] != pair[1]]
    if not known:
        return None
    sizes: dict[Sizes, None] = {}
    is_first = True
    for before, after in (map(_dimensions, pair) for pair in known):
        if len(before) != len(after):
            return _Change((), is_first=False, before=was.shapes, after=now.shapes)
        changed = [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        is_first = is_first and changed == [0]
        sizes.update({(before[k], after[k]): None for k in changed})
    return _Change(tuple(sizes), is_first, was.shapes, now.shapes)


def _dimensions(shape: str) -> list[int]:
    return [int(size) for size in re.findall(r"-?\d+", shape)]
