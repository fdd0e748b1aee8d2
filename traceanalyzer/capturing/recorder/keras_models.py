"""Records whether Keras lets XLA compile a model's steps, and which layers can use cuDNN.

In Keras 3 `Trainer.jit_compile` resolves "auto" to False if the machine has no GPU or a layer's
`supports_jit` is False; in Keras 3.15 also with a distribution strategy or op determinism
(keras/src/trainers/trainer.py, `_resolve_auto_jit_compile` and `model_supports_jit`; read in 3.0,
3.8 and 3.15). A model does not show later that "auto" was requested, so this is recorded when Keras
resolves it. Layers are examined while `fit`, `evaluate` or `predict` is running, when TensorFlow
turns a step of their model into a function.

LSTM and GRU use cuDNN if TensorFlow has a GPU, unless their options forbid it (layers/rnn/lstm.py
and gru.py, `inner_loop`; backend/tensorflow/rnn.py, `cudnn_ok`). In Keras 2 a layer decides this
when it is created (`_could_use_gpu_kernel`; read in tf_keras 2.21).
"""

from __future__ import annotations

import re
import sys
import weakref
from contextlib import suppress
from typing import Any

from .frames import outwards
from .hooks import RecorderPart

# one_step_on_data, multi_step_on_iterator and so on; train_function and so on of Keras 2
_STEP = re.compile(r"_step_on_|_(?:train|test|predict)_function_")
_OF_A_MODEL = "make_train_function"  # a method of models of Keras 2 and 3
_MOST = 20  # models of one program
_MOST_LAYERS = 100  # recurrent ones of a model
_OPTIONS = (
    *("activation", "recurrent_activation", "use_bias", "unroll", "reset_after", "use_cudnn"),
    *("dropout", "recurrent_dropout"),
)
_KERAS = re.compile(r"(?:tf_)?keras\.|tensorflow\.python\.keras\.")
_TRAINER = "keras.src.trainers.trainer"
_RESOLVES = "_resolve_auto_jit_compile"


class KerasModels(RecorderPart):
    """Records facts about models while they run, without keeping the models alive."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []
        self._automatic: Any = weakref.WeakSet()
        self._sees_all = False
        self._is_over = False

    def install(self) -> None:
        """Once Keras is imported, record the models for which it resolves "auto"."""
        self._sees_all = _TRAINER not in sys.modules  # otherwise models may be compiled already
        self.when_imported(_TRAINER, self._watch)

    def uninstall(self) -> None:
        self._is_over = True
        super().uninstall()

    def _watch(self) -> None:
        trainer = getattr(sys.modules.get(_TRAINER), "Trainer", None)
        if self._is_over or not hasattr(trainer, _RESOLVES):
            self._sees_all = False
        else:
            self.before(trainer, _RESOLVES, self._resolved)

    def _resolved(self, model: Any) -> None:
        # Reading `model.jit_compile` before `compile` also resolves it, but does not store it.
        if sys._getframe(2).f_code.co_name == "compile":
            with suppress(TypeError):  # a model of a class that compares has no hash
                self._automatic.add(model)

    def defined(self, function: str) -> None:
        """Examine the running model if the function is a step of a Keras model."""
        if not _STEP.search(function) or len(self.found) >= _MOST:
            return
        frames = outwards(sys._getframe(1))
        methods = (frame for frame in frames if frame.f_code.co_varnames[:1] == ("self",))
        models = (frame.f_locals.get("self") for frame in methods)
        model = next((each for each in models if hasattr(type(each), _OF_A_MODEL)), None)
        if model is not None and (facts := self._facts(model)) not in self.found:
            self.found.append(facts)

    def _facts(self, model: Any) -> dict[str, Any]:
        layers = list(model._flatten_layers())
        facts: dict[str, Any] = {
            "name": str(model.name),
            "not_compilable": [],
            "recurrent": [found for found in map(_recurrent, layers) if found][:_MOST_LAYERS],
        }
        if not hasattr(model, _RESOLVES):  # of Keras 2
            return facts
        kinds = {kind.__name__ for kind in type(model).__mro__}
        is_automatic: bool | None = model in self._automatic or not model.compiled or None
        if is_automatic is None and self._sees_all:
            is_automatic = False
        return {
            **facts,
            "is_listed": not kinds.isdisjoint(("Functional", "Sequential")),
            "jit_compile": vars(model).get("_jit_compile"),
            "is_auto": is_automatic,
            "not_compilable": [
                (str(layer.name), type(layer).__name__)
                for layer in layers
                if not getattr(layer, "supports_jit", True)
            ],
        }


def _recurrent(layer: Any) -> dict[str, Any] | None:
    kinds = {kind.__name__ for kind in type(layer).__mro__ if _KERAS.match(kind.__module__)}
    kind = next((name for name in ("LSTM", "GRU") if name in kinds), None)
    if kind is None:
        return None
    found: dict[str, Any] = {"name": str(layer.name), "class": kind}
    if isinstance(could := getattr(layer, "_could_use_gpu_kernel", None), bool):
        found["could_use_cudnn"] = could
    for option in _OPTIONS:
        value = getattr(layer, option, None)
        if callable(value):
            value = _function_name(value)
        if isinstance(value, (bool, int, float, str)):
            found[option] = value
    return found


def _function_name(function: Any) -> str:
    module = str(getattr(function, "__module__", ""))
    name = str(getattr(function, "__name__", type(function).__name__))
    is_known = module.partition(".")[0] in ("keras", "tf_keras", "tensorflow")
    return name if is_known else module + "." + name
