"""The picture of an input pipeline: its stages as the tree they are, and what each works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.model import Cell
    from traceanalyzer.model.resources import InputPipeline

PIPELINES_SHOWN: Final = 4
STAGES_SHOWN: Final = 40
_BETWEEN: Final = "::"  # the parts of a stage's path
_DEEPEST: Final = 12  # levels of indentation; deeper stages get the deepest


@dataclass(frozen=True)
class Stage:
    """A stage."""

    path: str  # unique
    type: str
    name: str | None  # given by the author
    depth: int  # how many stages take its elements before the program does
    work_us: float | None  # of its function, or its own; None if unknown, as when it prefetches
    share: float  # of the work of the stage that works longest
    slow_us: float | None  # work per step, if it bounds the rate
    elements: int | None
    parallelism: int | None  # calls of its function that may run at once
    file: str | None  # `file:line` where it was made


@dataclass(frozen=True)
class StagePipeline:
    """The stages of one pipeline, each before those it takes elements of."""

    host: str
    number: int
    stages: tuple[Stage, ...]
    total: int


def stage_pipelines(pipeline: InputPipeline) -> list[StagePipeline]:
    """Return the pipelines, those with the stage that bounds the rate first."""
    slow = {
        (host.host, host.slow_stage): host.slow_us or 0.0
        for host in pipeline.hosts
        if host.slow_stage is not None
    }
    groups: dict[tuple[str, int], list[Mapping[str, Cell]]] = {}
    for row in pipeline.stages.records():
        key = (str(row.get("host")), int(_number(row.get("pipeline")) or 0))
        groups.setdefault(key, []).append(row)
    made = [_made(*key, rows, slow) for key, rows in groups.items()]
    made.sort(key=_weight, reverse=True)
    return made[:PIPELINES_SHOWN]


def _weight(found: StagePipeline) -> tuple[bool, float]:
    is_slow = any(stage.slow_us is not None for stage in found.stages)
    return is_slow, sum(stage.work_us or 0.0 for stage in found.stages)


def _made(
    host: str,
    number: int,
    rows: Sequence[Mapping[str, Cell]],
    slow: Mapping[tuple[str, str], float],
) -> StagePipeline:
    shown = sorted(rows, key=_parts)[:STAGES_SHOWN]
    longest = max((_work(row) or 0.0 for row in shown), default=0.0)
    return StagePipeline(host, number, tuple(_stages(shown, host, longest, slow)), len(rows))


def _stages(
    rows: Sequence[Mapping[str, Cell]],
    host: str,
    longest: float,
    slow: Mapping[tuple[str, str], float],
) -> Iterator[Stage]:
    for row in rows:
        path, work = str(row.get("stage")), _work(row)
        yield Stage(
            path=path,
            type=str(row.get("type") or path),
            name=_text(row.get("name")),
            depth=min(len(_parts(row)) - 1, _DEEPEST),
            work_us=work,
            share=(work or 0.0) / longest if longest else 0.0,
            slow_us=slow.get((host, path)),
            elements=_whole(row.get("elements")),
            parallelism=_whole(row.get("parallelism")),
            file=_text(row.get("function")) or _text(row.get("source")),
        )


def _parts(row: Mapping[str, Cell]) -> tuple[str, ...]:
    return tuple(str(row.get("stage")).split(_BETWEEN))


def _work(row: Mapping[str, Cell]) -> float | None:
    call = _number(row.get("call_us"))
    if call or row.get("is_async"):
        return call or None
    return _number(row.get("self_us"))


def _number(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None


def _whole(cell: Cell) -> int | None:
    return int(cell) if isinstance(cell, int | float) else None


def _text(cell: Cell) -> str | None:
    return cell if isinstance(cell, str) and cell else None
