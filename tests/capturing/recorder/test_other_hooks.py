"""Import hooks of other tools around ours: all of them run, as they would without ours."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_WATCH = """
from traceanalyzer.capturing.recorder.hooks import watch_import
def watch():
    watch_import("watched", lambda: seen.append("after"), lambda: seen.append("before"))
"""
_PROGRAM = """
import importlib, importlib.abc, importlib.machinery, importlib.util, sys, traceback, types
seen, log = [], []
{watch}
class Changed(importlib.abc.Loader):
    "A loader whose instances get a method of their own."
    def __init__(self, loader, name):
        self.loader, self.name, self.exec_module = loader, name, self._run
    def create_module(self, spec):
        return self.loader.create_module(spec)
    def _run(self, module):
        log.append("begin " + self.name)
        self.loader.exec_module(module)
        log.append("end " + self.name)
def patched(loader, name):
    "The loader itself with another method, as profilers of imports do it."
    original = loader.exec_module
    def run(module):
        log.append("begin " + name)
        original(module)
        log.append("end " + name)
    loader.exec_module = run
    return loader
class Slotted:
    __slots__ = ("loader", "name")
    def __init__(self, loader, name):
        self.loader, self.name = loader, name
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        log.append("slotted " + self.name)
        self.loader.exec_module(module)
class Old:
    "A loader as before Python 3.4."
    def __init__(self, loader, name):
        self.loader, self.name = loader, name
    def load_module(self, fullname):
        log.append("old " + self.name)
        module = sys.modules[fullname] = types.ModuleType(fullname)
        module.__file__, module.__path__ = "watched", []
        module.VALUE = 1
        return module
class Aside(importlib.machinery.SourceFileLoader):
    "A loader that another loader does not get to see."
    def __init__(self, loader, name):
        super().__init__("watched", importlib.machinery.PathFinder.find_spec("watched").origin)
    def exec_module(self, module):
        log.append("aside")
        super().exec_module(module)
class Raising(Changed):
    def _run(self, module):
        raise KeyError("of " + self.name)
class Hook:
    def __init__(self, name, change, asks="behind"):
        self.name, self.change, self.asks, self.busy = name, change, asks, False
    def find_spec(self, fullname, path=None, target=None):
        if fullname != "watched" or self.busy:
            return None
        log.append("find " + self.name)
        self.busy = True
        try:
            if self.asks == "all":  # as wrapt
                spec = importlib.util.find_spec(fullname)
            else:
                others = [f for f in sys.meta_path if f is not self]
                spec = next(filter(None, (f.find_spec(fullname, path) for f in others)), None)
        finally:
            self.busy = False
        spec.loader = self.change(spec.loader, self.name)
        return spec
def wrap_all_finders():
    "Change every finder in its place, as importhook."
    def wrapped(finder):
        find = finder.find_spec
        def find_spec(fullname, path=None, target=None):
            spec = find(fullname, path, target)
            if spec is not None and fullname == "watched":
                log.append("wrapped")
                spec.loader = Slotted(spec.loader, "hook")
            return spec
        finder.find_spec = find_spec
    for finder in sys.meta_path:
        wrapped(finder)
class Lazy:
    "Python's recipe for a lazy import."
    def find_spec(self, fullname, path=None, target=None):
        if fullname == "watched":
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            spec.loader = importlib.util.LazyLoader(spec.loader)
            return spec
class Broken:
    def find_spec(self, fullname, path=None, target=None):
        if fullname == "watched":
            raise ValueError("of a finder")
def attempt():
    try:
        module = importlib.import_module("watched")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        log.append(repr(error) + str([f.name for f in frames if "importlib" not in f.filename]))
        return
    loader = module.__spec__.loader
    log.append((module.VALUE, type(loader).__name__, module.__loader__ is loader))
    log.append(sorted(vars(loader)) if hasattr(loader, "__dict__") else None)
    importlib.import_module("colorsys") if "Old" in str(loader) else None
    importlib.reload(module)
{setup}
attempt()
print(log)
print(seen, file=sys.stderr)
"""


def _run(folder: Path, setup: str, *, is_watched: bool) -> tuple[str, str]:
    (folder / "watched").mkdir(exist_ok=True)
    (folder / "watched" / "__init__.py").write_text("import wave\nVALUE = 1\n")
    watch = _WATCH if is_watched else "def watch(): pass"
    program = folder / "program.py"
    program.write_text(_PROGRAM.format(watch=watch, setup=textwrap.dedent(setup)))
    words = [sys.executable, "-B", "-W", "ignore", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout, done.stderr


_ADD = "sys.meta_path.insert(0, Hook({!r}, {}, {!r}))\n"


@pytest.mark.parametrize("asks", ["behind", "all"])
@pytest.mark.parametrize("change", ["Changed", "patched", "Slotted", "Old", "Aside"])
@pytest.mark.parametrize("ours", [0, 1, 2])
def test_hooks_before_and_after_ours_run_in_order(
    tmp_path: Path, change: str, asks: str, ours: int
) -> None:
    hooks = [_ADD.format(name, change, asks) for name in ("first", "second")]
    setup = "".join([*hooks[:ours], "watch()\n", *hooks[ours:]])
    plain, _ = _run(tmp_path, setup, is_watched=False)
    watched, seen = _run(tmp_path, setup, is_watched=True)
    assert watched == plain
    assert seen == "['before', 'after']\n"


@pytest.mark.parametrize("hook", ["wrap_all_finders()\n", "sys.meta_path.insert(0, Lazy())\n"])
@pytest.mark.parametrize("order", [1, -1])
def test_hooks_of_other_kinds(tmp_path: Path, hook: str, order: int) -> None:
    setup = "".join(["watch()\n", hook][::order])
    plain, _ = _run(tmp_path, setup, is_watched=False)
    watched, seen = _run(tmp_path, setup, is_watched=True)
    assert watched == plain
    assert seen == "['before', 'after']\n"


@pytest.mark.parametrize("ours", [0, 1])
@pytest.mark.parametrize(
    "hook", [_ADD.format("bad", "Raising", "behind"), "sys.meta_path.insert(0, Broken())\n"]
)
def test_a_hook_that_raises_does_so_as_without_ours(tmp_path: Path, hook: str, ours: int) -> None:
    hooks = [hook, "watch()\n"] if ours else ["watch()\n", hook]
    setup = "".join([*hooks, "attempt()\n"])
    setup += "sys.meta_path[:] = [f for f in sys.meta_path if type(f) not in (Hook, Broken)]\n"
    plain, _ = _run(tmp_path, setup, is_watched=False)
    watched, seen = _run(tmp_path, setup, is_watched=True)
    assert watched == plain
    assert "Error('of " in watched
    assert seen == "['before', 'after']\n"  # of the second attempt
