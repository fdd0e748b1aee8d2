"""Writes what a TensorFlow before 2.12 has registered, from its wheel alone.

    python extract_old.py WHEEL FOLDER

No Python that is still maintained can import these. But their shared objects load into today's,
lazily, since what they want of an old Python is only called from their bindings; data that they
want, which must be there when they load, is defined by a library made for it. TensorFlow's C API
then lists ops and kernels, written as the files of `extract`. Needs gcc and g++, and a process of
its own.
"""

import ctypes
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from extract import EXEMPT, LONGEST, Buffer  # beside this file, which runs as a script

# In the order in which they are loaded; not every version has the second.
LIBRARIES = (
    "libtensorflow_framework.so.2",
    "libtensorflow_cc.so.2",
    "python/_pywrap_tensorflow_internal.so",
)
WANTED = re.compile(rf"(?:.*/)?tensorflow(?:_core)?/(include/.*|{'|'.join(LIBRARIES)})")
UNDEFINED = re.compile(r"undefined symbol: (\w+)")
MOST_SYMBOLS = 20
RELEASE = re.compile(r"tensorflow(?:_gpu)?-([\d.]+)-")
# The same with g++'s older strings, which releases before 2.9 have.
REGISTER = "_ZN10tensorflow32InputColocationExemptionRegistry8RegisterERKSs"


def unpack(wheel: Path, folder: Path) -> None:
    """Write the libraries and headers of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            found = WANTED.fullmatch(entry.filename)
            if found is not None and not entry.is_dir():
                path = folder / found[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))


def load(folder: Path) -> list[ctypes.CDLL]:
    """Load TensorFlow's libraries, with what they want of an old Python."""
    loaded = []
    for path in (folder / name for name in LIBRARIES):
        for number in range(MOST_SYMBOLS if path.exists() else 0):
            try:
                loaded.append(ctypes.CDLL(str(path), mode=os.RTLD_LAZY | os.RTLD_GLOBAL))
                break
            except OSError as error:
                missing = UNDEFINED.search(str(error))
                if missing is None:
                    raise
            source = folder / f"stand_in_{number}.c"
            source.write_text(f"long {missing[1]}[64];\n")
            ctypes.CDLL(str(_compiled("gcc", source)), mode=os.RTLD_GLOBAL)
    return loaded


def exempt(folder: Path, framework: ctypes.CDLL) -> str:
    """Return the ops that are exempt from colocation with their inputs, one a line."""
    source = folder / "exempt.cc"
    source.write_text(EXEMPT)
    has_old_strings = hasattr(framework, REGISTER)
    flags = ["-w", "-O2", "-DNDEBUG", "-std=c++17", f"-I{folder / 'include'}"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={0 if has_old_strings else 1}")
    library = ctypes.CDLL(str(_compiled("g++", source, *flags)))
    text = ctypes.create_string_buffer(LONGEST)
    if not 0 < library.exempt(text, LONGEST) < LONGEST:
        message = "the list of exempt ops is empty or too long"
        raise RuntimeError(message)
    return "\n".join(sorted(text.value.decode().split())) + "\n"


def _compiled(compiler: str, source: Path, *flags: str) -> Path:
    library = source.with_suffix(".so")
    command = [compiler, "-shared", "-fPIC", *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def _bytes_of(buffer: ctypes._Pointer[Buffer]) -> bytes:
    return ctypes.string_at(buffer.contents.data, buffer.contents.length)


def main(wheel: Path, folder: Path) -> None:
    """Write all into a folder."""
    release = RELEASE.match(wheel.name)
    if release is None:
        message = f"{wheel.name} is no wheel of TensorFlow"
        raise ValueError(message)
    unpack(wheel, folder)
    framework, *_, bindings = load(folder)
    bindings.TF_NewStatus.restype = ctypes.c_void_p
    for get in (bindings.TF_GetAllOpList, bindings.TF_GetAllRegisteredKernels):
        get.restype = ctypes.POINTER(Buffer)
    bindings.TF_GetAllRegisteredKernels.argtypes = [ctypes.c_void_p]
    kernels = bindings.TF_GetAllRegisteredKernels(bindings.TF_NewStatus())
    (folder / "ops.pb").write_bytes(_bytes_of(bindings.TF_GetAllOpList()))
    (folder / "kernels.pb").write_bytes(_bytes_of(kernels))
    (folder / "exempt.txt").write_text(exempt(folder, framework))
    (folder / "release.txt").write_text(f"{release[1]}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
