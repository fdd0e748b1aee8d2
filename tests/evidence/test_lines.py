"""Lines of a program in titles and as evidence."""

from __future__ import annotations

from traceanalyzer.evidence.examples import subject
from traceanalyzer.evidence.places import at_lines, made_at
from traceanalyzer.model import SourceWhere


def test_a_line_is_told_by_its_file_and_number() -> None:
    assert at_lines([subject("MatMul", file="/srv/me/train.py")]) == " at train.py:7"
    assert at_lines([subject("MatMul", file="C:\\me\\train.py", line=9)]) == " at train.py:9"


def test_more_lines_are_counted_once_each() -> None:
    lines = [subject("MatMul", line=n) for n in (7, 8, 8)]

    assert at_lines(lines) == " at train.py:7 and 1 more line"


def test_of_no_line_nothing_is_said() -> None:
    unknown = subject("MatMul", file=None, line=None)

    assert at_lines([unknown]) == ""
    assert at_lines([]) == ""
    assert made_at(unknown) == ()


def test_the_evidence_has_the_whole_path() -> None:
    (evidence,) = made_at(subject("MatMul", file="/srv/me/train.py"))

    assert evidence.where == SourceWhere(file="/srv/me/train.py", line=7)
    assert "MatMul" in evidence.text
