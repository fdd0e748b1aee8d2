"""Recorded Keras models: what Keras does with XLA and cuDNN where TensorFlow has a GPU.

Keras 3 chooses cuDNN for LSTM and GRU while it makes the graph; Keras 2 when the layer is made. The
loop of Keras 2 is handled by `swapped_functions`.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.format import listed
from traceanalyzer.placement.devices import CPU
from traceanalyzer.placement.swapped_functions import OP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Json

_FACTS: Final[dict[str, Any]] = tomllib.loads(
    (files("traceanalyzer.placement") / "data" / "keras_on_gpu.toml").read_text("utf-8")
)
_CUDNN: Final = _FACTS["cudnn"]
_STEP: Final = re.compile(_FACTS["steps"]["function"])
_CONDITIONS: Final = (
    "activation tanh, recurrent_activation sigmoid, recurrent_dropout 0, unroll=False, "
    "use_bias=True, for GRU reset_after=True, and use_cudnn not False"
)
_MASKS: Final = "A mask must be right-padded there"
_LOOP_NAME: Final = re.compile(r"(?:^|/)(lstm|gru)(?:_\d+)?/(?:.*/)?while(?:_\d+)?/", re.IGNORECASE)
_LOOP: Final = re.compile(r"while(?:_\d+)?")
_MOST_MODELS: Final = 20  # that the recorder looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentLayer:
    """An LSTM or GRU of a model that ran."""

    name: str
    #: `LSTM` or `GRU`.
    kind: str
    #: The options that rule cuDNN out, as the program writes them; "" if none does.
    obstacle: str
    #: Whether Keras does not use XLA because of this layer if there is a GPU.
    forbids_xla: bool
    is_of_keras_2: bool = False

    @property
    def text(self) -> str:
        """Its name and class."""
        return f"{self.name} ({self.kind})"

    @property
    def refusal(self) -> str:
        """That it is a loop with a GPU too, and because of which options."""
        return (
            f"{self.text} is a loop of small ops on a GPU too: {self.obstacle} rules out cuDNN, "
            "which would run the layer as one op"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasModel:
    """A model of Keras 3 that ran, as `recorder/keras_models.py` recorded it."""

    name: str
    #: `jit_compile` as Keras resolved it on the program's machine; None if it did not yet.
    compiles: bool | None
    #: The layers that XLA cannot compile, as `name (Class)`. With one of them, Keras does not use
    #: XLA, whatever the program says.
    not_compilable: tuple[str, ...]
    #: Whether all layers existed when the model was compiled.
    is_listed: bool
    #: Whether the program left `jit_compile` to Keras; None if not recorded.
    is_auto: bool | None
    recurrent: tuple[RecurrentLayer, ...]

    @property
    def keeps_xla_out(self) -> tuple[str, ...]:
        """The layers because of which Keras does not use XLA if there is a GPU."""
        return (*self.not_compilable, *(r.text for r in self.recurrent if r.forbids_xla))

    @property
    def is_never_compiled(self) -> bool:
        """Whether XLA compiles its steps on no machine: because of the program or a layer."""
        if self.is_auto is False and self.compiles is False:
            return True
        return self.is_listed and bool(self.keeps_xla_out)


def keras_models(capture_file: CaptureFile) -> list[KerasModel]:
    """Return the recorded models."""
    devices = capture_file.devices or {}
    recorded = devices.get("keras_models")
    version = str(devices.get("keras_version"))
    return [
        KerasModel(
            name=str(model.get("name")),
            compiles=_bool(model.get("jit_compile")),
            not_compilable=tuple(
                f"{layer[0]} ({layer[1]})"
                for layer in layers
                if isinstance(layer, list) and len(layer) == 2  # noqa: PLR2004 - name, class
            ),
            is_listed=model.get("is_listed") is True,
            is_auto=_bool(model.get("is_auto")),
            recurrent=recurrent_layers(model, version),
        )
        for model in (recorded if isinstance(recorded, list) else ())
        if isinstance(model, dict) and isinstance(layers := model.get("not_compilable"), list)
    ]


def _bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def recurrent_layers(model: Mapping[str, Json], keras_version: str) -> tuple[RecurrentLayer, ...]:
    """Return the recurrent layers of a recorded model."""
    recorded = model.get("recurrent")
    layers = recorded if isinstance(recorded, list) else []
    return tuple(_layer(layer, keras_version) for layer in layers if isinstance(layer, dict))


def _layer(layer: Mapping[str, Json], keras_version: str) -> RecurrentLayer:
    refused = [
        f"{option}={layer[option]!r}"
        for option, needed in _CUDNN["options"].items()
        if layer.get(option, needed) != needed
    ]
    if layer.get("use_cudnn") is False:
        refused.append("use_cudnn=False")
    forbids_xla = not refused
    if layer.get("recurrent_dropout"):
        refused.append(f"recurrent_dropout={layer['recurrent_dropout']}")
    name, kind = str(layer.get("name")), str(layer.get("class"))
    could_use = layer.get("could_use_cudnn")
    if isinstance(could_use, bool):
        return RecurrentLayer(
            name=name,
            kind=kind,
            obstacle="" if could_use else " and ".join(refused) or "one of its options",
            forbids_xla=False,
            is_of_keras_2=True,
        )
    minor = tuple(int(part) for part in re.findall(r"\d+", keras_version)[:2])
    if layer.get("dropout") and minor < tuple(_CUDNN["dropout_since"]):
        refused.append(f"dropout={layer['dropout']} (before Keras 3.4)")
    return RecurrentLayer(
        name=name, kind=kind, obstacle=" and ".join(refused), forbids_xla=forbids_xla
    )


def all_recurrent_layers(capture_file: CaptureFile) -> list[RecurrentLayer]:
    """Return the distinct recurrent layers of all models."""
    layers = (layer for model in keras_models(capture_file) for layer in model.recurrent)
    return list(dict.fromkeys(layers))


def what_keras_compiled(capture_file: CaptureFile) -> Iterator[str]:
    """Walk what Keras did with XLA on a machine with a GPU, a sentence per model."""
    if not _had_gpu(capture_file):
        return
    for model in keras_models(capture_file):
        if model.compiles:
            yield (
                f"Keras compiles the steps of the model {model.name} with XLA: their ops are part "
                "of larger kernels and are not placed one by one"
            )
        elif model.compiles is not None:
            yield (
                f"Keras does not compile the steps of the model {model.name} with XLA, so their "
                f"ops are placed one by one: {_why_not(model, capture_file)}"
            )


def without_cudnn(capture_file: CaptureFile) -> Iterator[str]:
    """Walk the LSTM and GRU layers that ran as loops on a machine with a GPU, a sentence each."""
    if _had_gpu(capture_file):
        layers = all_recurrent_layers(capture_file)
        yield from (layer.refusal for layer in layers if layer.obstacle)


def _had_gpu(capture_file: CaptureFile) -> bool:
    physical = (capture_file.devices or {}).get("physical")
    known = physical if isinstance(physical, list) else []
    return any(device.get("type") != CPU for device in known if isinstance(device, dict))


def _why_not(model: KerasModel, capture_file: CaptureFile) -> str:
    """Return why Keras does not use XLA: the first reason that it checks.

    See `_resolve_auto_jit_compile` and `model_supports_jit` (keras/src/trainers/trainer.py, 3.8 and
    3.15).
    """
    if model.keeps_xla_out:
        return f"XLA cannot compile {listed(model.keeps_xla_out)}"
    if strategies(capture_file):
        return "the program uses a distribution strategy"
    if (capture_file.devices or {}).get("deterministic_ops"):
        return "the program requests deterministic ops"
    if model.is_auto:
        return 'with jit_compile="auto", Keras chose to'
    return "its layers can be compiled, but the program says jit_compile=False"


_PUBLIC_NAMES: Final = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    "ParameterServerStrategyV1": "ParameterServerStrategy",
    "ParameterServerStrategyV2": "ParameterServerStrategy",
}


def strategies(capture_file: CaptureFile) -> list[str]:
    """Return the names of the distribution strategies that the program created."""
    found = (capture_file.devices or {}).get("strategies")
    return [
        _PUBLIC_NAMES.get(str(name), str(name))
        for name in (found if isinstance(found, list) else ())
        if not str(name).startswith("_Default")  # TensorFlow's own, for programs without one
    ]


def keras_step_differences(capture_file: CaptureFile) -> Iterator[str]:
    """Walk what Keras does with XLA in its steps if there is a GPU, a sentence per model."""
    if not any(_STEP.match(function.name) for function in capture_file.functions):
        return
    models = keras_models(capture_file)
    for model in models:
        steps = f"the steps of the model {model.name}"
        if model.not_compilable:
            yield (
                f"Keras does not compile {steps} with XLA on a GPU either: XLA cannot compile "
                f"{listed(model.not_compilable)}. Their ops are placed one by one. Move the work "
                "of these layers out of the model, such as preprocessing, and Keras compiles the "
                "rest."
            )
        elif model.keeps_xla_out:
            yield (
                f"Keras does not compile {steps} with XLA on a GPU either: XLA cannot compile the "
                f"cuDNN op of layers such as {listed(model.keeps_xla_out)}. Their ops are placed "
                "one by one."
            )
        elif model.compiles:
            yield f"Keras compiles {steps} with XLA on every machine."
        elif model.is_auto:
            # Versions of Keras differ in whether these keep XLA out.
            deterministic = (capture_file.devices or {}).get("deterministic_ops")
            may = "may compile" if strategies(capture_file) or deterministic else "compiles"
            yield (
                f'With a GPU, Keras {may} {steps} with XLA (jit_compile="auto"): their ops are '
                "then part of larger kernels and are not placed one by one."
            )
    if not models or any(m.is_auto is None and not m.is_never_compiled for m in models):
        yield (
            'With a GPU, Keras compiles its steps with XLA (jit_compile="auto", the default), '
            "unless the program says jit_compile=False or a layer cannot be compiled. Their ops "
            "are then part of larger kernels and are not placed one by one."
        )


def may_be_compiled(capture_file: CaptureFile, function: str) -> bool:
    """Return whether Keras may compile a function with XLA on a machine with a GPU.

    Only functions defined under the recorder belong to models that it recorded; a layer that is
    created after `compile` is too late to keep XLA out.
    """
    if not _STEP.match(function):
        return False
    models = keras_models(capture_file)
    if capture_file.definition(function) is None or not 0 < len(models) < _MOST_MODELS:
        return True
    return not all(model.is_never_compiled for model in models)


def replaced_loop(layers: Sequence[RecurrentLayer], node: str) -> str:
    """Return why a node does not exist with a GPU, because Keras uses cuDNN there; or ""."""
    found = _layers_of(layers, node)
    if not found or any(layer.obstacle or layer.is_of_keras_2 for layer in found):
        return ""
    return f"Keras runs {found[0].text} as one cuDNN op ({OP}) there, not as this loop"


def doubt_in_a_loop(layers: Sequence[RecurrentLayer], node: str) -> str:
    """Return why a node of the loop of an LSTM or GRU may not exist with a GPU, or "".

    Nothing is doubtful about a recorded layer. In Keras 2, a loop with such a name stays.
    """
    if _LOOP_NAME.search(node) is None:
        return ""
    found = _layers_of(layers, node)
    obstacles = {bool(layer.obstacle) for layer in found if not layer.is_of_keras_2}
    if found and len(obstacles) <= 1:
        return ""
    return "Keras may run this loop as one cuDNN op there"


def _layers_of(layers: Sequence[RecurrentLayer], node: str) -> list[RecurrentLayer]:
    """Return the layers in whose loop a node may be, by the scopes in its name."""
    scopes = node.split("/")
    at = next((k for k, scope in enumerate(scopes) if _LOOP.fullmatch(scope)), 0)
    return [
        layer
        for layer in layers
        if any(re.fullmatch(rf"{re.escape(layer.name)}(?:_\d+)?", scope) for scope in scopes[:at])
    ]


def loop_differences(capture_file: CaptureFile) -> Iterator[str]:
    """Walk what Keras does with LSTM and GRU layers if there is a GPU, a sentence each."""
    layers = all_recurrent_layers(capture_file)
    fused = [layer.text for layer in layers if not (layer.obstacle or layer.is_of_keras_2)]
    if fused:
        yield (
            f"With a GPU, Keras runs {listed(fused)} as one cuDNN op each ({OP}) instead "
            f"of the captured loop; ops of the loop are left out here. {_MASKS}, or Keras raises "
            "an error."
        )
    yield from (f"{layer.refusal}." for layer in layers if layer.obstacle)
    instances = [instance for f in capture_file.functions for instance in f.instances]
    if any(doubt_in_a_loop(layers, name) for each in instances for name in each.input.names):
        yield (
            "With a GPU, Keras runs an LSTM or GRU as one cuDNN op instead of the captured loop if "
            f"its options are {_CONDITIONS}. {_MASKS}. The options were not recorded, because no "
            "fit, evaluate, or predict ran the model."
        )
