"""Compiles the native code when the package is built.

By the C compiler that `CC` names, or `cc`; on a machine without one that works, by the `ziglang`
package, which the build then requires. The code needs no C library, so one build serves every
Python and every Linux of the machine's architecture.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ZIG = "ziglang==0.17.1"
_FLAGS = ("-std=c11", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-ffreestanding", "-nostdlib")
_ROOT = Path(__file__).parent
_FOLDER = _ROOT / "traceanalyzer" / "native"
_LIBRARY = _FOLDER / "libtraceanalyzer.so"


class NativeCode(BuildHookInterface[Any]):
    """Builds `libtraceanalyzer.so` into the source tree, from where it goes into the wheel."""

    def dependencies(self) -> list[str]:
        """Return what must be installed to compile."""
        return [_ZIG] if self.target_name == "wheel" and not has_compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, and name the wheel after the machine, for any Python 3."""
        if self.target_name != "wheel":
            return
        build()
        build_data["artifacts"].append(_LIBRARY.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"


def build() -> None:
    """Compile the native code; a library that is in use is replaced, not written to."""
    sources = sorted(_FOLDER.glob("*.c"))
    checksum = zlib.crc32(b"".join(f.read_bytes() for f in sorted(_FOLDER.glob("*.[ch]"))))
    compiler = _system_compiler() if has_compiler() else _zig()
    with tempfile.TemporaryDirectory(prefix=".native-", dir=_ROOT) as folder:
        library = Path(folder) / _LIBRARY.name
        done = _compile(compiler, f"-DSOURCES={checksum}u", *map(str, sources), output=library)
        if done.returncode:
            msg = f"{shlex.join(compiler)} cannot compile the native code:\n{done.stderr}"
            raise RuntimeError(msg)
        library.replace(_LIBRARY)


def _system_compiler() -> tuple[str, ...]:
    return tuple(shlex.split(os.environ.get("CC", ""))) or ("cc",)


def _zig() -> tuple[str, ...]:
    # With a target, zig compiles for any processor of the architecture rather than for this one.
    target = f"{platform.machine()}-linux-none"
    return sys.executable, "-m", "ziglang", "cc", "-target", target


@cache
def has_compiler() -> bool:
    """Return whether the machine's own C compiler works."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.write_text("#include <stdint.h>\n", encoding="utf-8")
        try:
            done = _compile(_system_compiler(), str(source), output=source.with_suffix(".so"))
        except OSError:
            return False
        return not done.returncode


def _compile(
    compiler: tuple[str, ...], *arguments: str, output: Path
) -> subprocess.CompletedProcess[str]:
    cache_folder = str(output.parent / "cache")
    return subprocess.run(  # noqa: S603 - the compiler that the user chose
        [*compiler, *_FLAGS, "-shared", *arguments, "-o", str(output)],
        # zig keeps what it makes in a cache; without a home it has no place for one.
        env=os.environ
        | {"ZIG_GLOBAL_CACHE_DIR": cache_folder, "ZIG_LOCAL_CACHE_DIR": cache_folder},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    build()
