"""The journal: whole lines from any thread, and silence rather than an error."""

import json
import os
import resource
import threading
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.capturing.recorder.hooks import JournalWriter


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_threads_do_not_write_into_each_others_lines(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path / "journal"))
    text = "x" * 100_000

    def write(number: int) -> None:
        for k in range(20):
            journal.write("piece", thread=number, k=k, text=text)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = _lines(tmp_path / "journal")
    assert {len(record["text"]) for record in found} == {len(text)}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_silent(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path / "journal"))
    journal.write("parent")
    child = os.fork()
    if child == 0:
        journal.write("child")
        journal.note("child", "info", "child")
        os._exit(0)
    os.waitpid(child, 0)
    assert _lines(tmp_path / "journal") == [{"kind": "parent"}]


def test_a_line_that_the_disk_cut_spoils_no_other(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path / "journal"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        journal.write("cut", text="x" * 100)
        journal.write("left out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.write("whole")
    journal.write("last")
    cut, *rest = (tmp_path / "journal").read_bytes().splitlines()
    assert len(cut) == 20
    assert [json.loads(line) for line in rest] == [{"kind": "whole"}, {"kind": "last"}]


def test_a_note_is_written_once(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path / "journal"))
    for _ in range(3):
        journal.note("limit", "info", "told once")
        journal.failed("an op", ValueError("x" * 1000))
    notes = _lines(tmp_path / "journal")
    assert [(n["kind"], n["id"], n["severity"]) for n in notes] == [
        ("note", "limit", "info"),
        ("note", "recorder_failed:an op", "warning"),
    ]
    assert notes[1]["message"].startswith("could not record an op: ValueError: xxx")
    assert len(notes[1]["message"]) < 400


def test_what_the_program_raised_within_our_code_goes_on(tmp_path: Path) -> None:
    """A handler of a signal runs wherever the program is: in the recorder too."""
    journal = JournalWriter(str(tmp_path / "journal.jsonl"))

    class Timeout(Exception):  # noqa: N818 - a program's own
        pass

    with pytest.raises(Timeout):
        journal.failed("a thing", Timeout())
    try:
        1 / 0  # noqa: B018 - in a file of the user's
    except ZeroDivisionError as error:
        raised = error
        with pytest.raises(ZeroDivisionError):
            journal.failed("a thing", raised)
