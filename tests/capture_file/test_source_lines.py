"""The text of the program's lines: which are read, which are not, and what is told of it."""

import linecache
import os
import time
from pathlib import Path

import pytest

from traceanalyzer.capture_file import source_lines
from traceanalyzer.capture_file.document import Frame
from traceanalyzer.capture_file.source_lines import SourceLines

LATER_S = time.time() + 10_000


def frame(file: Path | str, line: int = 1, *, is_user: bool = True) -> Frame:
    return Frame(file=str(file), line=line, code="step", is_user=is_user)


def texts(*frames: Frame, since_s: float = LATER_S, here: bool = False) -> list[str | None]:
    reader = SourceLines(since_s, of_this_process=here)
    return [found.text for found in reader.add(frames)[0]]


def notes(*frames: Frame, since_s: float = LATER_S) -> dict[str, str]:
    return {note.id: note.message for note in SourceLines(since_s).add(frames)[2]}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text("import tf\n\n    x = tf.cos(y)  \n")
    return file


def test_only_what_stands_on_the_named_line_is_kept(program: Path) -> None:
    assert texts(frame(program, 3), frame(program, 1)) == ["x = tf.cos(y)", "import tf"]
    assert notes(frame(program, 3)) == {}


def test_what_is_no_file_or_not_in_a_known_encoding_has_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")  # is not waited for
    (tmp_path / "train.py").write_bytes(b"x = '\xff'\n")
    files = ("<stdin>", "/nowhere/train.py", "/with\0null.py", "/dev/zero")
    for file in (*files, tmp_path / "pipe.py", tmp_path / "train.py"):
        assert texts(frame(file, 1)) == [None]
        assert notes(frame(file, 1)) == {}


def test_a_file_that_was_changed_since_is_left_out_and_named(program: Path) -> None:
    since_s = program.stat().st_mtime - 1
    assert texts(frame(program, 1), since_s=since_s) == [None]
    note = notes(frame(program, 1), since_s=since_s)["source_changed"]
    assert "train.py" in note
    assert str(program.parent) not in note


def test_a_time_that_was_set_back_deceives_nobody(program: Path) -> None:
    since_s = program.stat().st_mtime - 1
    os.utime(program, (since_s - 1000, since_s - 1000))
    assert texts(frame(program, 1), since_s=since_s) == [None]


def test_a_link_that_leads_elsewhere_since_is_left_out(program: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    since_s = program.stat().st_ctime + 0.01
    while time.time() < since_s + 0.05:
        time.sleep(0.01)
    link.symlink_to(program)
    assert texts(frame(program, 1), frame(link, 1), since_s=since_s) == ["import tf", None]


def test_no_more_lines_are_kept_than_the_limit(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_lines, "_MAX_TEXT", 10)
    assert texts(frame(program, 1), frame(program, 3)) == ["import tf", None]


def test_cells_of_a_notebook_are_known_where_they_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/nowhere/ipykernel_7/1.py"  # as ipykernel calls what it compiles
    entry = (10, None, ["x = 1\n", "y = tf.cos(x)\n"], name)
    monkeypatch.setitem(linecache.cache, name, entry)
    assert texts(frame(name, 2), here=True) == ["y = tf.cos(x)"]
    assert texts(frame(name, 2)) == [None]


def test_the_function_that_an_op_calls_is_kept_with_the_line_of_the_call(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "def mix(x,\n        y):\n    return x\n\n\nz = tf.py_function(mix, [x, y], tf.int64)\n"
    )

    _, statements, _ = SourceLines(LATER_S).add([frame(file, 6)])

    assert {(each.line, len(each.text)) for each in statements} == {(1, 2), (6, 1)}
