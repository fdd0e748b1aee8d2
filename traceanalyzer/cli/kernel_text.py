"""Prints the answers of `kernels`: devices by dtype, and the first version with a GPU kernel."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console

from traceanalyzer.format import series
from traceanalyzer.model import blocks as b
from traceanalyzer.placement.kernel_answers import KernelAnswer
from traceanalyzer.placement.kernel_types import Extent, TypeSupport
from traceanalyzer.placement.registry import supported
from traceanalyzer.report.terminal import Screen
from traceanalyzer.report.text import sentence, table_of

_MOST_ROWS: Final = 100
_SAID: Final[Mapping[Extent, str]] = {"all": "yes", "some": "depends", "none": "no"}


def print_answer(answer: KernelAnswer, console: Console) -> None:
    """Print which kernels an op has."""
    nearest = "" if answer.certainty == "certain" else f" (answered from {answer.table})"
    notes = [b.Note(text=(sentence(note),), tone="warning") for note in answer.notes]
    facts = tuple(_facts(answer))
    blocks: list[b.Block] = [b.Note(text=(sentence(_verdict(answer)),)), *notes]
    if answer.overall.cpu != "none" or answer.overall.gpu != "none":
        blocks.append(_table(answer))
    blocks += [b.KeyValues(rows=facts)] if facts else []
    screen = Screen(console, rows=_MOST_ROWS)
    title = screen(f"{answer.op}, TensorFlow {answer.tf}{nearest}", "bold")
    screen.print((title, *screen.blocks(blocks)))


def _verdict(answer: KernelAnswer) -> str:
    of = f" for {answer.dtype}" if answer.dtype else ""
    if answer.overall.cpu == answer.overall.gpu == "none":
        return "no usable kernel for any device"
    if answer.overall.gpu == "none":
        return "no GPU kernel for any dtype: TensorFlow runs it on the CPU"
    if answer.since is None:
        return f"no GPU kernel{of}: TensorFlow runs it on the CPU"
    said = f"GPU kernel{of}"
    if answer.dtype is None and answer.overall.gpu == "some":
        said += " for some types"
    elif answer.dtype is not None and answer.dtype in answer.depends:
        said += " in some cases"
    if answer.computed_on_host:
        return f"{said}, but with all data in host memory: placed on the GPU, computed on the host"
    on_host = _computed_on_host(answer)
    if answer.dtype is None and on_host:
        said += f"; for {series(on_host)}, the op is still computed on the host"
    return said


def _computed_on_host(answer: KernelAnswer) -> list[str]:
    """Return the dtypes for which the op is placed on a GPU but always computed on the host."""
    every = list(answer.attributes.values())
    named = {dtype for types in every for dtype in types}
    return sorted(d for d in named if all(t[d].on_host == "all" for t in every if d in t))


def _table(answer: KernelAnswer) -> b.Table:
    """Return a table of devices by dtype; dtypes with the same devices share a row."""
    alike: dict[tuple[str, TypeSupport], list[str]] = {}
    for name, types in answer.attributes.items():
        for dtype, support in types.items():
            alike.setdefault((name, support), []).append(dtype)
    rows: list[dict[str, b.Cell]] = [
        {
            "attribute": name if len(answer.attributes) > 1 else None,
            "type": (", ".join(sorted(dtypes)),),
            "cpu": _SAID[support.cpu],
            "gpu": _on_gpu(support),
        }
        for (name, support), dtypes in (alike or {("", answer.overall): ["any"]}).items()
    ]
    return table_of("kernel_types", rows)


def _on_gpu(support: TypeSupport) -> str:
    if support.gpu == "none" or support.on_host == "none":
        return _SAID[support.gpu]
    where = "computed on the host" if support.on_host == "all" else "partly computed on the host"
    return f"{_SAID[support.gpu]}, {where}"


def _facts(answer: KernelAnswer) -> Iterator[tuple[str, b.Text]]:
    if answer.host_memory_args:
        yield "Arguments in host memory", (", ".join(answer.host_memory_args),)
    for why in dict.fromkeys(answer.depends.values()) if answer.dtype is None else ():
        dtypes = sorted(d for d, reason in answer.depends.items() if reason == why)
        yield ", ".join(dtypes), (why,)
    if answer.since is not None:
        since = f"{answer.since} or earlier" if answer.since == supported()[0] else answer.since
        yield "GPU kernel since", (since,)
