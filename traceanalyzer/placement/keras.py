"""Explains how Keras uses XLA and cuDNN if TensorFlow has a GPU.

Keras 3 chooses cuDNN for LSTM and GRU while it builds the graph. Keras 2 (2.12 to 2.21) builds two
functions with the same interface: a loop, which it calls, and one for GPUs
(`lstm_with_backend_selection`, tf_keras/src/layers/rnn/lstm.py). After placement, Grappler replaces
calls of the loop and its gradient on a GPU, if cuDNN accepts their masks
(core/grappler/optimizers/implementation_selector.cc).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from traceanalyzer.capture_file.document import CaptureFile, Json
from traceanalyzer.data_files import toml
from traceanalyzer.format import listed, series
from traceanalyzer.model import Severity
from traceanalyzer.placement.calls import called_as
from traceanalyzer.placement.devices import CPU

_FACTS: Final[dict[str, Any]] = toml("placement/data/keras_on_gpu.toml")
_CUDNN: Final = _FACTS["cudnn"]
_STEP: Final = re.compile(_FACTS["steps"]["function"])
TEXTS: Final[dict[str, dict[str, str]]] = toml("placement/texts.toml")
_TEXTS: Final = TEXTS["keras"]
_OP: Final = "CudnnRNNV3"
_LOOP_NAME: Final = re.compile(r"(?:^|/)(lstm|gru)(?:_\d+)?/(?:.*/)?while(?:_\d+)?/", re.IGNORECASE)
_LOOP: Final = re.compile(r"while(?:_\d+)?")
_LOOP_FUNCTION: Final = re.compile(  # in Keras 2, or its gradient
    r"__(?:inference|forward)_(?:__backward_)?standard_(?:lstm|gru)(?:_\d+)+"
)
_MOST_MODELS: Final = 20  # that the recorder examines


class RecurrentLayer(NamedTuple):
    """An LSTM or GRU layer of a model that ran."""

    name: str
    text: str  #: its name and class
    #: The options that rule cuDNN out, as the program writes them, or "".
    obstacle: str
    #: Whether this layer keeps Keras from using XLA on a GPU.
    forbids_xla: bool
    is_of_keras_2: bool

    @classmethod
    def of(cls, layer: Mapping[str, Json], keras_version: str) -> RecurrentLayer:
        """Build the record from a layer's recorded options."""
        options = _CUDNN["options"].items()
        given = ((option, layer.get(option, needed), needed) for option, needed in options)
        refused = [f"{option}={value!r}" for option, value, needed in given if value != needed]
        if layer.get("use_cudnn") is False:
            refused.append("use_cudnn=False")
        could_use = layer.get("could_use_cudnn")
        is_of_keras_2 = isinstance(could_use, bool)
        forbids_xla = not refused and not is_of_keras_2
        if layer.get("recurrent_dropout"):
            refused.append(f"recurrent_dropout={layer['recurrent_dropout']}")
        minor = tuple(int(part) for part in re.findall(r"\d+", keras_version)[:2])
        if layer.get("dropout") and not is_of_keras_2 and minor < tuple(_CUDNN["dropout_since"]):
            refused.append(f"dropout={layer['dropout']} (before Keras 3.4)")
        if is_of_keras_2:
            refused = [] if could_use else refused or ["one of its options"]
        text = f"{layer.get('name')} ({layer.get('class')})"
        return cls(str(layer.get("name")), text, " and ".join(refused), forbids_xla, is_of_keras_2)

    @property
    def refusal(self) -> str:
        """A clause that says why the layer runs as a loop even on a GPU."""
        return _TEXTS["refusal"].format(layer=self.text, obstacle=self.obstacle)


class KerasModel(msgspec.Struct, frozen=True):
    """A model of Keras 3 that ran, as `recorder/keras_models.py` recorded it."""

    name: str
    not_compilable: tuple[tuple[str, str], ...]  #: name and class of layers that XLA cannot compile
    #: `jit_compile` as Keras resolved it on the program's machine; None if it did not yet.
    jit_compile: bool | None = None
    is_listed: bool = False  #: whether all layers existed when the model was compiled
    #: Whether the program left `jit_compile` to Keras; None if not recorded.
    is_auto: bool | None = None
    recurrent: tuple[dict[str, Any], ...] = ()  #: options of LSTM and GRU layers
    keras_version: str = ""

    @property
    def layers(self) -> list[RecurrentLayer]:
        """The model's LSTM and GRU layers."""
        return [RecurrentLayer.of(each, self.keras_version) for each in self.recurrent]

    @property
    def keeps_xla_out(self) -> list[str]:
        """The layers that keep Keras from using XLA on a GPU, regardless of `jit_compile`."""
        named = [f"{name} ({kind})" for name, kind in self.not_compilable]
        return [*named, *(layer.text for layer in self.layers if layer.forbids_xla)]

    @property
    def is_never_compiled(self) -> bool:
        """Whether the program or a layer rules out XLA for the model's steps on any machine."""
        is_forbidden = self.is_auto is False and self.jit_compile is False
        return is_forbidden or (self.is_listed and bool(self.keeps_xla_out))


def _of_steps(case: str, model: KerasModel, **values: str) -> str:
    steps = f"the steps of the model {model.name}"
    return _TEXTS[case].format(steps=steps, larger=_TEXTS["larger"], **values)


def noted(capture_file: CaptureFile, name: str) -> list[Json]:
    """Return a list that the recorder stored with the devices, or [] if it is missing."""
    found = (capture_file.devices or {}).get(name)
    return found if isinstance(found, list) else []


def strategies(capture_file: CaptureFile) -> list[str]:
    """Return the public names of the distribution strategies that the program created."""
    return [
        name.replace("CollectiveAllReduce", "MultiWorkerMirrored").rstrip("V12")
        for name in map(str, noted(capture_file, "strategies"))
        if not name.startswith("_Default")  # TensorFlow's own, for programs without one
    ]


class Keras:
    """Describes how Keras used XLA and cuDNN in a captured program, and would use them on a GPU."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        devices = capture_file.devices or {}
        version = {"keras_version": str(devices.get("keras_version"))}
        self._models: list[KerasModel] = []
        for model in noted(capture_file, "keras_models"):
            with suppress(msgspec.ValidationError, TypeError):
                self._models.append(msgspec.convert({**model, **version}, KerasModel))  # type: ignore[dict-item]
        self._layers = list(dict.fromkeys(each for m in self._models for each in m.layers))
        self._is_deterministic = bool(devices.get("deterministic_ops"))

    def remarks(self) -> Iterator[tuple[Severity, str, str]]:
        """Yield the severity, id, and text of each remark on XLA or cuDNN in a run with a GPU.

        Reasons not to use XLA are in the order in which Keras checks them
        (`_resolve_auto_jit_compile` and `model_supports_jit`, trainers/trainer.py, 3.8 and 3.15).
        """
        devices = noted(self._capture_file, "physical")
        if not any(isinstance(each, dict) and each.get("type") != CPU for each in devices):
            return
        for model in self._models:
            if model.jit_compile:
                yield "info", "keras_xla", _of_steps("compiled", model)
            elif model.jit_compile is False:
                reasons = {
                    f"XLA cannot compile {series(model.keeps_xla_out)}": model.keeps_xla_out,
                    "the program uses a distribution strategy": strategies(self._capture_file),
                    "the program requests deterministic ops": self._is_deterministic,
                    'with jit_compile="auto", Keras chose not to use XLA': model.is_auto,
                    "XLA could compile the layers, but the program sets jit_compile=False": True,
                }
                why = next(reason for reason, is_given in reasons.items() if is_given)
                yield "info", "keras_xla", _of_steps("not_compiled", model, why=why)
        for layer in self._layers:
            if layer.obstacle:
                yield "warning", "keras_without_cudnn", layer.refusal

    def differences(self) -> Iterator[str]:
        """Yield sentences that describe how Keras would use XLA and cuDNN with a GPU."""
        functions = self._capture_file.functions
        if any(_STEP.match(function.name) for function in functions):
            yield from self._step_differences()
        fused = [each.text for each in self._layers if not (each.obstacle or each.is_of_keras_2)]
        if fused:
            yield _TEXTS["fused"].format(layers=listed(fused), op=_OP)
        yield from (f"{layer.refusal}." for layer in self._layers if layer.obstacle)
        graphs = (instance.input for f in functions for instance in f.instances)
        if any(self._is_unknown_loop(name) for graph in graphs for name in graph.names):
            yield _TEXTS["fused_if_allowed"]
        if any(_is_loop_function(function.name) for function in functions):
            yield _TEXTS["fused_function"]

    def _step_differences(self) -> Iterator[str]:
        for model in self._models:
            if model.keeps_xla_out:
                yield _of_steps("never_compiled", model, layers=listed(model.keeps_xla_out))
            elif model.jit_compile:
                yield _of_steps("always_compiled", model)
            elif model.is_auto:
                # Versions of Keras differ in whether these keep XLA out.
                is_unsure = strategies(self._capture_file) or self._is_deterministic
                may = "may compile" if is_unsure else "compiles"
                yield _of_steps("compiled_there", model, may=may)
        unknown = (m.is_auto is None and not m.is_never_compiled for m in self._models)
        if not self._models or any(unknown):
            yield _TEXTS["unknown"].format(larger=_TEXTS["larger"])

    def _layers_of(self, node: str) -> list[RecurrentLayer]:
        """Return the layers whose loop may contain a node, judging by the node's name scopes."""
        scopes = node.split("/")
        at = next((k for k, scope in enumerate(scopes) if _LOOP.fullmatch(scope)), 0)
        outer = {re.sub(r"_\d+$", "", scope) for scope in scopes[:at]}.union(scopes[:at])
        return [layer for layer in self._layers if layer.name in outer]

    def _is_unknown_loop(self, node: str) -> bool:
        if _LOOP_NAME.search(node) is None:
            return False
        found = self._layers_of(node)
        obstacles = {bool(layer.obstacle) for layer in found if not layer.is_of_keras_2}
        return not found or len(obstacles) > 1

    def gone(self, node: str) -> str:
        """Return why Keras would not create an op on a GPU machine, or ""."""
        layers = self._layers_of(node)
        if layers and not any(layer.obstacle or layer.is_of_keras_2 for layer in layers):
            return f"Keras runs {layers[0].text} as one cuDNN op ({_OP}) on a GPU, not as this loop"
        return ""

    def doubt(self, function: str, node: str) -> str:
        """Return why Keras may not create an op on a GPU machine, or ""."""
        # Only functions defined under the recorder belong to recorded models.
        if _is_loop_function(function) or self._is_unknown_loop(node):
            return "Keras may run this loop as one cuDNN op on a GPU"
        is_known = self._capture_file.definition(function) is not None
        are_all_known = is_known and 0 < len(self._models) < _MOST_MODELS
        is_excluded = are_all_known and all(model.is_never_compiled for model in self._models)
        may_compile = _STEP.match(function) and not is_excluded
        return "Keras may compile the step with XLA on a GPU machine" if may_compile else ""


def _is_loop_function(function: str) -> bool:
    return _LOOP_FUNCTION.fullmatch(called_as(function)) is not None
