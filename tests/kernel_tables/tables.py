"""Reads the tables of all versions, adds or replaces a version, and writes them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import traceanalyzer.placement
from tests.kernel_tables.lines import by_op, definition_line, kernel_lines
from traceanalyzer.placement import kernel_tables
from traceanalyzer.placement.kernel_tables import ALL, Minor, minor_of, text

DATA = Path(traceanalyzer.placement.__path__[0]) / "data"

HEADERS = {
    kernel_tables.KERNELS: (
        "Kernels for CPU, GPU and DEFAULT, of the wheels that versions.txt names."
    ),
    kernel_tables.DEFINITIONS: "Definitions of ops, of the wheels that versions.txt names.",
}
FOOT = """# Written by python -m tests.kernel_tables, which says how to add a version: do not edit.
# The form is described in traceanalyzer/placement/kernel_tables.py."""
EXEMPT_HEADER = f"""# Ops that need not be where the resources are that they take.
{FOOT}
"""
VERSIONS_HEADER = f"""# The versions that there are tables of: release, wheel and its SHA-256.
{FOOT}
"""

# The lines of each op of a version: name of a file -> op -> lines.
Content = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """What a version of TensorFlow has registered: a serialized OpList, a KernelList, the rest."""

    release: str
    ops: bytes
    kernels: bytes
    exempt: tuple[str, ...]


def read_extraction(folder: Path) -> Extraction:
    """Read what `extract` wrote."""
    return Extraction(
        release=(folder / "release.txt").read_text().strip(),
        ops=(folder / "ops.pb").read_bytes(),
        kernels=(folder / "kernels.pb").read_bytes(),
        exempt=tuple((folder / "exempt.txt").read_text().split()),
    )


def content_of(extraction: Extraction) -> Content:
    """Return the lines that an extraction makes."""
    from tensorflow.core.framework import kernel_def_pb2, op_def_pb2  # noqa: PLC0415 - seconds

    ops = op_def_pb2.OpList.FromString(extraction.ops).op
    kernels = by_op(kernel_def_pb2.KernelList.FromString(extraction.kernels).kernel)
    lists = {
        op.name: frozenset(a.name for a in op.attr if a.type.startswith("list(")) for op in ops
    }
    return {
        kernel_tables.DEFINITIONS: {op.name: [definition_line(op)] for op in ops},
        kernel_tables.KERNELS: {
            op: lines for op in kernels if (lines := kernel_lines(kernels[op], lists[op]))
        },
        kernel_tables.COLOCATION_EXEMPT: {op: [""] for op in extraction.exempt},
    }


def stored(version: Minor) -> Content:
    """Return the lines that the tables have for a version."""
    content: Content = {}
    for name in (kernel_tables.DEFINITIONS, kernel_tables.KERNELS):
        paragraphs = kernel_tables.paragraphs(name)
        content[name] = {
            op: lines
            for op in paragraphs
            if (lines := sorted(kernel_tables.lines_of(paragraphs[op], version)))
        }
    exempt = kernel_tables.lines_of(kernel_tables.read(kernel_tables.COLOCATION_EXEMPT), version)
    content[kernel_tables.COLOCATION_EXEMPT] = {op: [""] for op in exempt}
    return content


def add(extraction: Extraction, wheel: str, sha256: str) -> None:
    """Add a version to the tables, or replace it."""
    minor = minor_of(extraction.release)
    there = _versions()
    contents = {version: stored(version) for version in there if version != minor}
    contents[minor] = content_of(extraction)
    there[minor] = f"{text(minor)} {extraction.release} {wheel} {sha256}"
    available = sorted(contents)
    for name, header in HEADERS.items():
        paragraphs = _paragraphs({v: contents[v][name] for v in available}, available)
        body = "\n".join(f"\n{op}\n" + "\n".join(paragraphs[op]) for op in sorted(paragraphs))
        (DATA / name).write_text(f"# {header}\n{FOOT}\n{body}\n", "utf-8")
    exempt = _paragraphs(
        {v: contents[v][kernel_tables.COLOCATION_EXEMPT] for v in available}, available
    )
    (DATA / kernel_tables.COLOCATION_EXEMPT).write_text(
        EXEMPT_HEADER + "".join(f"{exempt[op][0]} {op}\n" for op in sorted(exempt)), "utf-8"
    )
    (DATA / kernel_tables.VERSIONS).write_text(
        VERSIONS_HEADER + "".join(f"{there[v]}\n" for v in available), "utf-8"
    )
    for remembered in (kernel_tables.read, kernel_tables.paragraphs, kernel_tables.tabulated):
        remembered.cache_clear()


def _versions() -> dict[Minor, str]:
    if not (DATA / kernel_tables.VERSIONS).exists():
        return {}
    lines = kernel_tables.words(kernel_tables.read(kernel_tables.VERSIONS))
    return {minor_of(line.split()[0]): line for line in lines}


def _paragraphs(
    contents: Mapping[Minor, Mapping[str, Iterable[str]]], available: list[Minor]
) -> dict[str, list[str]]:
    """Return the lines of each op, with the versions in which they hold."""
    held: dict[str, dict[str, set[Minor]]] = defaultdict(lambda: defaultdict(set))
    for version, ops in contents.items():
        for op, lines in ops.items():
            for line in lines:
                held[op][line].add(version)
    return {
        op: [
            f"{ranges(versions, available)} {line}".rstrip()
            for line, versions in sorted(lines.items(), key=lambda item: (item[0], min(item[1])))
        ]
        for op, lines in held.items()
    }


def ranges(versions: Iterable[Minor], available: Sequence[Minor]) -> str:
    """Write a set of versions as ranges: `*`, `2.14-`, `-2.13`, `2.14`, `-2.12,2.15-2.17`.

    An end is left open where the table of the oldest or newest version has it, so that a new
    version changes only the lines of what changed in it.

    Args:
        versions: The versions, each an available one.
        available: All of which there are tables, oldest first.
    """
    held = {*versions}
    parts: list[str] = []
    start: Minor | None = None
    previous: Minor | None = None
    for version in (*available, None):
        if version is not None and version in held:
            start = start or version
            previous = version
        elif start is not None and previous is not None:
            parts.append(_range(start, previous, available))
            start = previous = None
    return ",".join(parts)


def _range(first: Minor, last: Minor, available: Sequence[Minor]) -> str:
    opens, closes = first == available[0], last == available[-1]
    if opens and closes:
        return ALL
    if first == last and not opens and not closes:
        return text(first)
    return f"{'' if opens else text(first)}-{'' if closes else text(last)}"
