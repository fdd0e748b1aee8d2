"""Every node of what datasets call is predicted where TensorFlow puts it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import traceanalyzer as ta
from tests.emulator.oracle import the_oracle
from traceanalyzer.placement.dataset_calls import functions_of_datasets
from traceanalyzer.placement.program import machine_of, place_program, with_gpus

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile

_PROGRAM: Final = Path(__file__).with_name("programs") / "dataset_functions.py"
_CAPTURE: Final = "tests.labelled.captured_in_fork:capture"
_FEWEST_NODES: Final = 200


def _captured(logdir: Path, gpus: int) -> CaptureFile:
    outcome = the_oracle().run(_CAPTURE, str(_PROGRAM), str(logdir), 2, gpus=gpus)
    assert outcome.exit_code == 0, outcome.error
    capture_file = ta.load(logdir).hosts[0].capture_file
    assert capture_file is not None
    return capture_file


@pytest.mark.slow
def test_functions_of_datasets_are_placed_as_tensorflow_places_them(tmp_path: Path) -> None:
    truth: dict[tuple[str, str], set[str]] = defaultdict(set)
    for function in _captured(tmp_path / "1", 1).functions:
        for instance in function.instances:
            for name, device in zip(instance.input.names, instance.assigned, strict=True):
                truth[function.name, name].add(device)
    capture_file = _captured(tmp_path / "0", 0)
    placed = place_program(capture_file, with_gpus(machine_of(capture_file)))
    wrong, nodes = [], 0
    for function in functions_of_datasets(capture_file):
        for way in placed.functions[function]:
            graph = way.placement.nodes.graph
            for name, device in zip(graph.names, way.placement.devices, strict=True):
                nodes += 1
                if device not in truth[function, name]:
                    wrong.append(f"{function} {name}: {device}")
    assert not wrong
    assert nodes >= _FEWEST_NODES
