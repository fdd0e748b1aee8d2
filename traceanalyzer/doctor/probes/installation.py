"""Examines the interpreter and its TensorFlow, without importing TensorFlow."""

import importlib.util
import mmap
import platform
import re
import runpy
import struct

try:
    from importlib import metadata
except ImportError:  # before Python 3.8
    metadata = None


def _distributions():
    found, wheels, seen = [], {}, set()
    for each in metadata.distributions() if metadata else ():
        name = each.metadata["Name"] or ""
        if name in seen:  # hidden by one of the same name, earlier on the path
            continue
        seen.add(name)
        if name.replace("_", "-") in GIVEN["packages"]:
            extra = [r for r in each.requires or () if re.search("extra == .and-cuda.", r)]
            found.append({"name": name, "version": str(each.version), "cuda_wheels": extra})
        elif name.startswith("nvidia-"):
            wheels[name.replace("_", "-")] = str(each.version)
    report(distributions=found, wheels=wheels)


def _package():
    begin("finding the package")
    sys.path[:0] = HERE
    spec = importlib.util.find_spec("tensorflow")
    origin = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
    report(origin=origin)
    if spec is None or not spec.submodule_search_locations:
        return None
    return os.path.abspath(next(iter(spec.submodule_search_locations)))


def _build(folder):
    file = os.path.join(folder, "python", "platform", "build_info.py")
    if os.path.isfile(file):
        begin("reading build_info.py")
        built = runpy.run_path(file).get("build_info") or {}
        report(build={k: v if isinstance(v, (bool, list)) else str(v) for k, v in built.items()})


def _runpath(path):
    """Return the folders that a library searches for other libraries (64-bit little-endian ELF)."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            return []
        (headers,), (size, count) = (
            struct.unpack_from("<Q", data, 32),
            struct.unpack_from("<HH", data, 54),
        )
        segments = [struct.unpack_from("<IIQQQQQQ", data, headers + n * size) for n in range(count)]
        entries = {}
        for kind, _, offset, _, _, length, _, _ in segments:
            for at in range(offset, offset + length, 16) if kind == 2 else ():
                tag, value = struct.unpack_from("<qQ", data, at)
                entries.setdefault(tag, value)
        texts, at = entries.get(5), entries.get(29, entries.get(15))  # STRTAB; RUNPATH or RPATH
        for kind, _, offset, address, _, length, _, _ in segments:
            if kind == 1 and None not in (texts, at) and address <= texts < address + length:
                start = texts - address + offset + at
                found = data[start : data.find(b"\0", start)].decode("utf-8", "replace")
                return list(dict.fromkeys(found.split(":")))
    return []


def _search_folders(folder):
    begin("reading TensorFlow's library folders")
    names = ("libtensorflow_framework.so.2", "python/_pywrap_tensorflow_internal.so")
    for path in (os.path.join(folder, name) for name in names):
        if os.path.isfile(path):
            here = os.path.dirname(os.path.realpath(path))
            found = [f.replace("$ORIGIN", here).replace("${ORIGIN}", here) for f in _runpath(path)]
            report(search=list(dict.fromkeys(os.path.normpath(f) for f in found if f)))
            return


begin("reading metadata")
report(
    executable=sys.executable,
    python=platform.python_version(),
    system=platform.system(),
    machine=platform.machine(),
    variables={name: os.environ[name] for name in GIVEN["variables"] if name in os.environ},
    ld_library_path=os.environ.get("LD_LIBRARY_PATH", ""),
)
_distributions()
FOLDER = _package()
if FOLDER:
    _build(FOLDER)
    try:
        _search_folders(FOLDER)
    except (OSError, ValueError, struct.error):
        pass
