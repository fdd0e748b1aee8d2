"""Names of ops that tell of library code which asks for the CPU.

Such code runs in a name scope of its own, and the scope is in the name of each op of a graph. A
name is no proof: a program can open a scope of that name, and a layer can be given another one.
The code is named by the `sub_reason` of a habit in `causes/library_cpu_placement.py`, or is
`embedding`, which no version does that can be captured.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.placement import kernel_tables
from traceanalyzer.placement.registry import supported

if TYPE_CHECKING:
    from traceanalyzer.placement.kernel_tables import Minor

__all__ = ["SCOPES", "habit_of", "last_minor"]


class _Scope(NamedTuple):
    """Names of what library code makes.

    Attributes:
        habit: What the code does.
        name: Found in the name of an op of it.
        versions: The versions of TensorFlow in which it is so; None for all.
    """

    habit: str
    name: re.Pattern[str]
    versions: tuple[Minor, Minor] | None = None


_NUMBER: Final = r"(?:_\d+)*"  # what TensorFlow and Keras add to a name that is taken
_NEWEST: Final = (999, 0)
_MINORS: Final = re.compile(r"\d+\.\d+")

SCOPES: Final = (
    # `Layer.__call__` of Keras 3 opens a scope of the layer's name, as a rule its class's. The
    # layers ask for the CPU from Keras 3.14 on, which takes TensorFlow 2.16 or later.
    _Scope(
        habit="preprocessing_layer",
        name=re.compile(
            r"(?:^|/)(?:text_vectorization|string_lookup|integer_lookup|hashing|hashed_crossing)"
            rf"{_NUMBER}/"
        ),
        versions=((2, 16), _NEWEST),
    ),
    # `write` and `create_file_writer_v2`, python/ops/summary_ops_v2.py
    _Scope(
        habit="summary",
        name=re.compile(rf"(?:^|/)(?:write_summary|create_file_writer){_NUMBER}(?:/|$)"),
    ),
    # `Saver`, python/training/saver.py: its name is the scope's.
    _Scope(habit="checkpoint", name=re.compile(rf"^save{_NUMBER}/")),
    # `_ProdGrad`, python/ops/math_grad.py: indices, within the scope of a gradient.
    _Scope(
        habit="product_gradient",
        name=re.compile(
            rf"(?:^|/)(?:gradient_tape|gradients{_NUMBER})/(?:.*/)?"
            rf"(?:add|mod|range|ListDiff|concat|GatherV2|Prod){_NUMBER}$"
        ),
    ),
    # `_tile_variant_with_length`, python/ops/parallel_for/pfor.py
    _Scope(habit="vectorized_map", name=re.compile(rf"(?:^|/)pfor/(?:.*/)?Tile{_NUMBER}$")),
    # `Embedding.build` of Keras put its table on the CPU (2.2.3, 2.4.4 and 2.5.3).
    _Scope(
        habit="embedding",
        name=re.compile(rf"(?:^|/)embedding{_NUMBER}/"),
        versions=((2, 2), (2, 5)),
    ),
)


def habit_of(name: str, version: str | None) -> str:
    """Return what library code an op's name tells of; "" for none.

    Args:
        name: Name of an op of a graph.
        version: TensorFlow's version; None for an unknown one, taken for the newest that is
            known.
    """
    minor = last_minor(supported()[-1] if version is None else version)
    for scope in SCOPES:
        first, last = scope.versions or ((0, 0), _NEWEST)
        if scope.name.search(name) and first <= minor <= last:
            return scope.habit
    return ""


def last_minor(version: str) -> Minor:
    """Return a minor version; of a range, such as `2.1 or 2.2`, the last.

    Args:
        version: As `TfVersion.value` has it; what names no version is taken for the newest.
    """
    without_build = version.partition("+")[0]
    return kernel_tables.minor_of((_MINORS.findall(without_build) or supported())[-1])
