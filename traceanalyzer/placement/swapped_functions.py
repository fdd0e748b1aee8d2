"""The functions of Keras 2's LSTM and GRU, for which grappler takes one of cuDNN on a GPU.

Where the layer's options allow cuDNN, Keras 2 makes two functions with one interface: a loop, which
it calls, and one for GPUs (tf_keras/src/layers/rnn/lstm.py, `lstm_with_backend_selection`; read in
2.12 to 2.21). After placement grappler replaces the loop's function in each call that is on a GPU
(core/grappler/optimizers/implementation_selector.cc). The call of its gradient is replaced alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.format import listed
from traceanalyzer.placement.calls import called_as, calls_of
from traceanalyzer.placement.devices import CPU, parse_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.placement.program import ProgramPlacement

OP: Final = "CudnnRNNV3"
_LOOP: Final = re.compile(
    r"__(?:inference|forward)_(?:__backward_)?standard_(?P<kind>lstm|gru)(?:_\d+)+"
)
_FOR_GPUS: Final = re.compile(r"__\w*_gpu_(lstm|gru)_with_fallback(?:_\d+)+")
_BACKWARD: Final = "___backward_"
_MASK: Final = "mask"  # the argument, in both functions
_PREVENTING: Final = {"implementation_selector": False, "disable_meta_optimizer": True}


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a loop's function: the scope of its node, and the type of its device or ""."""

    scope: str
    device_type: str


class SwappedFunctions:
    """Finds the functions that Grappler would replace on the machine a program is placed on."""

    def __init__(self, capture_file: CaptureFile, program: ProgramPlacement) -> None:
        """Find the calls of such functions.

        Args:
            program: The program, placed on the machine in question.
        """
        self._capture_file = capture_file
        self._loops = [
            d.name
            for d in capture_file.definitions
            if _LOOP.fullmatch(d.name) and _BACKWARD not in d.name
        ]
        names = {d.name for d in capture_file.definitions} | {
            f.name for f in capture_file.functions
        }
        self._kinds = {m[1] for m in map(_FOR_GPUS.fullmatch, names) if m is not None}
        options = (capture_file.devices or {}).get("optimizer_options")
        known = options if isinstance(options, dict) else {}
        if any(known.get(name) is value for name, value in _PREVENTING.items()):
            self._kinds.clear()
        self._calls: dict[str, list[_Call]] = {}
        for placed in (
            (w for instances in program.functions.values() for w in instances)
            if self._kinds
            else ()
        ):
            graph = placed.placement.nodes.graph
            for node, callee in calls_of(graph, capture_file.attributes):
                if self._kind(callee):
                    device = placed.placement.devices[node]
                    kind = parse_device(device).type if device else None
                    scope = graph.names[node].rpartition("/")[0]
                    self._calls.setdefault(callee, []).append(_Call(scope, kind or ""))

    def _kind(self, function: str) -> str:
        match = _LOOP.fullmatch(function)
        return match["kind"] if match is not None and match["kind"] in self._kinds else ""

    def _is_on_gpus(self, function: str) -> bool:
        calls = self._calls.get(function, ())
        return bool(calls) and all(c.device_type not in {"", CPU} for c in calls)

    def gone(self, function: str) -> str:
        """Return why the ops of a function are not there on that machine, or ""."""
        loop = called_as(function)
        kind = self._kind(loop)
        if not kind or not self._is_on_gpus(loop) or self._is_masked(loop):
            return ""
        return f"Keras runs this {kind.upper()} as one op of cuDNN there, not as this loop"

    def doubt(self, function: str) -> str:
        """Return why the ops of a function may not be there, or "".

        The function for GPUs has the loop too, for masks that cuDNN does not take. Or the call was
        not recorded.
        """
        loop = called_as(function)
        if not self._kind(loop) or (loop in self._calls and not self._is_on_gpus(loop)):
            return ""
        if self.gone(function):
            return ""
        return "Keras may run this loop as one op of cuDNN there"

    def _is_masked(self, loop: str) -> bool:
        """Return whether the layer may have a mask.

        A gradient function cannot be matched to one layer, so all loops of its kind are checked.
        """
        if _BACKWARD in loop:
            alike = [f for f in self._loops if self._kind(f) == self._kind(loop)]
            return not alike or any(map(self._is_masked, alike))
        definition = self._capture_file.definition(loop)
        return definition is None or definition.index(_MASK) != UNKNOWN

    def sentences(self) -> Iterator[str]:
        """Walk what grappler replaces, a sentence for layers with masks and one for others."""
        plain: dict[str, None] = {}
        masked: dict[str, None] = {}
        for loop, calls in self._calls.items():
            if _BACKWARD not in loop and self._is_on_gpus(loop):
                found = masked if self._is_masked(loop) else plain
                kind = self._kind(loop).upper()
                found.update((f"{call.scope or 'a layer'} ({kind})", None) for call in calls)
        if plain:
            yield (
                f"With a GPU, Keras runs {listed(list(plain))} as one op of cuDNN ({OP}) instead "
                "of the captured loop; ops of the loop are left out here."
            )
        if masked:
            yield (
                f"With a GPU, Keras runs {listed(list(masked))} as one op of cuDNN ({OP}) where "
                "the mask of a batch is padded on the right, and otherwise as the captured loop."
            )
