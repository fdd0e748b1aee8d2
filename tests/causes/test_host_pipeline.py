"""A pipeline that keeps up is by design; one for which steps wait is too slow."""

from pathlib import Path
from typing import Any

import traceanalyzer as ta
from tests.capture_files import Book, node
from tests.causes.examples import Example
from tests.input_pipeline.paced import asked, made_ahead
from tests.traces import host, iterator, line, step, us, write, xspace
from traceanalyzer.causes import host_pipeline
from traceanalyzer.findings import Finding


def within(folder: Path, *threads: Any) -> Finding:  # noqa: ANN401 - words of the language
    run = ta.load(write(folder, xspace(host(*threads))))
    (found,) = [f for f in host_pipeline.check(run) if f.scope == "within"]
    return found


def test_one_that_keeps_up_needs_no_change(tmp_path: Path) -> None:
    found = within(tmp_path, *made_ahead(10_000, 100, 6_000))
    assert found.harm == "by_design"
    assert found.fixes == ()
    (waits,) = [e.text for e in found.evidence if e.kind == "input_wait"]
    assert "100 µs per step" in waits


def test_one_that_steps_wait_for_is_too_slow(tmp_path: Path) -> None:
    found = within(tmp_path, *made_ahead(10_000, 6_000, 10_000))
    assert found.harm == "harmful"
    (waits,) = [e.text for e in found.evidence if e.kind == "input_wait"]
    assert "6.00 ms per step; `Root::ParallelMapV2`" in waits
    assert [fix.code for fix in found.fixes] == [
        "dataset = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE)"
    ]


def epochs(number: int, filling: int) -> Any:  # noqa: ANN401 - words of the language
    """Steps of 1000 µs in epochs of five; a shuffle fills its buffer for so long in each."""

    def element(at: int, took: int, epoch: int) -> Any:  # noqa: ANN401
        shuffle = iterator(
            "Root::Shuffle", us(at, took), id=10 + epoch, parent_id=epoch + 1, buffer_size=1024
        )
        return asked(us(at, took), iterator("Root", us(at, took), id=epoch + 1)(shuffle))

    each = 1000 * 5 + filling
    return line("python")(
        (
            element(each * epoch, filling, epoch),
            *(
                step(5 * epoch + k, us(at, 1000))(element(at, 5, epoch))
                for k in range(5)
                for at in (each * epoch + filling + 1000 * k,)
            ),
        )
        for epoch in range(number)
    )


def test_a_shuffle_that_refills_its_buffer_in_each_epoch_gets_a_fix(
    tmp_path: Path,
) -> None:
    found = within(tmp_path, epochs(3, 4_000))
    (fix,) = [fix for fix in found.fixes if "buffer" in fix.text]
    assert "1,024 elements for each of 3 iterators (4.00 ms each)" in fix.text
    for part in ("cache()", "repeat()", "steps_per_epoch"):
        assert part in str(fix.code)


def test_a_buffer_that_is_filled_once_or_quickly_needs_no_fix(tmp_path: Path) -> None:
    for number, filling in ((1, 4_000), (3, 100)):
        assert within(tmp_path / str(number), epochs(number, filling)).fixes == ()


def test_what_asks_for_a_gpu_in_a_map_is_not_on_the_cpu_by_design() -> None:
    book = Book()
    book.function(
        "__inference_Dataset_map_f_1",
        node("resize", "ResizeBilinear", asked="/device:GPU:0", attributes=0),
        node("flip", "ReverseV2", attributes=1),
    )
    capture_file = book.capture_file(
        environment={"tensorflow": {"version": "2.21.0"}},
        attributes=({"T": "float"}, {"T": "float", "Tidx": "int32"}),
    )
    of_pipeline = {
        "function": "tf.data",
        "role": "input_pipeline",
        "placement_source": "input_pipeline",
        "placement_certainty": "certain",
        "in_input_pipeline": True,
    }
    example = Example(
        title="",
        ops=(
            {"name": "resize", "type": "ResizeBilinear", **of_pipeline},
            {"name": "flip", "type": "ReverseV2", **of_pipeline},
        ),
        facts={"gpu_used": False, "gpu_witness": "", "accelerators": {}},
        capture_file=capture_file,
    )
    (found,) = host_pipeline.check(example.run())
    assert found.op_ids == ("op1",)
