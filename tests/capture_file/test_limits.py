"""What a capture file leaves out to stay small, and that it says so."""

from dataclasses import replace

from tests.capture_file.capture_files import sample
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.files import bounded, serialised
from traceanalyzer.capture_file.function_records import Function


def with_functions(*sizes: int) -> CaptureFile:
    """A capture file with functions of so many nodes."""
    (instance,) = sample().functions[0].instances
    functions = []
    for at, size in enumerate(sizes):
        names = tuple(f"function_{at}/node_{i}" for i in range(size))
        columns = {"names": names, "ops": ("Op",) * size, "attributes": (0,) * size}
        origins = {"origin_functions": ("",) * size, "origin_nodes": ("",) * size}
        graph = replace(
            instance.input, **columns, **origins, inputs=((),) * size, devices=("",) * size
        )
        partition = replace(instance.partitions[0], **columns, **origins)
        found = replace(instance, input=graph, assigned=("",) * size, partitions=(partition,))
        functions.append(Function(name=f"function_{at}", instances=(found,)))
    return replace(sample(), functions=tuple(functions), omitted={})


def size_of(capture_file: CaptureFile) -> int:
    return len(serialised(capture_file))


def test_the_largest_functions_are_left_out() -> None:
    capture_file = with_functions(100, 5000, 200, 3000)

    found = bounded(capture_file, max_json_bytes=size_of(capture_file) // 4)

    assert [f.name for f in found.functions] == ["function_0", "function_2"]
    assert found.omitted == {"functions": 2}
    assert "the graphs of 2 functions" in found.notes[-1].message
    assert size_of(found) < size_of(capture_file) // 4
