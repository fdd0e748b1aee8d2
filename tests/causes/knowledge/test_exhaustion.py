"""What messages of exhausted memory say."""

import pytest

from traceanalyzer.causes.knowledge.exhaustion import exhaustion


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
