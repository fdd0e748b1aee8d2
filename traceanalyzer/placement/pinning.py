"""Whether a program has `pin_to_host_optimization` on, and what it takes to the host of a function.

It is off by default. `tf.config.optimizer` switches it on for all functions; a session of
TensorFlow 1 has options of its own, in place of those. See `MetaOptimizer::InitializeOptimizers`
(core/grappler/optimizers/meta_optimizer.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.placement.pin_to_host import pinned_to_host
from traceanalyzer.placement.static_sizes import static_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import CaptureFile, Json
    from traceanalyzer.placement.program import FunctionPlacement
    from traceanalyzer.placement.registry import Registry

__all__ = ["OPTIMIZER", "OPTION", "Pinning", "pinned_of", "pinning", "pins_nothing"]

OPTION: Final = "pin_to_host_optimization"
OPTIMIZER: Final = "pin_to_host"  # its name in a list of them
_FOLDING: Final = "constant_folding"
_FOLDER: Final = "constfold"
_LEAST_NODES: Final = 4  # `kDefaultMinGraphNodes`


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """How the optimizer was switched on.

    Attributes:
        by: Whether by the program, or by what a session was configured with.
        folds: Whether constants are folded before.
        least_nodes: Smaller graphs are not optimized.
    """

    by: Literal["program", "session"]
    folds: bool = True
    least_nodes: int = _LEAST_NODES


def pinning(capture_file: CaptureFile, *, is_of_session: bool) -> Pinning | None:
    """Return how it is on for a session's graph, or for a function; None where it is off."""
    configs = capture_file.session_configs if is_of_session else ()
    for config in configs:
        if config.is_own and (found := _of_session(config.rewrites)) is not None:
            return found
    if configs and all(config.is_own for config in configs):
        return None
    options = (capture_file.devices or {}).get("optimizer_options")
    return _of_program(options) if isinstance(options, dict) else None


def pins_nothing(capture_file: CaptureFile) -> bool:
    """Return whether it is known to be off everywhere.

    The program's options are recorded as it ends; of one that was killed they are not known.
    """
    is_known = isinstance((capture_file.devices or {}).get("optimizer_options"), dict)
    return is_known and not any(pinning(capture_file, is_of_session=of) for of in (False, True))


def pinned_of(
    capture_file: CaptureFile, placed: FunctionPlacement, registry: Registry
) -> Mapping[int, bool]:
    """Return the nodes of a placed function that go to the host; see `pinned_to_host`."""
    is_of_session = is_session(placed.function)
    options = pinning(capture_file, is_of_session=is_of_session)
    graph = placed.placement.nodes.graph
    if options is None or len(graph) < options.least_nodes:
        return {}
    sizes = static_sizes(capture_file, placed.function, graph, is_fed=is_of_session)
    return pinned_to_host(
        placed.placement, capture_file.attributes, registry, sizes, folds=options.folds
    )


def _of_program(options: Mapping[str, Json]) -> Pinning | None:
    if options.get(OPTION) is not True or options.get("disable_meta_optimizer") is True:
        return None
    return Pinning(
        by="program",
        folds=options.get(_FOLDING) is not False,
        least_nodes=_least_nodes(options),
    )


def _of_session(rewrites: Mapping[str, Json]) -> Pinning | None:
    """A list of optimizers is all that runs, where one is given."""
    named = rewrites.get("optimizers")
    if isinstance(named, list) and named:
        is_on, folds = OPTIMIZER in named, _FOLDER in named
    else:
        is_off = rewrites.get("disable_meta_optimizer") is True
        is_on = rewrites.get(OPTION) == "ON" and not is_off
        folds = rewrites.get(_FOLDING) != "OFF"
    if not is_on:
        return None
    return Pinning(by="session", folds=folds, least_nodes=_least_nodes(rewrites))


def _least_nodes(options: Mapping[str, Json]) -> int:
    told = options.get("min_graph_nodes")
    return told if isinstance(told, int) and told else _LEAST_NODES
