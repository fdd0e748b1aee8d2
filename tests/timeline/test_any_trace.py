"""In any trace, parts follow each other, and nothing counts twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tables.reading import tables_of
from tests.traces import (
    call,
    copy,
    eager,
    event,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    launch,
    line,
    op,
    step,
    stream,
    us,
)
from traceanalyzer.timeline.device_parts import host_timeline, with_exposed
from traceanalyzer.timeline.walk import Phase

spans = st.builds(us, st.integers(0, 60), st.integers(0, 30))
numbers = st.integers(0, 4)


def host_events() -> st.SearchStrategy[Any]:
    """Events that need not nest, and links that need not make sense."""
    return st.one_of(
        st.builds(eager, st.sampled_from(["Unique", "UniqueV2", "MatMul"]), spans),
        st.builds(lambda at, n: call(f"__inference_f_{n}", at, step=n), spans, numbers),
        st.builds(lambda at, n: executor(at, step=n), spans, numbers),
        st.builds(
            lambda name, at, n: event(name, at, id=n),
            st.sampled_from(["FunctionRun", "SessionRun"]),
            spans,
            numbers,
        ),
        st.builds(lambda at, n: launch(at, n, "cuMemcpyDtoH_v2"), spans, numbers),
        st.builds(lambda at: op("a/Unique", "UniqueV2", at), spans),
        st.builds(lambda at: iterator("Root::Map", at), spans),
        st.builds(launch, spans, numbers),
        st.builds(lambda at, n: event("cuStreamSynchronize", at, correlation_id=n), spans, numbers),
        st.builds(
            lambda at, n: event("ThreadpoolListener::Record", at, _pt=13, _p=n), spans, numbers
        ),
        st.builds(
            lambda at, n: event("ThreadpoolListener::StartRegion", at, _ct=13, _c=n), spans, numbers
        ),
        st.builds(step, numbers, spans),
    )


def device_events() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda at, n: kernel("gemm", at, correlation=n), spans, numbers),
        st.builds(
            lambda way, at, n: copy(way, 64, at, correlation=n),
            st.sampled_from(["H2D", "D2H", "D2D"]),
            spans,
            numbers,
        ),
    )


@given(
    threads=st.lists(st.lists(host_events(), max_size=6), min_size=1, max_size=3),
    streams=st.lists(st.lists(device_events(), max_size=5), max_size=3),
    others=st.lists(device_events(), max_size=3),
)
def test_parts_follow_on_each_other(
    threads: list[list[Any]], streams: list[list[Any]], others: list[Any]
) -> None:
    lines = [line("python" if k == 0 else f"tf_Compute/{k}")(*t) for k, t in enumerate(threads)]
    planes = [host(*lines), gpu(0, *(stream(13 + k)(*s) for k, s in enumerate(streams)))]
    tables = tables_of(*planes, gpu(1, stream(13)(*others)))

    timeline = host_timeline(tables)

    every = [device.parts for device in timeline.devices]
    for parts in [*every, *([timeline.program] if timeline.program else [])]:
        assert (parts.end_ps > parts.start_ps).all()
        assert (parts.start_ps[1:] == parts.end_ps[:-1]).all()
    if every:
        idle = sum(int(p.duration_ps[p.phase != Phase.COMPUTE].sum()) for p in every)
        told = with_exposed(tables, timeline)
        assert int(told.ops["exposed_ps"].sum()) <= idle / len(every)
        copies = told.transfers[told.transfers["exposed_ps"].notna()]
        assert (copies["exposed_ps"] <= copies["duration_ps"]).all()
