"""Finds sentences that give TensorFlow a reason which it does not have.

Its placer knows kernels, requests and what must stay together (`core/common_runtime/placer.cc`,
`colocation_graph.cc`): it moves no op because of memory, contention or cost. What a program itself
does when memory is exhausted may be told, of the program.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tests.report.markup import read

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["claims", "claims_of_report", "texts"]

# What TensorFlow does not look at. Host memory is a place, no reason; nor is a buffer's type.
REASON: Final = re.compile(
    r"(?<!host )(?<!host\N{NO-BREAK SPACE})\bmemory\b(?! type)|out of memory|\bOOM\b"
    r"|\bcontention|\bcontend|\bcongest|\bbusy\b|\boverload|\bpressure\b|\bsaturat"
    r"|\bcost\b|\bcosts\b|\bcostly\b|\bcheap|\bexpensive\b|\bfaster\b|\bslower\b|\bheuristic",
    re.IGNORECASE,
)
MOVED: Final = re.compile(
    r"\b(?:moves?|moved|moving|falls? back|fell back|falling back|fallback|places?|placed"
    r"|puts?|offload\w*|spill\w*|evict\w*|chose|chooses?|chosen|decid\w+|prefer\w*|runs?|ran"
    r"|sent|sends|schedul\w+|assign\w*|went|goes|lands?|landed|stays?|keeps?|kept)\b",
    re.IGNORECASE,
)
TO_THE_CPU: Final = re.compile(r"\b(?:cpu|host|processor|there)\b", re.IGNORECASE)
DENIED: Final = re.compile(r"\b(?:no|not|never|none|nothing|neither|nor|cannot)\b", re.IGNORECASE)
BY_THE_PROGRAM: Final = re.compile(r"\bprogram(?: itself)? [a-z]+|\bits author\b", re.IGNORECASE)


def claims(text: str) -> list[str]:
    """Return the sentences that give TensorFlow such a reason."""
    sentences = re.split(r"(?<=[.;!?])\s+|\n\s*\n", text)
    return [
        " ".join(sentence.split())
        for sentence in sentences
        if REASON.search(sentence)
        and MOVED.search(sentence)
        and TO_THE_CPU.search(sentence)
        and not DENIED.search(sentence)
        and not BY_THE_PROGRAM.search(sentence)
    ]


def texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - as JSON holds it
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def claims_of_report(document: str, page: str) -> list[str]:
    """Return those of a report's data, and of its page: paragraph by paragraph."""
    found = [claim for text in texts(json.loads(document)) for claim in claims(text)]
    parts = [part for tag in ("p", "li", "dd", "td", "th", "h3") for part in read(page).all(tag)]
    return found + [claim for part in parts for claim in claims(part.text)]
