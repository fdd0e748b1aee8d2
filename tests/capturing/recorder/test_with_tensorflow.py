"""Runs the tests of `with_tensorflow` in a fork of the oracle, which has imported TensorFlow."""

from pathlib import Path

import pytest

from tests.architecture.toolchain import ROOT
from tests.emulator.oracle import the_oracle

_FOLDER = Path(__file__).with_name("with_tensorflow")


@pytest.mark.parametrize("marker", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_all_pass(marker: str) -> None:
    arguments = ["-q", "-m", marker, "-p", "no:cacheprovider", "-o", "python_files=*.py"]
    arguments += [f"--rootdir={ROOT}", str(_FOLDER)]
    outcome = the_oracle().run(pytest.main, arguments, gpus=0)
    assert outcome.value == pytest.ExitCode.OK, outcome.stdout + outcome.stderr
