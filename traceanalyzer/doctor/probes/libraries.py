"""Opens libraries as TensorFlow does: from LD_LIBRARY_PATH, its own folders, then the system."""

import ctypes
import glob


def _path_of(name):
    """Return the path that the loader would open, or the name if no known folder has the file."""
    for folder in (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *GIVEN["search"]):
        path = os.path.join(folder, name)
        if folder and os.path.exists(path):
            return path
    return name


def _loaded_from(name):
    with open("/proc/self/maps") as file:
        for line in file:
            path = "/" + line.partition("/")[2].rstrip("\n")
            if os.path.basename(path).startswith(name.partition(".so")[0] + ".so"):
                return path
    return None


def _version(lib, name):
    if name.startswith("libcudnn"):
        lib.cudnnGetVersion.restype = ctypes.c_size_t
        return lib.cudnnGetVersion()
    number = ctypes.c_int()
    if name.startswith("libcudart") and lib.cudaRuntimeGetVersion(ctypes.byref(number)) == 0:
        return number.value
    return None


def _others(name):
    """Return the paths of a library's other versions, and of its copies in unsearched folders."""
    stem, wheels = name.partition(".so")[0], os.path.join(GIVEN["site"], "nvidia", "*", "lib")
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *GIVEN["search"], wheels]
    folders += [os.path.join(ROOT, p) for p in ("usr/local/cuda*/lib*", "usr/lib/x86_64-linux-gnu")]
    found = [path for folder in folders if folder for path in glob.glob(f"{folder}/{stem}.so.*")]
    return sorted(
        {os.path.realpath(os.path.dirname(p)) + "/" + os.path.basename(p) for p in found}
    )[:20]


for NAME in GIVEN["names"]:
    begin(NAME)
    try:
        LIB = ctypes.CDLL(_path_of(NAME))
    except OSError as error:
        report(name=NAME, error=str(error), others=_others(NAME))
        continue
    VERSION = None
    try:
        VERSION = _version(LIB, NAME)
    except AttributeError:
        pass
    report(name=NAME, path=_loaded_from(NAME), version=VERSION, others=_others(NAME))
