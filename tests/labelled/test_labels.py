"""The labels of the programs: well formed, of every cause, and borne out by TensorFlow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.labelled import HELD_OUT, PROGRAMS, Cause, Label, LabelledProgram
from tests.labelled.scoring import problems
from traceanalyzer.rules import all_rules

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ALL = (*PROGRAMS, *HELD_OUT)
_FAST = {"word_scores"}
_NOT_LABELLED = {
    "host_memory_kernel",  # placed on the GPU, so no label of an op on the CPU
    "inside_dataset",  # tests/twin/programs/dataset_reduce.py and loop_over_dataset.py
    "xla_not_whole",  # of an error first; tests/rules/test_xla_not_whole.py has programs of its own
}

each_program = pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=[] if p.name in _FAST else pytest.mark.slow, id=p.name) for p in _ALL],
)


def _cause(text: str) -> Cause:
    return Cause(text, text)


class TestReading:
    def test_comments_are_of_their_line_or_of_the_next_one_with_code(self, tmp_path: Path) -> None:
        path = tmp_path / "program.py"
        path.write_text(
            '"""A program."""\n'
            "# run: gpus=2 clean TF_SOMETHING=1\n"
            "a = 1  # cpu: Add, Sub = no_gpu_kernel; * = host_pipeline!\n"
            "# cpu: MatMul = dtype_unsupported + explicit_cpu_placement(scope)\n"
            "# another comment\n"
            "\n"
            "b = f(\n"
            "    2,\n"
            ")\n"
        )
        program = LabelledProgram(path)
        stacked = {_cause("dtype_unsupported"), Cause("explicit_cpu_placement", "scope")}
        assert program.labels == (
            Label(3, "Add", frozenset({_cause("no_gpu_kernel")})),
            Label(3, "Sub", frozenset({_cause("no_gpu_kernel")})),
            Label(3, "*", frozenset({Cause("host_pipeline", "")})),
            Label(7, "MatMul", frozenset(stacked)),
        )
        assert program.emulated_gpus == 2
        assert program.is_clean
        assert program.environment == {"TF_SOMETHING": "1"}

    @pytest.mark.parametrize("text", ["MatMul", "= no_gpu_kernel", "MatMul = No Kernel"])
    def test_what_is_no_label_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "program.py"
        path.write_text(f"a = 1  # cpu: {text}\n")
        with pytest.raises(ValueError, match="line 1: not a label"):
            _ = LabelledProgram(path).labels


def _causes(programs: Iterable[LabelledProgram]) -> Counter[str]:
    """Count in how many programs each cause is named."""
    return Counter(c for p in programs for c in {i for label in p.labels for i in label.ids})


def test_there_are_enough_of_every_kind() -> None:
    causes = _causes(_ALL)
    known = {rule.id for rule in all_rules()}
    assert causes.keys() <= known
    assert {cause for cause in known - _NOT_LABELLED if causes[cause] < 2} == set()
    assert len(_ALL) >= 60
    assert len(HELD_OUT) >= 20
    assert sum(any(len(label.ids) > 1 for label in p.labels) for p in _ALL) >= 10
    assert sum(p.is_clean for p in _ALL) >= 10
    assert len({p.name for p in _ALL}) == len(_ALL)


@each_program
def test_tensorflow_bears_the_labels_out(program: LabelledProgram) -> None:
    assert problems(program) == []
