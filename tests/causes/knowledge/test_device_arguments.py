"""The argument of a command line that likely chose the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.causes.examples import blocker, line
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.causes.knowledge.device_arguments import argument_note

if TYPE_CHECKING:
    from traceanalyzer.placement.blocker import Blocker

_COMPUTED = replace(line(6), text="with tf.device(args.device):")


def request(scope: str = "/device:CPU:0", **more: Any) -> Blocker:  # noqa: ANN401 - fields of `Blocker`
    fields = {"requested_device": "/device:CPU:0", "scope": scope, "scope_frame": _COMPUTED, **more}
    return blocker("request", "MatMul", **fields)


def noted(
    each: Blocker, *arguments: str, is_computed: bool = True
) -> tuple[str, str | None] | None:
    """The words about an argument of a program that was captured with these, and the code."""
    frames = () if each.scope_frame is None else (each.scope_frame,)
    capture_file = CaptureFile(
        tool="0",
        host="host",
        complete=True,
        command=("traceanalyzer", "capture", "train.py", *arguments),
        frames=frames,
        chosen=frozenset(range(len(frames))) if is_computed else frozenset(),
    )
    note = argument_note([each], [capture_file])
    return None if note is None else (note[1].text, note[1].code)


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("--device=cpu",), "--device=gpu"),
        (("--device", "cpu"), "--device gpu"),
        (("-d", "/cpu:0"), "-d /gpu:0"),
        (("--epochs", "3", "--placement=/device:CPU:0", "--quiet"), "--placement=/device:GPU:0"),
    ],
)
def test_an_argument_with_the_device_as_its_value_is_the_likely_origin(
    arguments: tuple[str, ...], instead: str
) -> None:
    found = noted(request(), *arguments)
    assert found is not None
    assert "likely" in found[0]
    assert found[1] == instead


@pytest.mark.parametrize(
    "arguments",
    [(), ("--device=gpu",), ("--cpu",), ("--device=cpu:1",), ("--workers=cpu_pool",), ("cpu",)],
)
def test_no_other_argument_is_taken_for_it(arguments: tuple[str, ...]) -> None:
    assert noted(request(), *arguments) is None


def test_a_line_that_spells_the_device_out_needs_no_argument() -> None:
    literal = replace(line(6), text='with tf.device("/cpu:0"):')
    assert noted(request(scope_frame=literal), "--device=cpu") is None
    assert noted(request(), "--device=cpu", is_computed=False) is None
