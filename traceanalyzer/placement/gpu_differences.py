"""Where a program itself would do something else on a machine with a GPU.

A replay places the graphs that were captured. Some code makes other graphs when it sees a GPU; what
is said of these ops then holds for nothing that would run there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.format import listed
from traceanalyzer.placement.devices import CPU
from traceanalyzer.placement.failure import failure
from traceanalyzer.placement.keras_rnn import (
    Recurrent,
    doubt_in_a_loop,
    loops_of_keras,
    recurrent_of,
    refusal,
    replaced_loop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile

__all__ = [
    "choice_by_gpus",
    "differences",
    "doubt_on_a_gpu",
    "gone_on_a_gpu",
    "gpu_questions",
    "what_keras_compiled",
    "without_cudnn",
]

# Keras 3 makes its steps under these names (keras/src/backend/tensorflow/trainer.py, 3.0 to 3.15).
_KERAS_STEP: Final = re.compile(r"__inference_(?:one|multi)_step_on_(?:iterator|data)_")
_PUBLIC_NAMES: Final = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    "ParameterServerStrategyV1": "ParameterServerStrategy",
    "ParameterServerStrategyV2": "ParameterServerStrategy",
}
_MOST_LINES: Final = 3  # that one sentence names
_MOST_MODELS: Final = 20  # that the recorder looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A model of Keras 3 that ran, as the capture found it; see `recorder/keras_models.py`.

    Attributes:
        name: Its name.
        compiles: `jit_compile` as Keras resolved it on the program's machine; None if not yet.
        not_compilable: The layers that XLA cannot compile, as `name (Class)`. One of them suffices
            for Keras to leave XLA out, whatever the program says.
        is_listed: Whether all its layers were there when it was compiled.
        is_auto: Whether the program left `jit_compile` to Keras; None where it was not recorded.
        recurrent: Its LSTM and GRU layers.
    """

    name: str
    compiles: bool | None
    not_compilable: tuple[str, ...]
    is_listed: bool
    is_auto: bool | None = None
    recurrent: tuple[Recurrent, ...] = ()

    @property
    def keeps_xla_out(self) -> tuple[str, ...]:
        """The layers for which Keras leaves XLA out where there is a GPU."""
        return (*self.not_compilable, *(r.text for r in self.recurrent if r.forbids_xla))

    @property
    def is_never_compiled(self) -> bool:
        """Whether XLA compiles its steps on no machine: the program says so, or a layer does."""
        if self.is_auto is False and self.compiles is False:
            return True
        return self.is_listed and bool(self.keeps_xla_out)


def _recurrent(capture_file: CaptureFile) -> list[Recurrent]:
    """Return the recurrent layers of all models; of equal ones one."""
    return list(dict.fromkeys(r for model in _models(capture_file) for r in model.recurrent))


def _models(capture_file: CaptureFile) -> list[_Model]:
    devices = capture_file.devices or {}
    told = devices.get("keras_models")
    found = []
    for each in told if isinstance(told, list) else ():
        if isinstance(each, dict) and isinstance(layers := each.get("not_compilable"), list):
            compiles, is_auto = each.get("jit_compile"), each.get("is_auto")
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
                    is_auto=is_auto if isinstance(is_auto, bool) else None,
                    recurrent=recurrent_of(each, str(devices.get("keras_version"))),
                )
            )
    return found


def what_keras_compiled(capture_file: CaptureFile) -> Iterator[str]:
    """Walk what Keras did with XLA on a machine with a GPU, a sentence for each model."""
    if not _had_gpu(capture_file):
        return
    for model in _models(capture_file):
        if model.compiles:
            yield (
                f"Keras has XLA compile the steps of the model {model.name}: their ops are parts "
                "of kernels, not placed one by one"
            )
        elif model.compiles is not None:
            yield (
                f"Keras does not have XLA compile the steps of the model {model.name}, so their "
                f"ops are placed one by one: {_why_not(model, capture_file)}"
            )


def without_cudnn(capture_file: CaptureFile) -> Iterator[str]:
    """Walk the LSTM and GRU layers that ran as loops on a machine with a GPU, a sentence each."""
    if _had_gpu(capture_file):
        yield from (refusal(layer) for layer in _recurrent(capture_file) if layer.obstacle)


def _had_gpu(capture_file: CaptureFile) -> bool:
    physical = (capture_file.devices or {}).get("physical")
    known = physical if isinstance(physical, list) else []
    return any(d.get("type") != CPU for d in known if isinstance(d, dict))


def _why_not(model: _Model, capture_file: CaptureFile) -> str:
    """Return why Keras left XLA out, the first reason that it looks at.

    See `_resolve_auto_jit_compile` and `model_supports_jit` (keras/src/trainers/trainer.py, 3.8 and
    3.15).
    """
    if model.keeps_xla_out:
        return f"XLA cannot compile {listed(model.keeps_xla_out)}"
    devices = capture_file.devices or {}
    if _strategies(capture_file):
        return "the program uses a distribution strategy"
    if devices.get("deterministic_ops"):
        return "the program asked for deterministic ops"
    if model.is_auto:
        return 'Keras decided so itself, for jit_compile="auto"'
    return "its layers can be compiled, and the program says jit_compile=False"


def differences(capture_file: CaptureFile) -> Iterator[str]:
    """Walk what a captured program would do otherwise with a GPU, a sentence each."""
    failed = failure(capture_file)
    if failed is not None:
        at = f" at {failed.at}" if failed.at else ""
        yield f"The program failed{at}; what it would do after that was not recorded."
    functions = [f.name for f in capture_file.functions]
    if any(map(_KERAS_STEP.match, functions)):
        yield from _of_keras_steps(capture_file)
    yield from loops_of_keras(capture_file, _recurrent(capture_file))
    questions = gpu_questions(capture_file)
    requests = [
        line_text(capture_file.frames[at]) for at in sorted(capture_file.chosen)[:_MOST_LINES]
    ]
    if questions and requests:
        yield f"T{choice_by_gpus(questions, requests)[1:]}."
    elif questions:
        yield (
            f"{listed(questions)} {'asks' if len(questions) == 1 else 'ask'} which GPUs there are: "
            "the program may do something else where there is one."
        )
    elif requests:
        yield (
            f"The device that is asked for at {listed(requests)} is computed, or a condition is "
            "around it: the program may ask for another one there."
        )
    strategies = _strategies_by_gpus(capture_file)
    if strategies:
        yield (
            f"{listed(strategies)} runs the program once for each GPU: what is shown here holds "
            "for one GPU, and with more the program builds other graphs."
        )


def choice_by_gpus(questions: Sequence[str], requests: Sequence[str]) -> str:
    """Say that a program may request another device where it finds a GPU."""
    return (
        f"the program asks whether there is a GPU ({listed(questions[:_MOST_LINES])}), and its "
        f"request for the CPU ({listed(requests)}) is computed or conditional; on a machine with a "
        "GPU it may request the GPU instead"
    )


def gpu_questions(capture_file: CaptureFile) -> list[str]:
    """Return the lines that ask for GPUs and whose answer may matter, as `train.py:3`."""
    found = (capture_file.devices or {}).get("gpu_questions")
    return [
        f"{str(place[0]).replace(chr(92), '/').rpartition('/')[2]}:{place[1]}"
        for place in (found if isinstance(found, list) else ())
        if isinstance(place, list) and len(place) == 2  # noqa: PLR2004 - file, line
    ]


def _strategies(capture_file: CaptureFile) -> list[str]:
    """Return the strategies that the program made, by name."""
    found = (capture_file.devices or {}).get("strategies")
    return [
        _PUBLIC_NAMES.get(str(name), str(name))
        for name in (found if isinstance(found, list) else ())
        if not str(name).startswith("_Default")  # which TensorFlow uses where a program has none
    ]


def _strategies_by_gpus(capture_file: CaptureFile) -> list[str]:
    """Return those of the strategies that go by the GPUs there are."""
    return [name for name in _strategies(capture_file) if not name.startswith("OneDevice")]


def _of_keras_steps(capture_file: CaptureFile) -> Iterator[str]:
    models = _models(capture_file)
    deterministic = (capture_file.devices or {}).get("deterministic_ops")
    for model in models:
        if model.not_compilable:
            yield (
                f"Keras does not compile the steps of the model {model.name} with XLA on a GPU "
                f"either: XLA cannot compile {listed(model.not_compilable)}. Its ops are placed "
                "one by one. Move what these layers do out of the model, as preprocessing can be, "
                "and Keras compiles the rest."
            )
        elif model.keeps_xla_out:
            yield (
                f"Keras does not compile the steps of the model {model.name} with XLA on a GPU "
                "either: XLA cannot compile the op of cuDNN for layers like "
                f"{listed(model.keeps_xla_out)}. Its ops are placed one by one."
            )
        elif model.compiles:
            yield f"Keras compiles the steps of the model {model.name} with XLA on every machine."
        elif model.is_auto:
            # Versions of Keras differ in whether these keep XLA out.
            may = "may compile" if _strategies(capture_file) or deterministic else "compiles"
            yield (
                f"With a GPU, Keras {may} the steps of the model {model.name} with XLA "
                '(jit_compile="auto"): their ops are then parts of kernels, not placed one by one.'
            )
    if not models or any(m.is_auto is None and not m.is_never_compiled for m in models):
        yield (
            'With a GPU, Keras compiles its steps with XLA (jit_compile="auto", the default), '
            "unless the program says jit_compile=False or a layer cannot be compiled: their ops "
            "are then parts of kernels, not placed one by one."
        )


def _is_never_compiled(capture_file: CaptureFile, function: str) -> bool:
    """Return whether XLA compiles a step of Keras on no machine, whichever model it is of.

    Only what was defined under the recorder is of a model that it looked at; a layer that is made
    after `compile` comes too late to keep XLA out.
    """
    models = _models(capture_file)
    if capture_file.definition(function) is None or not 0 < len(models) < _MOST_MODELS:
        return False
    return all(model.is_never_compiled for model in models)


def gone_on_a_gpu(capture_file: CaptureFile, node: str) -> str:
    """Return why an op of a function is not there on a machine with a GPU, or ""."""
    return replaced_loop(_recurrent(capture_file), node)


def doubt_on_a_gpu(capture_file: CaptureFile, function: str, node: str = "") -> str:
    """Return why an op of a function may not be there on a machine with a GPU, or ""."""
    if doubt := doubt_in_a_loop(_recurrent(capture_file), node):
        return doubt
    if _KERAS_STEP.match(function) and not _is_never_compiled(capture_file, function):
        return "Keras may compile the step that it is in with XLA there"
    if _strategies_by_gpus(capture_file):
        return "the program's distribution strategy goes by the devices that there are"
    return ""
