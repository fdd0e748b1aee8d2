"""Whether Keras 3 has XLA compile the steps of a model, and which layers keep it from that.

`Trainer.jit_compile` resolves "auto" to False where the machine has no GPU and where a layer's
`supports_jit` is False, in Keras 3.15 also where a distribution strategy is used and where op
determinism is on (keras/src/trainers/trainer.py, `_resolve_auto_jit_compile` and
`model_supports_jit`; read in 3.0, 3.8 and 3.15). Layers are asked when TensorFlow turns a step of
their model into a function: `fit` and its kin are running then.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["KerasModels"]

_STEP = "_step_on_"  # one_step_on_data, multi_step_on_iterator and so on
_MOST = 20  # models of one program


class KerasModels:
    """Notes models while they run; none is kept alive for it.

    Attributes:
        found: What is known of each: its name, whether it is Functional or Sequential (and so has
            its layers before it is compiled), `jit_compile` as Keras resolved it, and the layers
            that cannot be compiled, by name and class.
    """

    def __init__(self) -> None:
        """Start with no model known."""
        self.found: List[Dict[str, Any]] = []

    def defined(self, function: str) -> None:
        """Look at the model that is running, if a step of Keras was just defined.

        Args:
            function: Name of the function.
        """
        if _STEP not in function or "keras" not in sys.modules or len(self.found) >= _MOST:
            return
        model = _running_model(sys._getframe(1))  # noqa: SLF001
        facts = None if model is None else _facts(model)
        if facts is not None and facts not in self.found:
            self.found.append(facts)


def _running_model(frame: Optional[FrameType]) -> Any:  # noqa: ANN401 - a Keras model or None
    while frame is not None:
        if frame.f_code.co_varnames[:1] == ("self",):
            model = frame.f_locals.get("self")
            if hasattr(type(model), "_resolve_auto_jit_compile"):
                return model
        frame = frame.f_back
    return None


def _facts(model: Any) -> Dict[str, Any]:  # noqa: ANN401 - a Keras model
    kinds = {kind.__name__ for kind in type(model).__mro__}
    return {
        "name": str(model.name),
        "is_listed": not kinds.isdisjoint(("Functional", "Sequential")),
        "jit_compile": vars(model).get("_jit_compile"),
        "not_compilable": [
            [str(layer.name), type(layer).__name__]
            for layer in model._flatten_layers()  # noqa: SLF001
            if not getattr(layer, "supports_jit", True)
        ],
    }
