"""No report says that TensorFlow moved an op for want of memory, contention or cost: it does not.

A sentence is held to say so where it names TensorFlow or a part of it, the CPU, a word for moving
and a word for such a reason, and denies nothing. That is coarse: a sentence can be worded
otherwise, and nothing is lost.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from tests.report.examples import EXAMPLES
from tests.report.markup import Element, read
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Belief
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.report.page import render_page
from traceanalyzer.rules import all_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.rules import Rule

GOLDEN: Final = sorted((Path(__file__).resolve().parents[2] / "reports").glob("*/report.json"))
WITH_GPUS: Final = (
    "tfgpu-e4040-2023-hd2551",
    "tfgpu-fatma-cnn-sandor",
    "tfgpu-tfprofiler-multiworker",
    "tfmac-chiyo-dogsvscats",
)

_MOVER: Final = r"\b(tensorflow|placer|runtime|grappler|scheduler|executor|it)\b"
_MOVES: Final = (
    r"\b(mov(?:e|es|ed|ing)|puts?|placed?|places|f(?:a|e)lls?|fallen|fallback|prefer\w*|favou?r\w*"
    r"|cho(?:o?se[sn]?|osing)|defer\w*|offload\w*|sen(?:ds?|t)|shift\w*|runs?|ran|executes?)\b"
)
_REASON: Final = (
    r"\b(memory|contention|contended|busy|load|loaded|overloaded|crowded|costs?|costly|cheap\w*"
    r"|transfers?|dear(?:er)?|expensive|faster|speed-?up|float64|exhausted)\b"
)
_THERE: Final = r"\b(cpus?|host)\b"
_DENIES: Final = r"\b(no|not|never|none|nothing|neither|nor|without|cannot|instead of)\b|n't\b"
# Kinds of memory are no lack of it, and an op's own transfer no reason.
_KINDS: Final = re.compile(r"host memory|memory of the host|host's memory|of host memory")


def lies(text: str) -> list[str]:
    """Return the sentences that say such a thing."""
    found = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n\n", text):
        plain = _KINDS.sub("there", " ".join(sentence.lower().split()))
        says = all(re.search(part, plain) for part in (_MOVER, _MOVES, _REASON, _THERE))
        if says and not re.search(_DENIES, plain):
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
    return [lie for text in texts(json.loads(report)) for lie in lies(text)]


def prose(page: Element) -> Iterator[Element]:
    for tag in ("p", "dd", "li"):
        yield from page.all(tag)


@pytest.mark.parametrize(
    "sentence",
    [
        "TensorFlow moved MatMul to the CPU because the GPU's memory was full.",
        "It fell back to the CPU under memory pressure.",
        "The runtime falls back to the CPU when memory is exhausted.",
        "Under contention TensorFlow defers ops to the CPU.",
        "The placer chose the CPU, as the transfer would have cost more than the kernel saves.",
        "TensorFlow favours the CPU for ops that are cheap.",
        "Grappler offloads ops to the host when the GPU is busy.",
        "The op is float64, so TensorFlow runs it on the CPU.",
    ],
)
def test_a_lie_is_known(sentence: str) -> None:
    assert lies(f"All is well. {sentence} So it is.") == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "GPU memory peaked at 97 %. That moved no op to the CPU: TensorFlow raises an error.",
        "TensorFlow would have failed, not moved anything to the CPU for want of memory.",
        "After an error at train.py:4 the program put MatMul on the CPU.",
        "TensorFlow prefers the CPU's kernel.",
    ],
)
def test_the_truth_is_no_lie(sentence: str) -> None:
    assert lies(sentence) == []


def test_a_lie_in_a_document_is_found_wherever_it_stands() -> None:
    report = EXAMPLES["gpu"]()
    lie = "TensorFlow moved it to the CPU for want of memory."
    belief = Belief(id="memory", question="?", answer=lie)

    assert lies_of(dumps(report)) == []
    object.__setattr__(report, "beliefs", (belief,))
    assert lies_of(dumps(report)) == [lie]


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.parent.name)
def test_no_golden_report_lies(file: Path) -> None:
    assert lies_of(file.read_text(encoding="utf-8")) == []
    page = read(file.with_name("report.html").read_text(encoding="utf-8"))
    assert [lie for p in prose(page) for lie in lies(p.text)] == []


def test_there_are_golden_reports() -> None:
    assert len(GOLDEN) >= 5


@needs_corpus
@pytest.mark.parametrize("folder", WITH_GPUS)
def test_no_report_of_a_run_with_gpus_lies(folder: str) -> None:
    report = assemble(diagnose(ta.load(CORPUS / folder)))

    assert report.beliefs or "mac" in folder
    assert lies_of(dumps(report)) == []


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_no_page_lies(name: str) -> None:
    page = read(render_page(EXAMPLES[name]()))

    assert [lie for p in prose(page) for lie in lies(p.text)] == []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_no_rule_lies(rule: Rule) -> None:
    said = [rule.documentation]
    for example in rule.examples:
        said += texts(json.loads(dumps(assemble(diagnose(example.run(), [rule])))))
    for example in rule.blocker_examples:
        if example.fires and rule.words is not None:
            words = rule.words([(example.subject, example.held)])
            said += [words.title, words.why, *(fix.text for fix in words.fixes)]

    assert [lie for text in said for lie in lies(text)] == []
