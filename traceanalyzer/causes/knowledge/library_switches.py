"""What a program can do about what a library makes: the library's lines are not to be edited."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import library_of, line_text, lines_text
from traceanalyzer.evidence.retyping import variable_fix
from traceanalyzer.model import Fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker

__all__ = ["MAP_AND_SERVE", "PREPROCESSING", "SERVING", "around", "fixes_of_variables", "switch_of"]

MAP_THE_LAYER: Final = (
    "dataset = dataset.map(lambda x, y: (layer(x), y), "
    "num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)"
)
MAP_AND_SERVE: Final = (
    f"{MAP_THE_LAYER}\nserving = keras.Model(raw, model(layer(raw)))  # to export"
)
SERVING: Final = (
    "To serve raw inputs, export a second model with the layer ahead of the trained one."
)
_PREPROCESSING_FOLDERS: Final = (
    "keras/src/layers/preprocessing/",
    "keras/layers/preprocessing/",
)
# Functions of such layers that make them, fill their tables and read these out (Keras 3.15).
_SET_UP: Final = frozenset(
    {
        *("__init__", "adapt", "update_state", "finalize_state", "reset_state", "_num_tokens"),
        *("get_vocabulary", "set_vocabulary", "vocabulary_size", "_record_vocabulary_size"),
        *("_uninitialized_lookup_table", "_lookup_table_from_tokens", "_lookup_table_from_file"),
        *("_find_repeated_tokens", "_tensor_vocab_to_numpy", "_inverse_document_frequency"),
        *("load_assets", "save_assets"),
    }
)
_AHEAD: Final = (
    "Take the layer out of the model and call it in the input pipeline, ahead of the model; on a "
    "GPU machine the pipeline runs beside the step."
)
_IN_SET_UP: Final = "That is set-up, which a step does not repeat: nothing to change."
# Files of Keras 3 whose layers work on strings or look keys up.
PREPROCESSING: Final = (
    "keras/src/layers/preprocessing/text_vectorization.py",
    "keras/src/layers/preprocessing/index_lookup.py",
    "keras/src/layers/preprocessing/hashing.py",
    "keras/src/layers/preprocessing/hashed_crossing.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switch:
    """What avoids ops of a library.

    Attributes:
        folders: Where the library makes them: parts of paths.
        ops: The op types; none for all.
        text: What to do.
        code: The code to write.
    """

    folders: tuple[str, ...]
    ops: frozenset[str] = frozenset()
    text: str
    code: str


_SWITCHES: Final = (
    _Switch(
        folders=("keras/",),
        ops=frozenset(
            {
                "ResizeArea",
                "ResizeBicubic",
                "ResizeBicubicGrad",
                "ScaleAndTranslate",
                "ScaleAndTranslateGrad",
            }
        ),
        text=(
            'Give the layer `interpolation="bilinear"` or `"nearest"`, without `antialias`: these '
            "have GPU kernels. The pixels differ a little."
        ),
        code='interpolation="bilinear"',
    ),
    _Switch(folders=PREPROCESSING, text=f"{_AHEAD} {SERVING}", code=MAP_AND_SERVE),
    _Switch(folders=_PREPROCESSING_FOLDERS, text=_AHEAD, code=MAP_THE_LAYER),
    _Switch(
        folders=("keras/src/metrics/", "keras/metrics/"),
        text="Compute the metric once an epoch instead of in each step of `fit`.",
        code="model.compile(..., metrics=[])  # and metric.update_state(y, model.predict(x))",
    ),
    # `Retrieval.call` (tasks/retrieval.py, 0.7.7); its documentation advises this too.
    _Switch(
        folders=(
            "tensorflow_recommenders/layers/factorized_top_k.py",
            "tensorflow_recommenders/metrics/factorized_top_k.py",
        ),
        text=(
            "Where it is the metric `FactorizedTopK`, which searches all candidates for each "
            "batch, leave it out of training; `evaluate` still computes it."
        ),
        code="loss = self.task(queries, candidates, compute_metrics=not training)",
    ),
)


def around(op: str, frame: Frame) -> Fix:
    """Return what can be done about an op that a library makes at a line.

    Args:
        op: The op type.
        frame: The library's line.
    """
    library = library_of(frame)
    return switch_of(op, frame) or Fix(
        text=(
            f"{_inside(frame)} Your code has no line to change; see whether {library} has an "
            "option or a newer version that avoids the op, or call that part outside of the step."
        )
    )


def switch_of(op: str, frame: Frame) -> Fix | None:
    """Return the library's own switch that avoids an op made at a line of it; None if unknown.

    Args:
        op: The op type.
        frame: The library's line.
    """
    path = frame.file.replace("\\", "/")
    if frame.code in _SET_UP and any(f"/{folder}" in path for folder in _PREPROCESSING_FOLDERS):
        return Fix(text=f"{_inside(frame)} {_IN_SET_UP}")
    for switch in _SWITCHES:
        if any(f"/{folder}" in path for folder in switch.folders) and op in (switch.ops or {op}):
            return Fix(text=f"{_inside(frame)} {switch.text}", code=switch.code)
    return None


def _inside(frame: Frame) -> str:
    return f"{library_of(frame)} makes the op itself ({line_text(frame)}, in `{frame.code}`)."


def fixes_of_variables(dtype: str, blocker: Iterable[RecordedBlocker]) -> Iterator[Fix]:
    """Walk what to do about variables of a type that a GPU cannot hold, or not compute with.

    Variables that different types suit have a fix each, with the lines that make them.

    Args:
        dtype: Their type.
        blocker: What holds ops with them: it tells who made them, and which types suit their users.
    """
    alike: dict[tuple[str, ...] | None, list[RecordedBlocker]] = {}
    inside: dict[Frame, None] = {}
    for each in blocker:
        if each.made_in is None:
            alike.setdefault(each.types, []).append(each)
        else:
            inside[each.made_in] = None
    for types, variables in alike.items():
        fix = variable_fix(dtype, types)
        lines = lines_text([v.made_at or v.frame for v in variables])
        is_one = len(alike) == 1 and not inside
        yield fix if is_one or not lines else replace(fix, text=f"At {lines}: {fix.text}")
    yield from (around("VarHandleOp", frame) for frame in list(inside)[:1])
