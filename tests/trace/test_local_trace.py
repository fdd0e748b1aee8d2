from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import CORPUS, needs_corpus
from tests.trace import encodings as wire_of
from tests.xspace_proto import message_class
from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import builder, local_trace
from traceanalyzer.trace.builder import LARGEST_PS
from traceanalyzer.trace.columns import Trace

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


# The message, written by hand.


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    return b"".join(
        wire_of.number(number, value)
        if isinstance(value, int)
        else wire_of.message(number, value.encode() if isinstance(value, str) else value)
        for number, value in fields
    )


def device(number: int, name: str, **resources: int) -> bytes:
    entries = [(3, message((1, i), (2, message((1, n), (2, i))))) for n, i in resources.items()]
    return message((1, message((1, number), (2, message((1, name), *entries)))))


def event(resource: int, name: str, start: int, duration: int, **args: str) -> bytes:
    entries = [(11, message((1, key), (2, value))) for key, value in args.items()]
    times = ((9, start), (10, duration))
    return message((4, message((2, resource), (3, name), *times, *entries)))


def read(content: bytes, max_bytes: int | None = None) -> Trace:
    return local_trace.read(memoryview(content), max_bytes=max_bytes)


HOST = device(0, "/host:CPU", tf_Compute=7, python=8)


def names(trace: Trace) -> list[str]:
    return [p.names[i] for p in trace.planes for i in p.name_of]


def error(content: bytes) -> str:
    with pytest.raises(TraceFormatError) as caught:
        read(content)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_devices_are_planes_and_resources_lines() -> None:
    trace = read(HOST + device(3, "/device:GPU:0") + event(8, "e", 5, 2))
    host, gpu = trace.planes
    assert (trace.format, trace.damage, trace.events) == ("local.trace", None, 1)
    assert (host.name, host.id, gpu.name, gpu.id) == ("/host:CPU", 0, "/device:GPU:0", 3)
    assert dict(zip(host.lines.name, host.lines.id.tolist(), strict=True)) == {
        "tf_Compute": 7,
        "python": 8,
    }
    assert (host.start_ps.tolist(), host.end_ps.tolist()) == ([5], [7])
    assert host.lines.name[host.line_of[0]] == "python"


def test_damage_inside_an_event_costs_that_event() -> None:
    broken = message((4, b"\x0f\x0f\x0f"))
    trace = read(HOST + event(7, "a", 1, 1) + broken + event(7, "b", 2, 1))
    assert names(trace) == ["a", "b"]
    assert trace.damage is not None
    assert (trace.damage.bytes_lost, trace.damage.places, trace.damage.events_kept) == (5, 1, 2)


@pytest.mark.parametrize("fields", [((9, LARGEST_PS + 1),), ((3, 5),), ((2, 2**63),)])
def test_events_of_no_sense_are_lost_alone(fields: tuple[tuple[int, Any], ...]) -> None:
    trace = read(HOST + message((4, message(*fields))) + event(7, "a", 1, 1))
    assert names(trace) == ["a"]
    assert trace.damage is not None
    assert trace.damage.places == 1


def test_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    content = HOST + b"".join(event(7, str(i), i, 1) for i in range(1000))
    with pytest.raises(TraceTooLargeError):
        read(content, max_bytes=10_000)
    monkeypatch.setattr(builder, "MAX_FILE_BYTES", 1000)
    assert "local.trace is too large" in error(content)


@given(st.data())
def test_any_flipped_bit(data: st.DataObject) -> None:
    content = bytearray(HOST + event(7, "a", 1, 1, label="x") + event(8, "b", 2, 1))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(TraceFormatError):
        assert len(names(read(bytes(content)))) <= 2


@needs_corpus
def test_a_real_file_against_protobufs_own_parser() -> None:
    (path,) = CORPUS.glob("oldfmt-localtrace-jonathanpeel/plugins/profile/*/local.trace")
    content = path.read_bytes()
    expected = message_class("trace_events", "Trace").FromString(content)
    trace = read(content)
    (host,) = trace.planes
    assert trace.damage is None
    assert host.name == expected.devices[0].name == "/host:CPU"
    assert len(host) == len(expected.trace_events) == 331
    resources = expected.devices[0].resources
    wanted = sorted(
        (e.resource_id, resources[e.resource_id].name, e.timestamp_ps, e.duration_ps, e.name)
        for e in expected.trace_events
    )
    got = sorted(
        (
            int(host.lines.id[line]),
            host.lines.name[line],
            int(start),
            int(duration),
            host.display_names[name] or host.names[name],
        )
        for line, start, duration, name in zip(
            host.line_of, host.start_ps, host.duration_ps, host.name_of, strict=True
        )
    )
    assert got == wanted
    devices = host.strings("device")
    assert set(devices.values) == {CPU}
    assert int(np.count_nonzero(devices.present)) == 58
