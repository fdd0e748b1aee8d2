"""Messages of exhausted memory."""

import pytest

from traceanalyzer.causes.knowledge.caught_errors import exhaustion


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
