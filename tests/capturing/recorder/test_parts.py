"""Parts of the recorder that wait for a module, and those that see the program's objects."""

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from traceanalyzer.capturing.recorder.frames import FramePool
from traceanalyzer.capturing.recorder.hooks import JournalWriter, watch_import
from traceanalyzer.capturing.recorder.keras_layers import KerasLayers
from traceanalyzer.capturing.recorder.keras_models import KerasModels
from traceanalyzer.capturing.recorder.tracings import TracingRecorder

_NODE = "keras.src.ops.node"


def _state() -> tuple[list[object], object]:
    return [*sys.meta_path], vars(SourceFileLoader).get("exec_module")


def _layers(folder: Path) -> KerasLayers:
    journal = JournalWriter(str(folder / "journal"))
    return KerasLayers(journal, FramePool(journal))


@pytest.mark.parametrize("order", [1, -1])
def test_parts_stop_waiting_for_imports_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    for name in (_NODE, "keras.src.trainers.trainer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = _state()
    parts = [KerasModels(), _layers(tmp_path)]
    for part in parts:
        part.install()
    assert _state() != before
    for part in parts[::order]:
        part.uninstall()
    assert _state() == before


def test_watches_leave_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _state()
    seen: list[str] = []
    leaves = [watch_import("millrace", lambda k=k: seen.append(k)) for k in "abc"]  # type: ignore[misc]
    leaves[1]()
    (tmp_path / "millrace.py").write_text("FLOW = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.import_module("millrace").FLOW == 3
    assert sorted(seen) == ["a", "c"]
    for leave in (leaves[0], leaves[2], leaves[1]):
        leave()
    assert _state() == before
    monkeypatch.delitem(sys.modules, "millrace")


def test_a_layer_that_cannot_be_recorded_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Node:
        def __init__(self, operation: object) -> None:
            self.operation = operation

    class Layer:
        @property
        def name(self) -> str:
            raise RuntimeError

    module = ModuleType(_NODE)
    vars(module)["Node"] = Node
    monkeypatch.setitem(sys.modules, _NODE, module)
    layers = _layers(tmp_path)
    layers.install()
    monkeypatch.setattr(FramePool, "add_frame", int)  # raises for a frame
    try:
        named = Layer()
        vars(named)["name"] = "pool"
        assert Node(named).operation is named
        other = Layer()
        assert Node(other).operation is other
    finally:
        layers.uninstall()
    assert "the line of a layer" in (tmp_path / "journal").read_text()


def test_nothing_is_asked_of_the_programs_own_callables(tmp_path: Path) -> None:
    asked: list[str] = []

    class Own:
        def __getattr__(self, name: str) -> object:
            asked.append(name)
            raise KeyError(name)

    class Function:
        python_function, _name = Own(), "own"

    scope: dict[str, Callable[..., None]] = {}
    source = (
        "def trace(self, recorder, graph):\n    recorder.traced('__inference_own_7', graph, None)\n"
    )
    exec(compile(source, "polymorphic_function.py", "exec"), scope)  # noqa: S102
    journal = JournalWriter(str(tmp_path / "journal"))
    graph = type("Graph", (), {"structured_input_signature": ((), {})})()
    scope["trace"](Function(), TracingRecorder(journal, FramePool(journal)), graph)
    assert asked == []
