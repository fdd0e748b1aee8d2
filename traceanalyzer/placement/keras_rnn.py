"""Keras' LSTM and GRU, which run as one op of cuDNN instead of a loop where TensorFlow has a GPU.

Keras 3 chooses while it makes the graph (`inner_loop`, keras/src/layers/rnn/lstm.py and gru.py;
`cudnn_ok`, keras/src/backend/tensorflow/rnn.py; read in 3.0 to 3.15). Keras 2 does so when the
layer is made (`_could_use_gpu_kernel`, tf_keras/src/layers/rnn/lstm.py and gru.py); what becomes of
its loop then is in `swapped_functions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import listed
from traceanalyzer.placement.swapped_functions import OP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Json

__all__ = ["Recurrent", "doubt_in_a_loop", "loops_of_keras", "recurrent_of", "replaced_loop"]

# Before that version `dropout` ruled cuDNN out as well.
_DROPOUT_ALLOWED_SINCE: Final = (3, 4)
_NEEDED: Final[Mapping[str, Json]] = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "unroll": False,
    "reset_after": True,
}
_CONDITIONS: Final = (
    "activation tanh, recurrent_activation sigmoid, recurrent_dropout 0, unroll=False, "
    "use_bias=True, for GRU reset_after=True, and use_cudnn not False"
)
_MASKS: Final = "A mask must be padded on the right there"
_BY_NAME: Final = re.compile(r"(?:^|/)(lstm|gru)(?:_\d+)?/(?:.*/)?while(?:_\d+)?/", re.IGNORECASE)
_LOOP: Final = re.compile(r"while(?:_\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """An LSTM or GRU of a model that ran.

    Attributes:
        name: The layer's name.
        kind: `LSTM` or `GRU`.
        obstacle: The options that rule cuDNN out, as the program writes them; "" where none does.
        forbids_xla: Whether Keras leaves XLA out for it where there is a GPU.
        is_of_keras_2: Whether it is a layer of Keras 2, whose loop with cuDNN is a function's.
    """

    name: str
    kind: str
    obstacle: str
    forbids_xla: bool
    is_of_keras_2: bool = False

    @property
    def text(self) -> str:
        """Its name and class."""
        return f"{self.name} ({self.kind})"


def recurrent_of(model: Mapping[str, Json], keras_version: str) -> tuple[Recurrent, ...]:
    """Return the recurrent layers of a model, as the recorder noted them.

    Args:
        model: What it noted; see `recorder/keras_models.py`.
        keras_version: The version of Keras.
    """
    told = model.get("recurrent")
    layers = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    return tuple(_recurrent(layer, keras_version) for layer in layers)


def _recurrent(layer: Mapping[str, Json], keras_version: str) -> Recurrent:
    refused = [
        f"{option}={layer[option]!r}"
        for option, needed in _NEEDED.items()
        if layer.get(option, needed) != needed
    ]
    if layer.get("use_cudnn") is False:
        refused.append("use_cudnn=False")
    forbids_xla = not refused
    if layer.get("recurrent_dropout"):
        refused.append(f"recurrent_dropout={layer['recurrent_dropout']}")
    could_use = layer.get("could_use_cudnn")
    if isinstance(could_use, bool):
        return Recurrent(
            name=str(layer.get("name")),
            kind=str(layer.get("class")),
            obstacle="" if could_use else " and ".join(refused) or "one of its options",
            forbids_xla=False,
            is_of_keras_2=True,
        )
    if layer.get("dropout") and _version(keras_version) < _DROPOUT_ALLOWED_SINCE:
        refused.append(f"dropout={layer['dropout']} (before Keras 3.4)")
    return Recurrent(
        name=str(layer.get("name")),
        kind=str(layer.get("class")),
        obstacle=" and ".join(refused),
        forbids_xla=forbids_xla,
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def replaced_loop(layers: Sequence[Recurrent], node: str) -> str:
    """Return why a node is in no graph that the program makes with a GPU, or "".

    Args:
        layers: The recurrent layers of all models.
        node: Its name.
    """
    found = _layers_of(layers, node)
    if not found or any(layer.obstacle or layer.is_of_keras_2 for layer in found):
        return ""
    return f"Keras runs {found[0].text} as one op of cuDNN ({OP}) there, not as this loop"


def doubt_in_a_loop(layers: Sequence[Recurrent], node: str) -> str:
    """Return why a node may not be there with a GPU: a loop of an LSTM or GRU, or "".

    Nothing is doubtful of a layer that was recorded. A loop with such a name is one that stays, in
    Keras 2.
    """
    if _BY_NAME.search(node) is None:
        return ""
    found = _layers_of(layers, node)
    if found and len({bool(layer.obstacle) for layer in found if not layer.is_of_keras_2}) < 2:  # noqa: PLR2004
        return ""
    return "Keras may run this loop as one op of cuDNN there"


def _layers_of(layers: Sequence[Recurrent], node: str) -> list[Recurrent]:
    """Return the layers in whose loop a node may be: by the scopes that its name tells."""
    scopes = node.split("/")
    at = next((k for k, scope in enumerate(scopes) if _LOOP.fullmatch(scope)), 0)
    around = scopes[:at]
    return [
        layer
        for layer in layers
        if any(re.fullmatch(rf"{re.escape(layer.name)}(?:_\d+)?", scope) for scope in around)
    ]


def loops_of_keras(capture_file: CaptureFile, layers: Sequence[Recurrent]) -> Iterator[str]:
    """Walk what Keras does with LSTM and GRU layers where there is a GPU, a sentence each."""
    fused = [layer.text for layer in layers if not (layer.obstacle or layer.is_of_keras_2)]
    if fused:
        yield (
            f"With a GPU, Keras runs {listed(fused)} as one op of cuDNN each ({OP}) instead of "
            f"the captured loop; ops of the loop are left out here. {_MASKS}, or Keras raises an "
            "error."
        )
    for layer in layers:
        if layer.obstacle:
            yield f"{refusal(layer)}."
    if any(doubt_in_a_loop(layers, name) for name in _names(capture_file)):
        yield (
            "With a GPU, Keras runs an LSTM or GRU as one op of cuDNN instead of the captured loop "
            f"if its options are {_CONDITIONS}. {_MASKS}. The options were not recorded: no fit, "
            "evaluate or predict ran the model."
        )


def refusal(layer: Recurrent) -> str:
    """Return that a layer is a loop with a GPU too, and which options are why."""
    return (
        f"{layer.text} is a loop of small ops on a GPU too: {layer.obstacle} rules out cuDNN, "
        "which would run the layer as one op"
    )


def _names(capture_file: CaptureFile) -> Iterator[str]:
    for function in capture_file.functions:
        for instance in function.instances:
            yield from instance.input.names
