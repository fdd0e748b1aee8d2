"""Finds sentences that say that TensorFlow moved an op for want of memory, contention or cost.

It does no such thing: its placer knows kernels, requests and what must stay together
(`core/common_runtime/placer.cc`, `colocation_graph.cc`). A sentence is held to say so where it
names the CPU, a word for moving and a word for such a reason, denies nothing and does not tell it
of the program. That is coarse: a sentence can be worded otherwise, and nothing is lost.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tests.report.markup import read

__all__ = ["lies", "lies_of", "lies_on", "texts"]

_MOVES: Final = (
    r"\b(mov(?:e|es|ed|ing)|puts?|placed?|places|f(?:a|e)lls?|fallen|fallback|prefer\w*|favou?r\w*"
    r"|cho(?:o?se[sn]?|osing)|defer\w*|offload\w*|sen(?:ds?|t)|shift\w*|runs?|ran|executes?)\b"
)
_REASON: Final = (
    r"\b(memory|contention|contended|busy|load|loaded|overloaded|crowded|costs?|costly|cheap\w*"
    r"|transfers?|dear(?:er)?|expensive|faster|speed-?up|float64|exhausted)\b"
)
_THERE: Final = r"\b(cpus?|host)\b"
# Of a program it may be told: it can catch an error and go on elsewhere.
_BY_THE_PROGRAM: Final = r"\b(?:program|script)(?: itself)? [a-z]+\b"
_DENIES: Final = r"\b(no|not|never|none|nothing|neither|nor|without|cannot|instead of)\b|n't\b"
# Kinds of memory are no lack of it, and an op's own transfer no reason.
_KINDS: Final = re.compile(r"host memory|memory of the host|host's memory|of host memory")


def lies(text: str) -> list[str]:
    """Return the sentences that say such a thing."""
    found = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n\n", text):
        plain = _KINDS.sub("there", " ".join(sentence.lower().split()))
        says = all(re.search(part, plain) for part in (_MOVES, _REASON, _THERE))
        if says and not re.search(f"{_DENIES}|{_BY_THE_PROGRAM}", plain):
            found.append(sentence)
    return found


def texts(plain: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Walk all texts of a document."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict):
        for value in plain.values():
            yield from texts(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from texts(value)


def lies_of(report: str) -> list[str]:
    """Return those of a report's data."""
    return [lie for text in texts(json.loads(report)) for lie in lies(text)]


def lies_on(page: str) -> list[str]:
    """Return those of a report's page, paragraph by paragraph."""
    parsed = read(page)
    parts = [part for tag in ("p", "dd", "li", "th", "td", "h3") for part in parsed.all(tag)]
    return [lie for part in parts for lie in lies(part.text)]
