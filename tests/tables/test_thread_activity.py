"""What threads did when, and what set them going."""

from itertools import pairwise

from tests.tables.reading import tables_of
from tests.traces import call, event, executor, host, line, op, thread, us
from traceanalyzer.tables.thread_activity import ThreadActivity, ThreadState

US = 1_000_000


def activity_of(*lines: object) -> ThreadActivity:
    found = tables_of(host(*lines)).threads  # type: ignore[arg-type]
    assert found is not None
    return found


def did(threads: ThreadActivity, name: str) -> list[tuple[float, float, str]]:
    """What a thread did: start, end in us, what."""
    thread = threads.name.index(name)
    own = slice(threads.begin[thread], threads.begin[thread + 1])
    return [
        (start / US, end / US, ThreadState(state).name)
        for start, end, state in zip(
            threads.start_ps[own], threads.end_ps[own], threads.state[own], strict=True
        )
    ]


def test_a_pool_that_tells_is_believed_and_a_turn_elsewhere_follows_its_call() -> None:
    threads = activity_of(
        line("python")(
            event("ThreadpoolListener::Record", us(2), _pt=13, _p=99),
            call("__inference_f_1", us(5, 90), step=7),
        ),
        thread("tf_Compute", 1)(
            event("ThreadpoolListener::StartRegion", us(8), _ct=13, _c=99),
            executor(us(10, 10), step=7)(op("a", "TopKV2", us(11, 5))),
        ),
        thread("tf_Compute", 2)(executor(us(30, 10), step=7)),
    )

    begun_by = [
        (threads.name[thread], at / US, threads.name[source], begun / US, proved)
        for thread, (first, end) in enumerate(pairwise(threads.links.begin))
        for at, source, begun, proved in zip(
            *(column[first:end] for column in threads.links[1:]), strict=True
        )
    ]

    assert begun_by == [
        ("tf_Compute/1", 8, "python", 2, True),
        ("tf_Compute/2", 30, "tf_Compute/1", 16, False),
    ]
