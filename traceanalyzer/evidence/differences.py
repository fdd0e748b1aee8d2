"""Where a program itself would do something else on a machine with a GPU.

A replay places the graphs that were captured. Some code makes other graphs when it sees a GPU; what
is said of these ops then holds for nothing that would run there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.devices import CPU
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.sidecar.document import Sidecar

__all__ = ["differences", "doubt_on_a_gpu", "what_keras_compiled"]

# Keras 3 makes its steps under these names (keras/src/backend/tensorflow/trainer.py, 3.0 to 3.15).
_KERAS_STEP: Final = re.compile(r"__inference_(?:one|multi)_step_on_(?:iterator|data)_")
_MOST_MODELS: Final = 20  # that the recorder looks at
_RECURRENT: Final = re.compile(r"(?:^|/)(lstm|gru)(?:_\d+)?/", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A model of Keras 3 that ran, as the capture found it; see `recorder/keras_models.py`.

    Attributes:
        name: Its name.
        compiles: `jit_compile` as Keras resolved it on the program's machine; None if not yet.
        not_compilable: The layers that XLA cannot compile, as `name (Class)`. One of them suffices
            for Keras to leave XLA out, whatever the program says.
        is_listed: Whether all its layers were there when it was compiled.
    """

    name: str
    compiles: bool | None
    not_compilable: tuple[str, ...]
    is_listed: bool


def _models(sidecar: Sidecar) -> list[_Model]:
    told = (sidecar.devices or {}).get("keras_models")
    found = []
    for each in told if isinstance(told, list) else ():
        if isinstance(each, dict) and isinstance(layers := each.get("not_compilable"), list):
            compiles = each.get("jit_compile")
            found.append(
                _Model(
                    name=str(each.get("name")),
                    compiles=compiles if isinstance(compiles, bool) else None,
                    not_compilable=tuple(
                        f"{layer[0]} ({layer[1]})"
                        for layer in layers
                        if isinstance(layer, list) and len(layer) == 2  # noqa: PLR2004 - name, class
                    ),
                    is_listed=each.get("is_listed") is True,
                )
            )
    return found


def what_keras_compiled(sidecar: Sidecar) -> Iterator[str]:
    """Walk what Keras did with XLA on a machine with a GPU, a sentence for each model."""
    devices = sidecar.devices or {}
    physical = devices.get("physical")
    known = physical if isinstance(physical, list) else []
    if all(d.get("type") == CPU for d in known if isinstance(d, dict)):
        return
    for model in _models(sidecar):
        if model.compiles:
            yield (
                f"Keras has XLA compile the steps of the model {model.name}: their ops are parts "
                "of kernels, not placed one by one"
            )
        elif model.compiles is not None:
            yield (
                f"Keras does not have XLA compile the steps of the model {model.name}, so their "
                f"ops are placed one by one: {_why_not(model, sidecar)}"
            )


def _why_not(model: _Model, sidecar: Sidecar) -> str:
    """Return why Keras left XLA out, the first reason that it looks at.

    See `_resolve_auto_jit_compile` and `model_supports_jit` (keras/src/trainers/trainer.py, 3.8 and
    3.15).
    """
    if model.not_compilable:
        return f"XLA cannot compile {listed(model.not_compilable)}"
    devices = sidecar.devices or {}
    if devices.get("strategies"):
        return "the program uses a distribution strategy"
    if devices.get("deterministic_ops"):
        return "the program asked for deterministic ops"
    return "its layers can be compiled, and the program says jit_compile=False"


def differences(sidecar: Sidecar) -> Iterator[str]:
    """Walk what a captured program would do otherwise with a GPU, a sentence each."""
    functions = [f.name for f in sidecar.functions]
    if any(map(_KERAS_STEP.match, functions)):
        yield from _of_keras_steps(sidecar)
    layers = sorted(
        {
            found[1].upper()
            for function in sidecar.functions
            for instance in function.instances
            for name in instance.input.names
            if (found := _RECURRENT.search(name))
        }
    )
    if layers:
        yield (
            f"Keras' {' and '.join(layers)} use one op of cuDNN where TensorFlow has a GPU, unless "
            "their options forbid it: the loop that was captured is not what would run."
        )
    strategies = (sidecar.devices or {}).get("strategies")
    if isinstance(strategies, list) and strategies:
        yield (
            "The program uses a distribution strategy, which makes as many replicas as it has "
            "GPUs: with more than one its graphs are others."
        )


def _of_keras_steps(sidecar: Sidecar) -> Iterator[str]:
    models = _models(sidecar)
    for model in models:
        if model.not_compilable:
            yield (
                f"Keras compiles no step of the model {model.name} with XLA, with a GPU neither: "
                f"XLA cannot compile {listed(model.not_compilable)}. Its ops are placed one by "
                "one; with what these layers do taken out of the model, as preprocessing can be, "
                "Keras would compile them."
            )
    if not models or not all(model.not_compilable for model in models):
        yield (
            'Keras compiles its steps with XLA where TensorFlow has a GPU (jit_compile="auto", the '
            "default), if all layers can be: its ops are then parts of kernels, not placed one by "
            "one. It does not where the program says jit_compile=False, which a capture does not "
            "tell, or where a layer cannot be compiled."
        )


def _is_never_compiled(sidecar: Sidecar, function: str) -> bool:
    """Return whether a step's model has a layer that keeps XLA out, whichever model it is.

    Only what was defined under the recorder is of a model that it looked at; a layer that is made
    after `compile` comes too late to keep XLA out.
    """
    models = _models(sidecar)
    if sidecar.definition(function) is None or not 0 < len(models) < _MOST_MODELS:
        return False
    return all(model.not_compilable and model.is_listed for model in models)


def doubt_on_a_gpu(sidecar: Sidecar, function: str) -> str:
    """Return why an op of a function may not be there on a machine with a GPU, or ""."""
    if _KERAS_STEP.match(function) and not _is_never_compiled(sidecar, function):
        return "Keras may compile the step that it is in with XLA there"
    strategies = (sidecar.devices or {}).get("strategies")
    if isinstance(strategies, list) and strategies:
        return "the program's distribution strategy goes by the devices that there are"
    return ""
