"""Functions that were traced before a capture: what recording them may cost a process."""

import itertools
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from traceanalyzer.capturing.recorder import earlier
from traceanalyzer.capturing.recorder.earlier import EarlierFunctions

_EAGER = "tensorflow.python.eager."
_NUMBERS = itertools.count()


class AtomicFunction:
    """A function as TensorFlow holds it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[Any] = []
        self._cached_graph = None


class _TensorFlow:
    """Refuses all executors, and counts the instances that it makes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.instances: list[str] = []
        self.each_takes_s = 0.0
        context = MagicMock(_server_def=None, _collective_ops_server_def=None)
        context.is_async.return_value = False
        context.get_function_def.side_effect = lambda _: SimpleNamespace(
            attr={}, ByteSize=lambda: 100, signature=SimpleNamespace(output_arg=[1])
        )
        self._add(patch, "tensorflow")
        self._add(patch, _EAGER + "context", _context=context, context=lambda: context)
        self._add(
            patch, _EAGER + "polymorphic_function.atomic_function", AtomicFunction=AtomicFunction
        )
        self._add(patch, "tensorflow.python.pywrap_tfe", TFE_Py_Execute=self._execute)
        self._add(patch, "tensorflow.python.profiler.internal._pywrap_traceme", TraceMe=MagicMock())
        self._add(patch, "tensorflow.core.framework", function_pb2=MagicMock())

    @staticmethod
    def _add(patch: pytest.MonkeyPatch, name: str, **contents: object) -> None:
        module = ModuleType(name)
        vars(module).update(contents)
        patch.setitem(sys.modules, name, module)

    def _execute(self, _: object, __: object, name: str, *___: object) -> None:
        if "__traceanalyzer" not in name:
            self.instances.append(name)
            time.sleep(self.each_takes_s)
        message = "no such executor"
        raise ValueError(message)


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> _TensorFlow:
    monkeypatch.setattr(earlier, "spent", earlier.Spent())
    return _TensorFlow(monkeypatch)


def _block(names: list[str], attributes: tuple[Any, ...] = ()) -> MagicMock:
    """Call functions in a capture of its own; return what the capture was told of its dumps."""
    dumps = MagicMock(are_on=True)
    functions = EarlierFunctions(MagicMock(), dumps, MagicMock())
    functions.find()
    for name in names:
        functions.instantiate((None, "", name, [], attributes, 1))
    return dumps


def _new(count: int) -> list[AtomicFunction]:
    return [AtomicFunction(f"__inference_tide_{next(_NUMBERS)}") for _ in range(count)]


def test_each_function_is_instantiated_once_in_a_process(tensorflow: _TensorFlow) -> None:
    functions = _new(3)
    names = [each.name for each in functions]
    first = _block(names)
    second = _block(names)
    assert tensorflow.instances == names
    assert not first.are_in_another_capture.called
    assert second.are_in_another_capture.called
    _block(names[:1], ("config_proto", b"other"))
    assert tensorflow.instances == [*names, names[0]]


@pytest.mark.parametrize("limit", ["_MOST_FUNCTIONS", "_MOST_BYTES", "_MOST_S"])
def test_limits_are_of_the_process(
    tensorflow: _TensorFlow, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(
        earlier, limit, {"_MOST_FUNCTIONS": 2, "_MOST_BYTES": 250, "_MOST_S": 0.3}[limit]
    )
    tensorflow.each_takes_s = 0.2 if limit == "_MOST_S" else 0.0
    functions = _new(4)
    told = [_block([each.name]) for each in functions]
    assert len(tensorflow.instances) == 2
    assert [dumps.are_missing.called for dumps in told] == [False, False, True, True]
