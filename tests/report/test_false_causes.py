"""No report says that TensorFlow moved an op for want of memory, contention or cost: it does not.

`tests.test_corpus_reports` asks the same of the report on every old trace.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from tests.report.examples import EXAMPLES
from tests.report.false_causes import lies, lies_of, lies_on, texts
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Belief
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.report.page import render_page
from traceanalyzer.rules import all_rules

if TYPE_CHECKING:
    from traceanalyzer.rules import Rule

GOLDEN: Final = sorted((Path(__file__).resolve().parents[2] / "reports").glob("*/report.json"))
WITH_GPUS: Final = (
    "tfgpu-e4040-2023-hd2551",
    "tfgpu-fatma-cnn-sandor",
    "tfgpu-tfprofiler-multiworker",
    "tfmac-chiyo-dogsvscats",
)


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
        "MatMul fell back to the CPU due to memory pressure.",
        "The program's MatMul ran on the CPU, as memory was short.",
        "It went well, but ops were placed on the CPU since that is cheaper.",
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
        "The program itself went on with it on the CPU when the GPU's memory was exhausted.",
        "The op is placed on the GPU and computed in host memory, as the CPU would.",
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
    assert lies_on(file.with_name("report.html").read_text(encoding="utf-8")) == []


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
    assert lies_on(render_page(EXAMPLES[name]())) == []


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
