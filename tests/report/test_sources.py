"""Files and lines of the user's program, as a report names and shows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pandas as pd

from traceanalyzer.report.sources import line_text, line_texts, shown_files
from traceanalyzer.sidecar.document import Frame, Sidecar

if TYPE_CHECKING:
    from traceanalyzer.run import Run


def frame(file: str, line: int, text: str | None) -> Frame:
    return Frame(file=file, line=line, code="f", is_user=True, text=text)


def host(name: str, *frames: Frame) -> SimpleNamespace:
    environment = {"cwd": "/srv/ann", "script": "project/train.py"}
    sidecar = Sidecar(tool="0", host=name, complete=True, environment=environment, frames=frames)
    return SimpleNamespace(name=name, sidecar=sidecar)


RUN = cast(
    "Run",
    SimpleNamespace(
        hosts=(
            host("a", frame("/srv/ann/project/train.py", 7, "on a")),
            host("b", frame("/srv/ann/project/train.py", 7, "on b"), frame("/x.py", 1, "x = 1")),
            SimpleNamespace(name="bare", sidecar=None),
        )
    ),
)


def test_files_are_named_as_seen_from_the_program() -> None:
    files = ["/srv/ann/project/train.py", "/srv/ann/tools.py", "/elsewhere/x.py", None]
    assert shown_files(files, RUN) == ["train.py", "tools.py", "/elsewhere/x.py", None]


def test_each_op_has_the_line_of_its_own_host() -> None:
    file = "/srv/ann/project/train.py"
    ops = pd.DataFrame(
        {
            "host": ["a", "b", "bare", "b", "a", "unheard of"],
            "source_file": [file, file, file, file, None, file],
            "source_line": pd.array([7, 7, 7, None, 7, 7], dtype="Int64"),
        }
    )
    assert line_texts(ops, RUN) == ["on a", "on b", None, None, None, None]


def test_a_line_of_evidence_is_the_first_that_any_host_knows() -> None:
    assert line_text("/srv/ann/project/train.py", 7, RUN) == "on a"
    assert line_text("/x.py", 1, RUN) == "x = 1"
    assert line_text("/x.py", 2, RUN) is None
    assert line_text("/x.py", None, RUN) is None
