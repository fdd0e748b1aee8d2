"""Which lines of a program choose or ask which GPUs TensorFlow sees."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from traceanalyzer.capturing.recorder.environment import GpuChoices, watch_gpu_variable
from traceanalyzer.capturing.recorder.hooks import JournalWriter


@pytest.fixture
def journal(tmp_path: Path) -> JournalWriter:
    return JournalWriter(str(tmp_path / "journal"))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mapping = type(os.environ)
    monkeypatch.setattr(mapping, "__setitem__", mapping.__setitem__)
    monkeypatch.setattr(mapping, "__delitem__", mapping.__delitem__)
    monkeypatch.setattr(GpuChoices, "devices_made", False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)


@pytest.fixture
def choices(journal: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuChoices]:
    monkeypatch.setattr(context.Context, "set_visible_devices", lambda *_: None)
    found = GpuChoices(journal)
    found.install()
    yield found
    found.uninstall()


def written(folder: Path) -> list[dict[str, Any]]:
    path = folder / "journal"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_lines_that_set_and_unset_the_variable_are_noted(
    journal: JournalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_context", None)
    watch_gpu_variable(journal)
    os.environ["ANOTHER"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    assert os.environ.pop("CUDA_VISIBLE_DEVICES") == "-1"
    assert [record["value"] for record in written(tmp_path)] == ["-1", None]
    for record in written(tmp_path):
        assert record["how"] == "CUDA_VISIBLE_DEVICES"
        assert record["frames"][0][0] == __file__


def test_a_variable_that_comes_too_late_is_not(journal: JournalWriter, tmp_path: Path) -> None:
    tf.config.list_physical_devices()
    watch_gpu_variable(journal)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    assert written(tmp_path) == []


def test_an_error_of_the_program_shows_no_line_of_ours(journal: JournalWriter) -> None:
    watch_gpu_variable(journal)
    with pytest.raises(TypeError) as caught:
        os.environ["CUDA_VISIBLE_DEVICES"] = 1  # type: ignore[assignment]
    assert not any(str(e.path).endswith("recorder/gpu_choices.py") for e in caught.traceback)


@pytest.mark.usefixtures("choices")
def test_a_call_that_leaves_no_gpu_visible_is_noted(tmp_path: Path) -> None:
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_visible_devices([], "CPU")  # of no concern

    (record,) = written(tmp_path)
    assert (record["how"], record["value"]) == ("tf.config.set_visible_devices", "[]")
    assert record["frames"][0][0] == __file__


@pytest.mark.parametrize(
    ("question", "is_noted"),
    [
        ('tf.config.list_physical_devices("GPU")', True),
        ('tf.config.list_logical_devices("GPU")', True),
        ('tf.config.get_visible_devices("GPU")', True),
        ('tf.config.experimental.get_memory_info("GPU:0")', True),
        ("tf.test.gpu_device_name()", True),
        ('keras.distribution.list_devices("gpu")', True),
        ('tf.config.list_logical_devices("CPU")', False),
    ],
)
def test_each_way_to_ask_is_noted_with_its_line(
    tmp_path: Path, choices: GpuChoices, question: str, *, is_noted: bool
) -> None:
    file = tmp_path / "program.py"
    with contextlib.suppress(ValueError):  # no such GPU
        source = compile(f"\nfound = {question}", str(file), "exec")
        exec(source, {"tf": tf, "keras": keras})  # noqa: S102
    assert [*choices.questions] == [(str(file), 2)] * is_noted
