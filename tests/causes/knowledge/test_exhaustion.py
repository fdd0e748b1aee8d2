"""What the messages of exhausted memory tell; the long one is as TensorFlow 2.21 wrote it."""

from __future__ import annotations

import pytest

from traceanalyzer.causes.knowledge.exhaustion import exhaustion

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
TENSOR = f"OOM when allocating tensor with shape[2097152,2097152] and type float on {GPU} by "
SESSION = f"""\
Graph execution error:

Detected at node 'Fill' defined at (most recent call last):
Node: 'Fill'
{TENSOR}allocator GPU_0_bfc
\t [[{{{{node Fill}}}}]]

Current usage from device: /job:localhost/replica:0/task:0/device:CPU:0, allocator: mklcpu
  9.00GiB from on/the/host
Current usage from device: {GPU}, allocator: GPU_0_bfc
  1.91MiB from gen/b/RandomUniform
  3.81MiB from gen/a/RandomUniform
  Remaining 1 nodes with 16B

Original stack trace for 'Fill':
  File "train.py", line 9, in <module>
"""


def test_the_largest_ops_are_those_on_the_device_without_room() -> None:
    assert exhaustion(SESSION).largest == (
        ("gen/a/RandomUniform", int(3.81 * 2**20)),
        ("gen/b/RandomUniform", int(1.91 * 2**20)),
    )


@pytest.mark.parametrize(
    ("message", "size"),
    [
        ("Out of memory while trying to allocate 8589934592 bytes.", 8 << 30),
        ("RESOURCE_EXHAUSTED: Out of memory trying to allocate 8.00GiB: x", 8 << 30),
    ],
)
def test_xla_names_only_bytes(message: str, size: int) -> None:
    failed = exhaustion(message)

    assert (failed.bytes, failed.device) == (size, "")
    assert failed.attempt == "could not allocate 8.59 GB"


@pytest.mark.parametrize(
    ("message", "is_of_memory"),
    [
        ("failed to allocate memory [Op:AddV2]", True),
        ("", True),
        ("/data/ckpt.tmp; No space left on device", False),
        ("/data/a; Too many open files", False),
        ("Received message larger than max (5000000 vs. 4194304)", False),
    ],
)
def test_a_full_disk_is_no_want_of_memory(message: str, *, is_of_memory: bool) -> None:
    assert exhaustion(message).is_of_memory is is_of_memory
    assert exhaustion(message).attempt == "could not allocate memory for an op"
