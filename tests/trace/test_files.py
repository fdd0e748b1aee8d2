import gzip
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import CORPUS, needs_corpus
from tests.traces import event, host, line, op, us, xspace
from traceanalyzer.errors import (
    TraceAnalyzerError,
    TraceFormatError,
    TraceNotFoundError,
    TraceTooLargeError,
)
from traceanalyzer.trace.discovery import HostFile, find_runs
from traceanalyzer.trace.files import read_host
from traceanalyzer.trace.limits import report_bytes

SPACE = xspace(host(line("python")(op("a/MatMul", "MatMul", us(0, 5)), event("x", us(1, 2)))))
JSON = json.dumps(
    {
        "traceEvents": [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}},
            {"ph": "X", "pid": 1, "tid": 2, "name": "x", "ts": 1, "dur": 2},
            {},
        ]
    }
).encode()


def content_of(space: object) -> bytes:
    return space.SerializeToString()  # type: ignore[attr-defined]


def as_host(path: Path, kind: str = "xplane") -> HostFile:
    return HostFile(host="a", path=path, format=kind)


def put(folder: Path, name: str, content: bytes) -> HostFile:
    (folder / name).write_bytes(content)
    (host_file,) = find_runs(folder / name)[0].hosts
    return host_file


def error(host_file: HostFile, kind: type[TraceAnalyzerError] = TraceFormatError) -> str:
    with pytest.raises(kind) as caught:
        read_host(host_file)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    return text


def names(host_file: HostFile) -> list[str]:
    plane = read_host(host_file).planes[0]
    return [plane.names[i] for i in plane.name_of]


# Every format, by content rather than by name.


LOCAL = b'\x0a\x11\x08\x00\x12\x0d\x0a\x09/host:CPU\x10\x00"\x07\x10\x07\x1a\x01x\x50\x05'


@pytest.mark.parametrize(
    ("name", "content", "kind", "events"),
    [
        ("a.xplane.pb", content_of(SPACE), "xplane", ["a/MatMul:MatMul", "x"]),
        ("a.bin", content_of(SPACE), "xplane", ["a/MatMul:MatMul", "x"]),
        ("a.trace.json.gz", JSON, "trace.json", ["x"]),
        ("a.xplane.pb", JSON, "trace.json", ["x"]),
        ("local.trace", LOCAL, "local.trace", ["x"]),
        ("renamed", LOCAL, "local.trace", ["x"]),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_of_any_name(  # noqa: PLR0913 - what varies
    tmp_path: Path, name: str, content: bytes, kind: str, events: list[str], *, compressed: bool
) -> None:
    host_file = put(tmp_path, name, gzip.compress(content) if compressed else content)
    trace = read_host(host_file)
    assert (trace.format, trace.damage) == (kind, None)
    assert names(host_file) == events


# Bad input: one line that says what, why and what to do.


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.xplane.pb", b"", "0 bytes): the profiler writes empty files for traces over 2 GiB"),
        ("a.xplane.pb", b"To whom it may concern\n", "this is a text file"),
        ("a.trace.json.gz", gzip.compress(b"text"), "this is a text file"),
        ("a.xplane.pb", b"<!DOCTYPE html><p>404", "this is a web page"),
        ("a.xplane.pb", b"\0" * 5000, "nothing but zero bytes"),
        ("a.xplane.pb", b"\xff\xfe\xfd" * 10, "begins with the bytes ff fe fd ff"),
        ("a.xplane.pb", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("a.xplane.pb", b"\x28\xb5\x2f\xfd....", "compressed with zstd"),
        ("a.trace.json", b'{"a": 1}', "JSON but not a trace"),
        ("a.trace.json", b'{"traceEvents": [', "cut short"),
        ("a.xplane.pb", b'{"traceEvents": 3}', "JSON but not a trace"),
        ("a.xplane.pb", b"\n\xef\xbf\xbd\xef\xbf\xbd\x06\x08\x02\x12\x0a", "replaced bytes"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    text = error(put(tmp_path, name, content))
    assert text.startswith(f"{name}: ")
    assert words in text


def test_a_gzip_whose_checksum_fails_is_refused(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(content_of(SPACE)))
    content[-6] ^= 1
    assert "the gzip data is damaged" in error(put(tmp_path, "a.xplane.pb.gz", bytes(content)))


def test_the_limit_on_memory_holds_for_every_format(tmp_path: Path) -> None:
    for name, content in (
        ("a.xplane.pb", content_of(SPACE)),
        ("a.xplane.pb.gz", gzip.compress(content_of(SPACE))),
        ("a.trace.json", JSON),
        ("local.trace", b'"\x07\x10\x07\x1a\x01x\x50\x05' * 100),
    ):
        host_file = put(tmp_path, name, content)
        read_host(host_file, max_bytes=report_bytes(1 << 20))
        with pytest.raises(TraceTooLargeError, match="limit") as caught:
            read_host(host_file, max_bytes=50)
        assert str(caught.value).startswith(f"{name}: ")


def test_an_empty_profile_quotes_what_the_profiler_said(tmp_path: Path) -> None:
    space = xspace(errors=["Failed to load libcupti\n(is it installed?)"], warnings=["Careful"])
    text = error(put(tmp_path, "a.xplane.pb", content_of(space)))
    assert r'"Failed to load libcupti\n(is it installed?)"; "Careful"' in text
    assert "no planes" in error(put(tmp_path, "b.xplane.pb", content_of(xspace())))
    assert "no planes" in error(put(tmp_path, "c.trace.json", b'{"traceEvents": [{}]}'))


def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no longer exists" in error(as_host(tmp_path / "a.xplane.pb"), TraceNotFoundError)
    assert "this is a directory" in error(as_host(tmp_path))
    assert "not a file" in error(as_host(Path(os.devnull)))
    assert "cannot be opened or read" in error(as_host(Path("a\0b")))
    host_file = put(tmp_path, "a.xplane.pb", b"x")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "a.xplane.pb: cannot be opened or read (permission denied)" in error(host_file)


# Nothing but a trace or one of these errors, whatever the bytes.


@given(st.binary(max_size=300), st.sampled_from(["xplane", "trace.json", "local.trace", "unknown"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes, kind: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any-file"
    path.write_bytes(content)
    with suppress(TraceAnalyzerError):
        read_host(as_host(path, kind))


# The corpus.


@pytest.mark.slow
@needs_corpus
def test_every_file_of_the_corpus_is_read_or_refused_in_one_line() -> None:
    refused = {}
    for run in find_runs(CORPUS):
        for host_file in run.hosts:
            try:
                trace = read_host(host_file)
            except TraceAnalyzerError as caught:
                refused[run.name] = str(caught)
            else:
                assert trace.events > 0
                assert trace.damage is None
                assert trace.format == host_file.format
    assert list(refused) == ["v_head"]
    assert "the file is corrupt: a program treated it as text" in refused["v_head"]
