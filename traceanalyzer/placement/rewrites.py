"""Ops that no program creates: TensorFlow's rewrites replace the program's ops with them.

Such an op often has no GPU kernel because it only replaces ops that were already placed on the
CPU; its blockers are those of the replaced ops. The rewrites are those of
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

from traceanalyzer.placement import kernel_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import CaptureFile, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The ops that a rewritten op replaces."""

    ops: tuple[str, ...]  #: op types of the program, the one with the most to compute first
    #: Whether these are all. If not, attributes name others, or a pattern of many ops was fused.
    is_complete: bool = True


_OTHERS: Final = "..."
_FACTS: Final[dict[str, Any]] = tomllib.loads(kernel_tables.read("rewrites.toml"))
RUNTIMES_OWN: Final = frozenset(_FACTS["runtimes_own"]["ops"])
PROGRAMS_OWN: Final = frozenset(_FACTS["programs_own"]["ops"])
_STAND_FOR: Final[dict[str, list[str]]] = _FACTS["stands_for"]["ops"]
# `__MklDummyPadWithFusedConv2D`, `_MklNativeConv2DWithBias`, `_FusedMatMul`, `_MklRelu`, `_While`
_NAME: Final = re.compile(
    r"(?:__MklDummy|_MklNative|_Mkl|_(?=Fused|If|While))"
    r"(?P<pad>PadWith)?(?P<fused>Fused(?!BatchNorm))?(?P<op>\w+?)(?P<bias>WithBias)?"
)
_QUANTIZED: Final = "Quantized"  # its ops have names that contain the fused ops


def original(op: str) -> Rewritten | None:
    """Return the ops of the program that an op replaces.

    Returns:
        The ops that its name shows; None if a program can create such an op, if the runtime creates
        it for its own use, and if no version of TensorFlow has it.
    """
    if not op.startswith("_") or op in RUNTIMES_OWN or op in PROGRAMS_OWN:
        return None
    if op not in kernel_tables.paragraphs(kernel_tables.DEFINITIONS):
        return None
    found = _NAME.fullmatch(op)
    if op in _STAND_FOR:
        named = tuple(name for name in _STAND_FOR[op] if name != _OTHERS)
        return Rewritten(ops=named, is_complete=len(named) == len(_STAND_FOR[op]))
    if found is None:  # an op of a newly added version, for which a test fails
        return Rewritten(ops=(), is_complete=False)
    name = found["op"]
    if name.startswith(_QUANTIZED):
        return Rewritten(ops=(f"{name}{found['bias'] or ''}",))
    # Grappler and oneDNN add a prefix and suffix; attributes name the other fused ops.
    ops = ["FusedBatchNormV3" if name == "FusedBatchNormEx" else name]
    if found["pad"]:
        ops.append("Pad")
    if found["bias"]:
        ops.append("BiasAddGrad" if name.endswith("Filter") else "BiasAdd")
    is_complete = not found["fused"] and name != "FusedBatchNormEx"
    return Rewritten(ops=tuple(ops), is_complete=is_complete)


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
