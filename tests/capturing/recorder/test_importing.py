"""Callbacks around the import of a module, and nothing else that its importer could notice."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from traceanalyzer.capturing.recorder.hooks import watch_import

NAME = "watched_by_a_test"
Calls = list[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path; afterwards its modules and the finders are gone."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] == NAME]:
        del sys.modules[name]


def _write(folder: Path, text: str = "VALUE = 1\n") -> None:
    (folder / NAME).mkdir(exist_ok=True)
    (folder / NAME / "__init__.py").write_text(text)
    (folder / NAME / "inner.py").write_text("")
    importlib.invalidate_caches()


def _watch() -> Calls:
    calls: Calls = []
    watch_import(
        NAME,
        before=lambda: calls.append(f"before {hasattr(sys.modules.get(NAME), 'VALUE')}"),
        after=lambda: calls.append(f"after {hasattr(sys.modules.get(NAME), 'VALUE')}"),
    )
    return calls


def _facts(module: ModuleType) -> dict[str, object]:
    spec = module.__spec__
    assert spec is not None
    return {
        "names": sorted(vars(module)),
        "loader": type(module.__loader__),
        "spec": (type(spec.loader), spec.origin, spec.cached, spec.submodule_search_locations),
        "is_one": spec.loader is module.__loader__,
    }


def test_calls_back_before_and_after_and_leaves_no_trace(folder: Path) -> None:
    _write(folder)
    plain = _facts(importlib.import_module(NAME))
    del sys.modules[NAME]
    finders = list(sys.meta_path)
    calls = _watch()
    importlib.import_module("json")
    assert calls == []
    assert _facts(importlib.import_module(NAME)) == plain
    assert calls == ["before False", "after True"]
    assert sys.meta_path == finders
    importlib.import_module(NAME + ".inner")
    importlib.reload(sys.modules[NAME])
    assert calls == ["before False", "after True"]


def test_an_error_of_the_module_passes_and_a_later_attempt_is_seen(folder: Path) -> None:
    _write(folder, "raise OSError('no library')\n")
    calls = _watch()
    with pytest.raises(OSError, match="no library"):
        importlib.import_module(NAME)
    assert calls == ["before False"]
    assert NAME not in sys.modules
    _write(folder, "VALUE = 2\n")
    assert importlib.import_module(NAME).VALUE == 2
    assert calls == ["before False", "after True"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_that_imports_the_module_is_left_alone(folder: Path) -> None:
    _write(folder)
    calls = _watch()
    child = os.fork()
    if child == 0:
        importlib.import_module(NAME)
        os._exit(len(calls))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    importlib.import_module(NAME)
    assert calls == ["before False", "after True"]
