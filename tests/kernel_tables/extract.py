"""Run by an interpreter that has TensorFlow: writes what is registered there into a folder.

`ops.pb` is an OpList, `kernels.pb` a KernelList, `exempt.txt` the ops that are exempt from
colocation, `release.txt` TensorFlow's version. Needs nothing but TensorFlow and g++.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The list has no C or Python API; its header is in the wheel.
EXEMPT = """
#include <cstdio>
#include <string>
#include "tensorflow/core/common_runtime/input_colocation_exemption_registry.h"

extern "C" int exempt(char* out, int size) {
  std::string all;
  for (const auto& op : tensorflow::InputColocationExemptionRegistry::Global()->Get()) {
    all += op;
    all += '\\n';
  }
  return std::snprintf(out, size, "%s", all.c_str());
}
"""
LONGEST = 1 << 20  # bytes of that list


class Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    ]


def ops() -> bytes:
    """Return the OpList of every op that is registered, internal ones included."""
    import tensorflow as tf  # noqa: PLC0415 - after the environment is set

    folder = Path(tf.__file__).parent
    # Which library has the C API differs with versions.
    for name in ("libtensorflow_cc.so.2", "python/_pywrap_tensorflow_internal.so"):
        if (folder / name).exists():
            get = getattr(ctypes.CDLL(str(folder / name)), "TF_GetAllOpList", None)
            if get is not None:
                get.restype = ctypes.POINTER(Buffer)
                buffer = get().contents
                return ctypes.string_at(buffer.data, buffer.length)
    msg = "no library of TensorFlow has TF_GetAllOpList"
    raise RuntimeError(msg)


def kernels() -> bytes:
    """Return the KernelList of every kernel that is registered."""
    from tensorflow.python.framework import kernels as registered  # noqa: PLC0415

    listed: bytes = registered.get_all_registered_kernels().SerializeToString()
    return listed


def exempt() -> str:
    """Return the ops that are exempt from colocation with their inputs, one a line."""
    import tensorflow as tf  # noqa: PLC0415

    compiler = shutil.which("g++")
    if compiler is None:
        msg = "g++ is missing; install it"
        raise RuntimeError(msg)
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "exempt.cc"), Path(folder, "exempt.so")
        source.write_text(EXEMPT)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-w", str(source), "-o", str(library), *flags],
            check=True,
        )
        text = ctypes.create_string_buffer(LONGEST)
        if not 0 < ctypes.CDLL(str(library)).exempt(text, LONGEST) < LONGEST:
            msg = "the list of exempt ops is empty or too long"
            raise RuntimeError(msg)
    return "\n".join(sorted(text.value.decode().split())) + "\n"


def main(folder: Path) -> None:
    """Write all into a folder."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf  # noqa: PLC0415

    (folder / "ops.pb").write_bytes(ops())
    (folder / "kernels.pb").write_bytes(kernels())
    (folder / "exempt.txt").write_text(exempt())
    (folder / "release.txt").write_text(f"{tf.version.VERSION}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
