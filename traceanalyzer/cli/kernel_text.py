"""The answers about kernels in the terminal: a table of types and devices, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table as Grid
from rich.text import Text

from traceanalyzer.report.text import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType

    from traceanalyzer.kernel_answers import KernelAnswer
    from traceanalyzer.placement.kernel_types import Extent, TypeSupport

_QUIET: Final = "dim"
_SAID: Final[Mapping[Extent, str]] = {"all": "yes", "some": "depends", "none": "no"}


def print_answer(answer: KernelAnswer, console: Console) -> None:
    """Print which kernels an op has."""
    for part in _parts(answer):
        console.print(part)


def _parts(answer: KernelAnswer) -> Iterator[RenderableType]:
    nearest = "" if answer.certainty == "certain" else f" (answered from {answer.table})"
    yield Text(f"{answer.op}, TensorFlow {answer.tf}{nearest}", style="bold")
    yield Text(sentence(_verdict(answer)))
    for note in answer.notes:
        yield Text(sentence(note), style="yellow")
    if answer.overall.cpu != "none" or answer.overall.gpu != "none":
        yield _table(answer)
    yield from _facts(answer)


def _verdict(answer: KernelAnswer) -> str:
    of = f"for {answer.dtype}" if answer.dtype else ""
    if answer.overall.cpu == answer.overall.gpu == "none":
        return "no usable kernel, for any device"
    if answer.overall.gpu == "none":
        return "no GPU kernel, whatever the type: TensorFlow runs it on the CPU"
    has_some = answer.since is not None
    if not has_some:
        return f"no GPU kernel {of}: TensorFlow runs it on the CPU"
    said = f"GPU kernel {of}".strip()
    if answer.dtype is None and answer.overall.gpu == "some":
        said += " for some types"
    elif answer.dtype is not None and answer.dtype in answer.depends:
        said += " in some cases"
    if answer.computed_on_host:
        return f"{said}, but with all data in host memory: placed on the GPU, computed on the host"
    on_host = _computed_on_host(answer)
    if answer.dtype is None and on_host:
        said += f"; for {' and '.join(on_host)} it is still computed on the host"
    return said


def _computed_on_host(answer: KernelAnswer) -> list[str]:
    """Return the types that are placed on a GPU and always computed on the host."""
    every = list(answer.attributes.values())
    named = {d for types in every for d, support in types.items() if support.on_host == "all"}
    return sorted(
        d for d in named if all(types[d].on_host == "all" for types in every if d in types)
    )


def _table(answer: KernelAnswer) -> Grid:
    """Return devices by type, types that are alike in one row."""
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold")
    several = len(answer.attributes) > 1
    if several:
        grid.add_column("Attribute")
    grid.add_column("Type", overflow="fold")
    for device in ("CPU", "GPU"):
        grid.add_column(device)
    rows = [
        (name, ", ".join(dtypes), support)
        for name, types in answer.attributes.items()
        for dtypes, support in _alike(types)
    ] or [("", "any", answer.overall)]
    for name, dtypes, support in rows:
        cells = [dtypes, _SAID[support.cpu], _on_gpu(support)]
        grid.add_row(*map(Text, [name, *cells] if several else cells))
    return grid


def _alike(types: Mapping[str, TypeSupport]) -> Iterator[tuple[Sequence[str], TypeSupport]]:
    groups: dict[TypeSupport, list[str]] = {}
    for dtype, support in types.items():
        groups.setdefault(support, []).append(dtype)
    for support, dtypes in groups.items():
        yield sorted(dtypes), support


def _on_gpu(support: TypeSupport) -> str:
    if support.gpu == "none" or support.on_host == "none":
        return _SAID[support.gpu]
    where = "computed on the host" if support.on_host == "all" else "some computed on the host"
    return f"{_SAID[support.gpu]}, {where}"


def _facts(answer: KernelAnswer) -> Iterator[Text]:
    if answer.host_memory_args:
        yield Text("In host memory on a GPU: ", style=_QUIET) + Text(
            ", ".join(answer.host_memory_args)
        )
    if answer.dtype is None:
        for why in dict.fromkeys(answer.depends.values()):
            dtypes = sorted(d for d, reason in answer.depends.items() if reason == why)
            yield Text(f"{', '.join(dtypes)}: ", style=_QUIET) + Text(why)
    if answer.since is not None:
        since = f"{answer.since} or earlier" if answer.since_first_table else answer.since
        yield Text("GPU kernel since: ", style=_QUIET) + Text(since)
