"""The lines of a program that ask which GPUs there are."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import keras
import pytest
import tensorflow as tf

from traceanalyzer.capturing.recorder.facts.gpu_choices import GpuQuestions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "question",
    [
        'tf.config.list_physical_devices("GPU")',
        'tf.config.list_logical_devices("GPU")',
        'tf.config.get_visible_devices("GPU")',
        'tf.config.experimental.get_memory_info("GPU:0")',
        "tf.test.gpu_device_name()",
        'keras.distribution.list_devices("gpu")',
    ],
)
@pytest.mark.parametrize("name", ["__main__", "settings"])
def test_each_way_to_ask_is_noted_with_its_line(tmp_path: Path, question: str, name: str) -> None:
    file = tmp_path / "program.py"
    questions = GpuQuestions()
    questions.install()
    try:
        with contextlib.suppress(ValueError):  # no such GPU
            source = compile(f"\nfound = {question}", str(file), "exec")
            exec(source, {"__name__": name, "tf": tf, "keras": keras})  # noqa: S102
    finally:
        questions.uninstall()
    assert questions.places == [(str(file), 2)]
    assert questions.of_script == [name == "__main__"]


def test_a_question_for_cpus_alone_is_none_for_gpus(tmp_path: Path) -> None:
    questions = GpuQuestions()
    questions.install()
    try:
        source = 'tf.config.list_logical_devices("CPU")'
        exec(compile(source, str(tmp_path / "program.py"), "exec"), {"tf": tf})  # noqa: S102
    finally:
        questions.uninstall()
    assert not questions.places
