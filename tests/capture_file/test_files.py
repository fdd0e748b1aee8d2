"""Capture files: what is written is read again, and damage is reported in one line."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.capture_file.capture_files import capture_files, sample
from traceanalyzer.capture_file import files
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.encoding import capture_file_of, document_of
from traceanalyzer.errors import CaptureFileError

SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").rglob("*.placement.json.gz"))
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "h.placement.json.gz"


def write_document(file: Path, document: Any) -> None:  # noqa: ANN401  # JSON
    file.write_bytes(gzip.compress(json.dumps(document).encode()))


def error_of(file: Path) -> str:
    with pytest.raises(CaptureFileError) as caught:
        files.read(file)
    message = str(caught.value)
    assert message.startswith("h.placement.json.gz: ")
    assert "\n" not in message
    return message


def places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  # JSON
    """Each container of a document with each of its keys."""
    keys: Any = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def test_a_missing_file_is_no_error(file: Path) -> None:
    assert files.read(file) is None


@given(capture_files())
@example(replace(sample(), host="a name that is not UTF-8: \udcff"))
@in_one_folder
def test_any_capture_file_comes_back_as_it_was(file: Path, capture_file: CaptureFile) -> None:
    files.write(capture_file, file)

    found = files.read(file)

    assert found is not None
    names = {field.name for field in fields(CaptureFile)} - {"sequences"}
    assert {n: getattr(found, n) for n in names} == {n: getattr(capture_file, n) for n in names}
    assert files.serialised(found) == files.serialised(capture_file)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_recorded_ones_are_read_and_written_as_they_were(path: Path) -> None:
    found = files.read(path)
    assert found is not None
    document = json.loads(gzip.decompress(path.read_bytes()))
    again = json.loads(files.serialised(found))
    for key in ("frames", "frame_texts", "scopes", "attributes", "devices", "resources"):
        assert again[key] == document[key]
    assert files.serialised(capture_file_of(again)) == files.serialised(found)


class TestWriting:
    def test_a_failure_leaves_what_stood_there(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_bytes(b"before")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(CaptureFileError, match="cannot be written"):
            files.write(sample(), file)

        assert list(file.parent.iterdir()) == [file]
        assert file.read_bytes() == b"before"


class TestDamage:
    @given(st.data())
    @in_one_folder
    def test_damaged_bytes_give_the_one_error(self, file: Path, data: st.DataObject) -> None:
        whole = bytearray(files.packed(files.serialised(sample())))
        for _ in range(data.draw(st.integers(0, 3))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        file.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])

        try:
            files.read(file)
        except CaptureFileError as error:
            assert "\n" not in str(error)  # noqa: PT017  # it may also have stayed readable

    @given(st.data())
    @in_one_folder
    def test_wrong_values_give_the_one_error(self, file: Path, data: st.DataObject) -> None:
        document = document_of(sample())
        wrong = st.sampled_from(
            [None, True, -2, 7, 10**30, 1.5, "", "text", "/", [], [0], ["a"], {}, {"a": 1}]
        )
        for _ in range(data.draw(st.integers(1, 2))):
            container, key = data.draw(st.sampled_from(list(places(document))))
            container[key] = data.draw(wrong)
        write_document(file, document)

        try:
            found = files.read(file)
        except CaptureFileError as error:
            assert "\n" not in str(error)  # noqa: PT017  # it may also be as right as before
        else:
            assert found is not None
            document_of(found)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "the file is empty"),
            (gzip.compress(b""), "not JSON"),
            (gzip.compress(b"[" * 100_000), "not JSON"),
            (gzip.compress(b"1" * 5000), "not JSON"),
            (gzip.compress(b"{}"), "not a traceanalyzer capture file"),
            (gzip.compress(b" " * 80_000_000), "gzip bomb"),
        ],
    )
    def test_what_is_no_capture_file_is_told(self, file: Path, content: bytes, words: str) -> None:
        file.write_bytes(content)

        assert words in error_of(file)

    @pytest.mark.parametrize("version", [2, None, True])
    def test_another_version_is_told(self, file: Path, version: object) -> None:
        write_document(file, {**document_of(sample()), "version": version})

        message = error_of(file)

        assert f"version {json.dumps(version)}" in message
        assert "record again" in message

    def test_what_older_recorders_did_not_note_may_be_missing(self, file: Path) -> None:
        document: Any = document_of(sample())
        del document["session_configs"], document["kernels"]
        for signature in document["signatures"]:
            del signature["scopes"]
        write_document(file, document)

        found = files.read(file)

        assert found is not None
        assert (found.session_configs, found.kernels) == ((), ())
        assert {signature.scopes for signature in found.signatures} == {()}

    def test_too_much_is_refused(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "MAX_BYTES", 1000)
        files.write(sample(), file)

        assert "more than the limit" in error_of(file)
