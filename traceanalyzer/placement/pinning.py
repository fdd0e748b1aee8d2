"""Whether `pin_to_host_optimization` is on: it moves small ops to the host after placement.

It is off by default. `tf.config.optimizer` switches it on for all functions; a session of
TensorFlow 1 has options of its own, in place of those. See `MetaOptimizer::InitializeOptimizers`
(core/grappler/optimizers/meta_optimizer.cc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import CaptureFile, Json

OPTION: Final = "pin_to_host_optimization"
_OPTIMIZER: Final = "pin_to_host"  # its name in a list of them
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
        return _OPTIMIZER in named
    return rewrites.get(OPTION) == "ON" and rewrites.get("disable_meta_optimizer") is not True
