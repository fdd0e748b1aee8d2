"""TensorFlow's dumps, by their names, and what becomes of them."""

import os
from pathlib import Path

import pytest

from tests.capture_file.capture_files import CPU, GPU
from tests.capture_file.graph_proto import GraphDef
from traceanalyzer.capture_file.document import CaptureNote
from traceanalyzer.capture_file.dumps import read_dumps
from traceanalyzer.capture_file.function_records import Function
from traceanalyzer.capture_file.graph_def import AttributePool

CPU_IN_NAME = "_job:localhost_replica:0_task:0_device:CPU:0"
GPU_IN_NAME = "_job:localhost_replica:0_task:0_device:GPU:0"
INPUT, ASSIGNED = "before_placer", "before_post_placement_passes"
PARTITION = "after_partition_passes"


class Folder:
    """A folder of dumps, written one after another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._time = 1_000_000_000

    def dump(self, name: str, *devices: str, nodes: str = "ab") -> None:
        graph = GraphDef()
        for node, device in zip(nodes, devices, strict=False):
            graph.node.add(name=node, op="Op", device=device).attr["T"].type = 1
        self.write(name, graph.SerializeToString())

    def write(self, name: str, data: bytes) -> None:
        self._time += 1_000_000_000
        (self._path / name).write_bytes(data)
        os.utime(self._path / name, ns=(self._time, self._time))

    def instance(self, function: str, number: int, *, partitions: dict[str, int]) -> None:
        """What one instantiation dumps, partitions by device with their own numbers."""
        self.dump(f"{function}.{number:04}.main.{INPUT}.pb", "", "/CPU:0")
        self.dump(f"{function}.{number + 1:04}.main.{ASSIGNED}.pb", GPU, CPU)
        for device, own in partitions.items():
            full = CPU if device == CPU_IN_NAME else GPU
            name = f"{function}_partition_{device}.{own:04}.main.{PARTITION}.pb"
            self.dump(name, full, full, nodes=device[-5])

    def read(self, *definitions: str) -> tuple[list[Function], list[CaptureNote]]:
        return read_dumps(self._path, AttributePool(), definitions)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_function_is_read_with_its_answer_and_partitions(folder: Folder) -> None:
    folder.instance("__inference_f_9", 5, partitions={CPU_IN_NAME: 3, GPU_IN_NAME: 3})
    folder.dump("__inference_f_9.0010.main.after_graph_optimization.pb", "", "")

    (function,), _ = folder.read()
    (instance,) = function.instances

    assert function.name == "__inference_f_9"
    assert instance.input.devices == ("", "/CPU:0")
    assert instance.assigned == (GPU, CPU)
    assert [(p.device, p.names) for p in instance.partitions] == [(CPU, ("C",)), (GPU, ("G",))]


def test_names_that_files_cannot_bear_come_from_the_definitions(folder: Folder) -> None:
    folder.instance("__inference_a_b_c____7", 5, partitions={})

    assert folder.read("__inference_a/b[c]*?_7")[0][0].name == "__inference_a/b[c]*?_7"


@pytest.mark.parametrize("data", [b"", b"\x0a\x7fcut", b"\x0b"])
def test_a_dump_that_was_cut_short_is_told(folder: Folder, data: bytes) -> None:
    folder.instance("f", 5, partitions={})
    folder.write(f"g.0005.main.{INPUT}.pb", data)
    folder.write(f"f.0007.main.{ASSIGNED}.pb", data)

    found = folder.read()

    assert [f.name for f in found[0]] == ["f"]
    (note,) = found[1]
    assert note.id == "graphs_damaged"
    assert note.message.startswith("1 dumped graph is cut short or damaged")
