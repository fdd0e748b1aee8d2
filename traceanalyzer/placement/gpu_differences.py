"""What a captured program itself does differently on a machine with a GPU.

A replay places the captured graphs. Some code makes other graphs when it sees a GPU; then what is
said about the captured ops does not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.capture_file.visibility import only_some_sessions_have_no_gpu
from traceanalyzer.format import listed
from traceanalyzer.placement.failure import failure
from traceanalyzer.placement.keras_models import (
    all_recurrent_layers,
    doubt_in_a_loop,
    keras_step_differences,
    loop_differences,
    may_be_compiled,
    replaced_loop,
    strategies,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile

_MOST_LINES: Final = 3  # that one sentence names
_SESSION: Final = "a session of the program is given device_count={'GPU': 0}, and may run it"


def differences(capture_file: CaptureFile) -> Iterator[str]:
    """Walk what the program may do differently with a GPU, a sentence each."""
    failed = failure(capture_file)
    if failed is not None:
        at = f" at {failed.at}" if failed.at else ""
        yield f"The program failed{at}; what it would do after that was not recorded."
    yield from keras_step_differences(capture_file)
    yield from loop_differences(capture_file)
    questions = gpu_questions(capture_file)
    chosen = sorted(capture_file.chosen)[:_MOST_LINES]
    requests = [line_text(capture_file.frames[at]) for at in chosen]
    if questions and requests:
        yield f"T{choice_by_gpus(questions, requests)[1:]}."
    elif questions:
        yield (
            f"{listed(questions)} {'asks' if len(questions) == 1 else 'ask'} which GPUs there are: "
            "the program may do something else if there is one."
        )
    elif requests:
        yield (
            f"The device requested at {listed(requests)} is computed or conditional: the program "
            "may request another one there."
        )
    if only_some_sessions_have_no_gpu(capture_file):
        yield (
            "A session of the program is given device_count={'GPU': 0}, another is not. The "
            "capture does not show which of them ran an op: this prediction applies to the other."
        )
    by_gpus = _strategies_by_gpus(capture_file)
    if by_gpus:
        yield (
            f"{listed(by_gpus)} runs the program once per GPU. This prediction applies to one GPU; "
            "with more, the program builds other graphs."
        )


def choice_by_gpus(questions: Sequence[str], requests: Sequence[str]) -> str:
    """Return that a program may request another device if it finds a GPU."""
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


def _strategies_by_gpus(capture_file: CaptureFile) -> list[str]:
    """Return the program's strategies that depend on the GPUs there are."""
    return [name for name in strategies(capture_file) if not name.startswith("OneDevice")]


def gone_on_a_gpu(capture_file: CaptureFile, node: str) -> str:
    """Return why an op of a function does not exist on a machine with a GPU, or ""."""
    return replaced_loop(all_recurrent_layers(capture_file), node)


def hidden_in_a_session(capture_file: CaptureFile, function: str) -> str:
    """Return why an op of a session may have no GPU where there is one, or ""."""
    is_hidden = is_session(function) and only_some_sessions_have_no_gpu(capture_file)
    return _SESSION if is_hidden else ""


def doubt_on_a_gpu(capture_file: CaptureFile, function: str, node: str = "") -> str:
    """Return why an op of a function may not exist on a machine with a GPU, or ""."""
    if doubt := doubt_in_a_loop(all_recurrent_layers(capture_file), node):
        return doubt
    if may_be_compiled(capture_file, function):
        return "Keras may compile its step with XLA there"
    if _strategies_by_gpus(capture_file):
        return "the program's distribution strategy depends on the devices there are"
    return ""
