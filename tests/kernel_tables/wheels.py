"""Reads the kernels and ops of a TensorFlow release from its Linux CUDA wheel."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kernel_tables import extract
from tests.kernel_tables.tables import Extraction, read_extraction
from traceanalyzer.placement.kernel_tables import minor_of

PYTHON = "3.11"  # the one Python for which every version from 2.12 on has wheels
FIRST_OF_PYTHON = (2, 12)
# Earlier ones are not installed; which wheels to take, by the names that Linux had over time.
OLD_WHEELS = (
    *("--python-version", "3.7"),
    *("--platform", "manylinux2010_x86_64", "--platform", "manylinux_2_17_x86_64"),
)
EXTRACT_OLD = Path(extract.__file__).with_name("extract_old.py")


def of_wheel(minor: str) -> tuple[Extraction, str, str]:
    """Get the newest patch of a minor version, see what is registered there, and remove it.

    `tensorflow` for Linux is built with CUDA; `tensorflow-cpu` lacks nine tenths of the kernels
    for GPUs. The libraries of CUDA are not installed: registering needs none.

    Returns:
        What is registered; the wheel's file name; its SHA-256.
    """
    is_old = minor_of(minor) < FIRST_OF_PYTHON
    # Before 2.1 the builds for GPUs had a name of their own.
    package = "tensorflow-gpu" if minor_of(minor) < (2, 1) else "tensorflow"
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    with TemporaryDirectory(prefix="kernel-tables-") as name:
        folder = Path(name)
        python = folder / "venv" / "bin" / "python"
        _run(uv, "venv", "--quiet", "--seed", "--python", PYTHON, str(folder / "venv"))
        _run(
            *(str(python), "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"),
            *("--only-binary", ":all:", *(OLD_WHEELS if is_old else ())),
            *("--dest", str(folder), f"{package}=={minor}.*"),
        )
        (wheel,) = folder.glob("*.whl")
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if is_old:
            _run(str(python), str(EXTRACT_OLD), str(wheel), str(folder))
            return read_extraction(folder), wheel.name, sha256
        _run(uv, "pip", "install", "--quiet", "--no-cache", "--python", str(python), str(wheel))
        return of_interpreter(python), wheel.name, sha256


def of_interpreter(python: Path) -> Extraction:
    """See what is registered in an interpreter's TensorFlow."""
    with TemporaryDirectory(prefix="kernel-tables-") as folder:
        _run(str(python), str(extract.__file__), folder)
        return read_extraction(Path(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
