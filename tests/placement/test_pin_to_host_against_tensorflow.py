"""What is foretold of `pin_to_host_optimization`, from a capture without a GPU: does it happen?

The program runs on an emulated GPU, where the kernels that TensorFlow makes tell on which device a
node ended; and it is captured without. What both have, and the placer put on the GPU, is compared.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.emulator.oracle import the_oracle
from tests.placement.test_workloads import definition_name
from traceanalyzer.capture_file.document import SESSION
from traceanalyzer.capture_file.files import read
from traceanalyzer.placement.pinning import pinned_of
from traceanalyzer.placement.program import machine_of, place_program, with_gpus

if TYPE_CHECKING:
    from tests.emulator.oracle import Outcome
    from traceanalyzer.capture_file.document import CaptureFile

pytestmark = pytest.mark.slow

_PROGRAM: Final = Path(__file__).with_name("pinned_program.py")
_NOT_COUNTED: Final = frozenset({"_Arg", "_Retval"})

# By name: whether it is on the host, as TensorFlow says, or as was foretold (None: it may be).
Told = dict[str, "bool | None"]


def _on_host(outcome: Outcome) -> Told:
    """Return what TensorFlow's placer put on the GPU, and where its kernels then were.

    A name that several functions have does not tell which of them a kernel was made for.
    """
    made: dict[str, set[bool]] = {}
    for kernel in outcome.kernels:
        made.setdefault(kernel.node, set()).add("/device:CPU:" in kernel.device)
    placed = {
        (definition_name(run.function), name)
        for run in outcome.runs
        if run.assigned and not run.is_eager_op
        for name, op, device in zip(run.graph.names, run.graph.ops, run.assigned, strict=True)
        if "/device:GPU:" in device and op not in _NOT_COUNTED
    }
    count = Counter(name for _, name in placed)
    found = {name: made.get(name, set()) for _, name in placed if count[name] == 1}
    return {name: where == {True} for name, where in found.items() if len(where) == 1}


def _foretold(capture_file: CaptureFile) -> Told:
    """Return the same of a capture."""
    program = place_program(capture_file, with_gpus(machine_of(capture_file)))
    found: Told = {}
    for ways in program.functions.values():
        for way in ways:
            moved = pinned_of(capture_file, way, program.kernels.registry)
            for at, name in enumerate(way.placement.nodes.graph.names):
                found[name] = (moved[at] or None) if at in moved else False
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Told]:
    """What happened and what was foretold, of the nodes that both have."""
    oracle, logdir = the_oracle(), tmp_path_factory.mktemp("capture")
    with_gpu = oracle.run(_PROGRAM, gpus=1)
    capture = "tests.labelled.captured_in_fork:capture"
    without = oracle.run(capture, str(_PROGRAM), str(logdir), 2, gpus=0)
    assert (with_gpu.error, without.error) == ("", "")
    (file,) = logdir.rglob("*.placement.json.gz")
    capture_file = read(file)
    assert capture_file is not None
    assert capture_file.function(SESSION) is not None
    happened, foretold = _on_host(with_gpu), _foretold(capture_file)
    both = happened.keys() & foretold.keys()
    return {n: happened[n] for n in both}, {n: foretold[n] for n in both}


def test_what_is_foretold_happens(told: tuple[Told, Told]) -> None:
    happened, foretold = told
    wrong = {n: foretold[n] for n, is_on_host in happened.items() if foretold[n] is not is_on_host}
    assert {n for n, was_told in wrong.items() if was_told is not None} == set()
    assert sum(happened.values()) > 40  # type: ignore[arg-type]  # none of these is open
    assert sum(not is_on_host for is_on_host in happened.values()) > 40


def test_little_is_left_open(told: tuple[Told, Told]) -> None:
    """What a session is fed, and functions made for any size that were called with a known one."""
    happened, foretold = told
    still_open = {n for n, was_told in foretold.items() if was_told is None}
    assert still_open == {"session_cast", "PartitionedCall/any_cast"}
    assert {happened[n] for n in still_open} == {False, True}
