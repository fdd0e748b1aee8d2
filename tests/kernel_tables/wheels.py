"""What a release of TensorFlow has registered, from its Linux CUDA wheel, installed afresh."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.kernel_tables import extract
from tests.kernel_tables.tables import read_extraction

if TYPE_CHECKING:
    from tests.kernel_tables.tables import Extraction

PYTHON = "3.11"  # the one Python for which every version from 2.12 on has wheels


def of_wheel(minor: str) -> tuple[Extraction, str, str]:
    """Install the newest patch of a minor version, see what is registered there, and remove it.

    `tensorflow` for Linux is built with CUDA; `tensorflow-cpu` lacks nine tenths of the kernels
    for GPUs. The libraries of CUDA are not installed: registering needs none.

    Returns:
        What is registered; the wheel's file name; its SHA-256.
    """
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    with TemporaryDirectory(prefix="kernel-tables-") as name:
        folder = Path(name)
        python = folder / "venv" / "bin" / "python"
        _run(uv, "venv", "--quiet", "--seed", "--python", PYTHON, str(folder / "venv"))
        _run(
            *(str(python), "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"),
            *("--only-binary", ":all:", "--dest", str(folder), f"tensorflow=={minor}.*"),
        )
        (wheel,) = folder.glob("*.whl")
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        _run(uv, "pip", "install", "--quiet", "--no-cache", "--python", str(python), str(wheel))
        return of_interpreter(python), wheel.name, sha256


def of_interpreter(python: Path) -> Extraction:
    """See what is registered in an interpreter's TensorFlow."""
    with TemporaryDirectory(prefix="kernel-tables-") as folder:
        _run(str(python), str(extract.__file__), folder)
        return read_extraction(Path(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
