"""The report of a capture shows the program's lines as they ran, and the command that made it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.capturing.running import CAPTURE, finished
from tests.report.markup import Element, read
from traceanalyzer.capture_file import files
from traceanalyzer.capture_file.document import CaptureFile

pytestmark = pytest.mark.slow  # starts TensorFlow twice

SCRIPT = """
import sys
import tensorflow as tf
import edited

with tf.device("/CPU:0"):
    x = tf.ones((8, 8))
    words = tf.strings.join(["a", "</script>\u202e"])  # </script><script>alert(1)</script>
    edited.work(x)
open("edited.py", "a").write("# changed\\n")
"""
EDITED = """
import tensorflow as tf

def work(x):
    return tf.linalg.eig(x)
"""
HOSTILE = 'words = tf.strings.join(["a", "</script>\u202e"])  # </script><script>alert(1)</script>'


def capture(folder: Path, *options: str) -> Path:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "edited.py").write_text(EDITED)
    words = [*CAPTURE, *options, str(folder / "script.py"), "--token=abc", str(folder)]
    done = finished(words, folder)
    assert done.code == 0, done.err.decode()
    return folder


def evidence(folder: Path) -> CaptureFile:
    [file] = (folder / "traceanalyzer-logs").rglob("*.placement.json.gz")
    found = files.read(file)
    assert found is not None
    return found


def report_of(folder: Path) -> dict[str, Any]:
    words = [*CAPTURE[:-1], "report", "traceanalyzer-logs", "--json", "report.json"]
    done = finished(words, folder)
    assert done.code == 0, done.err.decode()
    document: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return document


def refs(document: dict[str, Any]) -> list[dict[str, Any]]:
    on_a_gpu = document["on_a_gpu"]["findings"] if document["on_a_gpu"] else []
    findings = [*document["findings"], *on_a_gpu]
    return [op for finding in findings for op in finding["ops"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    return report_of(folder)


@pytest.fixture(scope="module")
def page(folder: Path) -> Element:
    return read((folder / "traceanalyzer-report.html").read_text())


def test_each_op_has_the_text_of_its_line(document: dict[str, Any]) -> None:
    lines = SCRIPT.split("\n")
    of_script = [op for op in refs(document) if op["file"] == "script.py"]
    assert {op["source"] for op in of_script} >= {"x = tf.ones((8, 8))", HOSTILE}
    assert all(op["source"] == lines[op["line"] - 1].strip() for op in of_script)


def test_a_file_that_was_changed_shows_no_line_and_is_named(document: dict[str, Any]) -> None:
    of_edited = [op for op in refs(document) if op["file"] == "edited.py"]
    assert of_edited
    assert {op["source"] for op in of_edited} == {None}
    told = {health["id"]: health["message"] for health in document["health"]}
    assert "edited.py" in told["source_changed"]


def test_a_hostile_line_runs_nothing(page: Element) -> None:
    assert "\u202e" not in page.text
    assert all("alert(1)" not in script.raw for script in page.all("script"))


def test_the_page_says_how_it_was_made(
    folder: Path, page: Element, document: dict[str, Any]
) -> None:
    command = f"traceanalyzer capture script.py --token=*** {folder.name}"
    about = page.one("section", id="about")
    assert command in about.text
    assert document["run"]["command"] == command
    assert document["run"]["host_tracer_level"] == 2
    assert document["run"]["recorded_at"] in about.text


def test_neither_secret_nor_folder_is_in_the_document(
    folder: Path, document: dict[str, Any]
) -> None:
    text = json.dumps(document["run"])
    assert "abc" not in text
    assert "/" not in document["run"]["command"]
    assert "--token=abc" not in json.dumps(evidence(folder).command)


def test_source_can_be_left_out(tmp_path: Path) -> None:
    folder = capture(tmp_path, "--no-source", "--no-report")
    assert {frame.text for frame in evidence(folder).frames} == {None}
    document = report_of(folder)
    assert refs(document)
    assert {op["source"] for op in refs(document)} == {None}
    assert "source_changed" not in {health["id"] for health in document["health"]}
    assert document["run"]["command"].startswith("traceanalyzer capture --no-source script.py")
