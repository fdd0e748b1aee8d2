"""The installed TensorFlow, asked in a fork of the oracle's process what it would do."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.oracle import the_oracle
from traceanalyzer.placement.registry import Registry, nearest


def registry_of_installed() -> Registry:
    """Return the tables of the installed TensorFlow; skip where it is another build or version."""
    try:
        version = distribution("tensorflow").version
    except PackageNotFoundError:
        pytest.skip("no build of TensorFlow with CUDA is installed")
    found = nearest(version)
    if not found.exact or not _has_cuda():
        pytest.skip(f"there is no table of the installed TensorFlow {version}, or it has no CUDA")
    return found.registry


@cache
def _has_cuda() -> bool:
    folder = Path(str(distribution("tensorflow").locate_file("tensorflow")))
    info = folder / "python" / "platform" / "build_info.py"
    return "('is_cuda_build', True)" in info.read_text()


def ask(
    questions: Iterable[tuple[str, str, dict[str, Any], list[str] | None]],
) -> list[tuple[bool | None, list[str] | str | None]]:
    """Ask TensorFlow as `lookups` says."""
    outcome = the_oracle().run("tests.placement.lookups:answers", list(questions), gpus=0)
    assert outcome.exit_code == 0, outcome.error
    return list(outcome.value)
