"""Ops that no program makes: rewrites of TensorFlow's put them in place of the program's own.

Such an op often has no GPU kernel because it is only made of ops that were placed on the CPU
already; the reasons are those of the ops that it replaces. The rewrites are those of
grappler (`core/grappler/optimizers/remapper.cc`, `arithmetic_optimizer.cc`), of oneDNN
(`core/common_runtime/mkl_layout_pass.cc`, in eager mode `eager/mkl_eager_op_rewrite.cc`), and of
passes over graphs (`nccl_rewrite`, `parallel_concat_optimizer.cc`, `variable_merger_pass.cc`), of
2.12 to 2.21.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from traceanalyzer.capture_file.document import NO_ATTRIBUTES
from traceanalyzer.placement import kernel_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The ops that a rewritten op replaces."""

    ops: tuple[str, ...]  #: op types of the program, the one with the most to compute first
    #: Whether these are all. They are not where the attribute that names the others is missing, or
    #: a pattern of many ops was fused.
    is_complete: bool = True


_OTHERS: Final = "..."


def _rewritten(ops: Collection[str]) -> Rewritten:
    return Rewritten(ops=tuple(op for op in ops if op != _OTHERS), is_complete=_OTHERS not in ops)


_FACTS: Final[dict[str, Any]] = tomllib.loads(kernel_tables.read("rewrites.toml"))
RUNTIMES_OWN: Final = frozenset(_FACTS["runtimes_own"]["ops"])
PROGRAMS_OWN: Final = frozenset(_FACTS["programs_own"]["ops"])
_STAND_FOR: Final = {op: _rewritten(ops) for op, ops in _FACTS["stands_for"]["ops"].items()}
_FUSED: Final = {name: _rewritten(ops) for name, ops in _FACTS["fused"]["ops"].items()}

_COMPOSITION: Final = "_UnaryOpsComposition"
# `__MklDummyPadWithFusedConv2D`, `_MklNativeConv2DWithBias`, `_FusedMatMul`, `_MklRelu`, `_While`
_NAME: Final = re.compile(
    r"(?:__MklDummy|_MklNative|_Mkl|_(?=Fused|If|While))"
    r"(?P<pad>PadWith)?(?P<fused>Fused(?!BatchNorm))?(?P<op>\w+?)(?P<bias>WithBias)?"
)
_QUANTIZED: Final = "Quantized"  # whose ops have names with what was fused in them


def original(op: str, attributes: Attributes = NO_ATTRIBUTES) -> Rewritten | None:
    """Return the ops of the program that an op replaces.

    Args:
        attributes: Its attributes in the capture file's encoding; those that name fused ops
            are `fused_ops`, `activation_mode` and `op_names`.

    Returns:
        The ops; None where a program makes such an op itself, or the runtime for its own; and of
        an op that no version of TensorFlow has.
    """
    if not op.startswith("_") or op in RUNTIMES_OWN or op in PROGRAMS_OWN:
        return None
    if op not in kernel_tables.paragraphs(kernel_tables.DEFINITIONS):
        return None
    if op == _COMPOSITION:
        names = _texts(attributes.get("op_names"))
        return Rewritten(ops=tuple(reversed(names)), is_complete=bool(names))
    name = _NAME.fullmatch(op)
    fuses = op in {"_FusedBatchNormEx", "_FusedBatchNormGradEx"}
    if op in _STAND_FOR:
        base = _STAND_FOR[op]
    elif name is None:  # an op of a newly added version, for which a test fails
        return Rewritten(ops=(), is_complete=False)
    else:
        base = _by_name(name)
        fuses = bool(name["fused"] or name["op"] == "FusedBatchNormEx")
    if not fuses:
        return base
    fused = _fused(attributes, is_gradient=op.endswith("GradEx"))
    return Rewritten(ops=base.ops + fused.ops, is_complete=base.is_complete and fused.is_complete)


def _by_name(found: re.Match[str]) -> Rewritten:
    """Return the op that a name holds: grappler and oneDNN put theirs before and after it."""
    name = found["op"]
    if name.startswith(_QUANTIZED):
        return Rewritten(ops=(f"{name}{found['bias'] or ''}",))
    ops = ["FusedBatchNormV3" if name == "FusedBatchNormEx" else name]
    if found["pad"]:
        ops.append("Pad")
    if found["bias"]:
        ops.append("BiasAddGrad" if name.endswith("Filter") else "BiasAdd")
    return Rewritten(ops=tuple(ops))


def _fused(attributes: Attributes, *, is_gradient: bool) -> Rewritten:
    """Return what was fused into an op besides its own."""
    if not {"fused_ops", "activation_mode"} & {*attributes}:
        return Rewritten(ops=(), is_complete=False)
    names = _texts(attributes.get("fused_ops")) + _texts([attributes.get("activation_mode")])
    if is_gradient:
        names = [f"{name}Grad" for name in names if name != "Identity"]
    elif attributes.get("num_side_inputs"):
        names.append("Add")
    parts = [_FUSED.get(name, Rewritten(ops=(name,))) for name in names]
    return Rewritten(
        ops=tuple(op for part in parts for op in part.ops),
        is_complete=all(part.is_complete for part in parts),
    )


def _texts(values: Json) -> list[str]:
    listed = values if isinstance(values, list) else []
    texts = (value.get("s") for value in listed if isinstance(value, dict))
    return [text for text in texts if isinstance(text, str)]


# --- The move of small ops to the host -----------------------------------------------------------
#
# `pin_to_host_optimization` is off by default. `tf.config.optimizer` switches it on for all
# functions; a session of TensorFlow 1 has options of its own, in place of those. See
# `MetaOptimizer::InitializeOptimizers` (core/grappler/optimizers/meta_optimizer.cc).

OPTION: Final = "pin_to_host_optimization"
# The types of tensors that it moves if they are small: strings, and at most 64 numbers
# (`IsTensorSmall`, core/grappler/optimizers/pin_to_host_optimizer.cc).
MOVED_IF_SMALL: Final = frozenset({"int32", "int64", "float", "string"})


def pinned_by(
    capture_file: CaptureFile, *, is_of_session: bool
) -> Literal["program", "session"] | None:
    """Return what switched it on for a session's graph, or for a function; None if it is off."""
    configs = capture_file.session_configs if is_of_session else ()
    if any(config.is_own and _is_on_in_session(config.rewrites) for config in configs):
        return "session"
    if configs and all(config.is_own for config in configs):
        return None
    options = (capture_file.devices or {}).get("optimizer_options")
    if not isinstance(options, dict) or options.get("disable_meta_optimizer") is True:
        return None
    return "program" if options.get(OPTION) is True else None


def pins_nothing(capture_file: CaptureFile) -> bool:
    """Return whether it is known to be off everywhere.

    The program's options are recorded as it ends; if it was killed they are unknown.
    """
    is_known = isinstance((capture_file.devices or {}).get("optimizer_options"), dict)
    return is_known and not any(pinned_by(capture_file, is_of_session=of) for of in (False, True))


def _is_on_in_session(rewrites: Mapping[str, Json]) -> bool:
    """Return whether a session has it on; a list of optimizers, if given, is all that runs."""
    named = rewrites.get("optimizers")
    if isinstance(named, list) and named:
        return "pin_to_host" in named
    return rewrites.get(OPTION) == "ON" and rewrites.get("disable_meta_optimizer") is not True
