import importlib.util
import re
import struct
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.corpus import CORPUS, needs_corpus
from tests.trace.encodings import message, varint
from traceanalyzer.trace import tfevents
from traceanalyzer.trace.discovery import RunFiles, find_runs
from traceanalyzer.trace.tfevents import tf_version, version_of_producer

RUN = "2021_02_03_21_48_13"
RUN_TIME = 1612388893  # of that name, in UTC


def record(event: bytes) -> bytes:
    return struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0"


TIME = b"\x09" + struct.pack("<d", 1612385272.0)
HEADER = record(TIME + message(3, b"brain.Event:2"))
METRIC = record(TIME + b"\x10\x05" + message(5, b"\x0a\x02\x0a\x00"))


def graph(producer: int) -> bytes:
    node = message(1, message(1, b"MatMul"))
    return record(TIME + message(4, node * 50 + message(4, b"\x08" + varint(producer))))


def put(folder: Path, content: bytes, created: int = RUN_TIME, suffix: str = "host.1.2.v2") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"events.out.tfevents.{created}.{suffix}"
    file.write_bytes(content)
    return file


def run_in(log: Path, name: str = RUN) -> RunFiles:
    path = log / "plugins" / "profile" / name
    path.mkdir(parents=True, exist_ok=True)
    return RunFiles(name=name, path=path, hosts=())


def value(run: RunFiles) -> str | None:
    found = tf_version(run)
    return found.value if found else None


def test_the_version_and_where_it_was_read(tmp_path: Path) -> None:
    put(tmp_path, HEADER + METRIC + graph(561))
    found = tf_version(run_in(tmp_path))
    assert found is not None
    assert found.value == "2.4"
    assert found.source == (f"GraphDef producer 561 in events.out.tfevents.{RUN_TIME}.host.1.2.v2")


@pytest.mark.parametrize(
    ("events", "profile"), [(".", "."), ("train", "."), ("train", "validation")]
)
def test_events_are_looked_for_where_keras_puts_them(
    tmp_path: Path, events: str, profile: str
) -> None:
    put(tmp_path / events, HEADER + graph(808))
    assert value(run_in(tmp_path / profile)) == "2.6"


def test_after_an_upgrade_the_events_nearest_in_time_count(tmp_path: Path) -> None:
    put(tmp_path, HEADER + graph(440), RUN_TIME - 90_000)
    put(tmp_path, HEADER + graph(561), RUN_TIME - 3_700)
    put(tmp_path, HEADER + graph(716), RUN_TIME + 90_000)
    assert value(run_in(tmp_path)) == "2.4"


def test_events_that_disagree_leave_the_version_of_a_run_without_a_time_open(
    tmp_path: Path,
) -> None:
    put(tmp_path, HEADER + graph(440), RUN_TIME - 90_000)
    put(tmp_path, HEADER + graph(561), RUN_TIME)
    assert value(run_in(tmp_path, "renamed")) == "2.4 or 2.3"


@pytest.mark.parametrize(
    ("producer", "release"),
    [
        (175, "2.1 or 2.2"),
        (2474, "2.21"),
        (300, "between 2.2 and 2.3"),
        (27, "before 2.0"),
        (9999, "after 2.21"),
    ],
)
def test_versions_of_producers(producer: int, release: str) -> None:
    assert version_of_producer(producer) == release


def test_the_installed_tensorflow_is_known() -> None:
    spec = importlib.util.find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    header = Path(spec.origin).parent / "include/tensorflow/core/public/version.h"
    number = re.search(r"define TF_GRAPH_DEF_VERSION (\d+)", header.read_text())
    assert number is not None
    release = ".".join(version("tensorflow").split(".")[:2])
    assert release in version_of_producer(int(number[1]))


# Whatever the files hold: a version or none.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        HEADER,
        HEADER + graph(561)[:-20],
        HEADER + struct.pack("<QI", 2**63, 0) + b"x",
        HEADER + record(b"\xff" * 30),
        HEADER + record(b"\x20\x05"),
        HEADER + record(message(4, b"\x20\x05")),
    ],
)
def test_files_without_a_graph(tmp_path: Path, content: bytes) -> None:
    put(tmp_path, content)
    assert value(run_in(tmp_path)) is None


def test_only_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, HEADER + METRIC * 100 + graph(561))
    assert value(run_in(tmp_path)) is None
    monkeypatch.setattr(tfevents, "MAX_RECORDS", 200)
    assert value(run_in(tmp_path)) == "2.4"
    monkeypatch.setattr(tfevents, "MAX_RECORD_BYTES", 100)
    assert value(run_in(tmp_path)) is None


@needs_corpus
@pytest.mark.parametrize(
    ("folder", "release"),
    [
        ("oldfmt-localtrace-jonathanpeel", "2.0"),
        ("tfcpu-on-gpu-host-fatma", "2.4"),
        ("jax-rocm-conv08", None),
    ],
)
def test_the_corpus(folder: str, release: str | None) -> None:
    assert {value(run) for run in find_runs(CORPUS / folder)} == {release}
