"""Builds the emulator against an installed TensorFlow, once for each content and version."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
# TensorFlow's wheels are compiled with NDEBUG, on which the layout of its classes depends
# (EdgeSet in core/graph/edgeset.h). Warnings are of its headers.
_OPTIONS: Final = ("-w", "-shared", "-fPIC", "-O1", "-DNDEBUG")
_LONGEST: Final = 600.0  # seconds; ten on an idle machine


class CannotBuildError(Exception):
    """The machine cannot build the emulator; the message says why in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An installed TensorFlow, by `tf.sysconfig`."""

    version: str  #: like 2.21.0
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def built(installation: Installation) -> Path:
    """Return the emulator's library for an installation; builds it where it was not yet built.

    It lies in the user's cache folder. The environment variable `CXX` names the compiler.

    Raises:
        CannotBuildError: There is no compiler, or it failed.
    """
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        reason = "no C++ compiler to build the emulated GPU with (g++, or set CXX)"
        raise CannotBuildError(reason)
    command = [
        compiler,
        *_OPTIONS,
        *installation.compile_flags,
        str(_FOLDER / "emulator.cc"),
        *installation.link_flags,
        "-l:libtensorflow_cc.so.2",  # XLA's kernel creator
    ]
    library = _cache() / f"emulator-{installation.version}-{_key(command)}.so"
    if not library.exists():
        with library.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be compiling the same
            if not library.exists():
                _compile(command, library)
    return library


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "traceanalyzer-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _key(command: list[str]) -> str:
    """Return what the library depends on, but for folders: all checkouts share one library."""
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, text=True, check=False
    ).stdout
    options = [word for word in command if not word.startswith(("-I", "-L", "/"))]
    digest = hashlib.sha256("\0".join([*options, version]).encode())
    for source in sorted([*_FOLDER.glob("*.h"), *_FOLDER.glob("*.cc")]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(command: list[str], library: Path) -> None:
    """Compile to the library, which appears whole."""
    descriptor, name = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(descriptor)
    try:
        done = subprocess.run(
            [*command, "-o", name],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST,
        )
        if done.returncode:
            complaint = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr)
            reason = f"the emulated GPU does not compile: {complaint[:300]}"
            raise CannotBuildError(reason)
        Path(name).replace(library)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
