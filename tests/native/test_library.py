"""The library that the native code is compiled into: loaded only if it is that of its sources."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hatch_build
from traceanalyzer import native
from traceanalyzer.errors import NativeCodeError
from traceanalyzer.native import library, wire

SOURCES = Path(native.__file__).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The library and its sources, somewhere else."""
    shutil.copytree(SOURCES, tmp_path / "native", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "native" / "libtraceanalyzer.so"


def message_of(path: Path) -> str:
    with pytest.raises(NativeCodeError) as caught:
        library.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_library_that_is_not_there_or_none_at_all_says_so(copy: Path) -> None:
    copy.unlink()
    assert "no such file" in message_of(copy).lower()
    assert "install traceanalyzer again" in message_of(copy)
    copy.write_bytes(b"no library")
    assert "cannot load the native code" in message_of(copy)


def test_a_library_of_other_sources_says_so(copy: Path) -> None:
    library.load(copy)
    with (copy.parent / "walk.c").open("a") as file:
        file.write("/* changed */\n")
    assert "pip install -e ." in message_of(copy)


def test_the_command_line_says_so_in_one_line(copy: Path) -> None:
    copy.unlink()
    code = (
        "import ctypes; from traceanalyzer.cli import main; library = ctypes.CDLL;"
        f"ctypes.CDLL = lambda path: library({str(copy)!r});"
        "main(['report', '.'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot load the native code" in done.stderr


def test_a_column_that_is_written_must_be_of_its_type_and_contiguous() -> None:
    rows = np.full(4, -1)
    bounds = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for wrong in (rows[::2], rows[:2].astype(np.int32), np.broadcast_to(rows[0], 2)):
        with pytest.raises(TypeError, match="find_stat: column 4 must be contiguous, writable"):
            wire.find_stat(*bounds, rows, rows, wrong)


def test_a_build_requires_a_compiler_only_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook = hatch_build.NativeCode("", {}, None, None, "", "wheel")  # type: ignore[arg-type]
    monkeypatch.setattr(hatch_build, "has_compiler", lambda: True)
    assert hook.dependencies() == []
    monkeypatch.setattr(hatch_build, "has_compiler", lambda: False)
    assert [d.partition("==")[0] for d in hook.dependencies()] == ["ziglang"]
