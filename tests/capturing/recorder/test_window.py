"""What is recorded of a program, decided without one."""

import pytest

from traceanalyzer.capturing.recorder.auto_window import (
    HEAP_BYTES,
    SET_UP_BYTES,
    AutoWindow,
    window_of,
)
from traceanalyzer.capturing.recorder.windows import Begin, End, Load, StepsWindow

STEP = "__inference_step_12"


class Clock:
    """Tells the time that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def auto(clock: Clock) -> AutoWindow:
    window = AutoWindow(clock)
    assert isinstance(window.used(), Begin)
    return window


def call(window: AutoWindow | StepsWindow, times: int, name: str = STEP) -> list[Begin | End]:
    actions = (window.called(name) for _ in range(times))
    return [action for action in actions if action is not None]


def test_a_short_program_is_recorded_whole(auto: AutoWindow, clock: Clock) -> None:
    assert not call(auto, 500)
    clock.now += 19.9
    assert auto.looked(Load(eager_ops=5000)) is None
    assert auto.recording
    assert not auto.over


def test_a_program_at_its_work_is_recorded_for_twenty_seconds(
    auto: AutoWindow, clock: Clock
) -> None:
    assert not call(auto, 10)
    clock.now += 20
    assert auto.looked(Load()) == End("for 20 s")
    assert not auto.recording
    assert auto.next_look_s() is None
    assert not call(auto, 1000)


def test_an_eager_loop_of_tiny_ops_is_not_recorded_for_long(auto: AutoWindow) -> None:
    assert auto.looked(Load(eager_ops=3_000, signatures=100)) is None
    assert auto.looked(Load(eager_ops=4_000, signatures=100)) is None  # found to be a loop
    assert auto.looked(Load(eager_ops=13_999, signatures=100)) is None
    ended = auto.looked(Load(eager_ops=14_000, signatures=100))
    assert ended == End("for 14,000 eager ops")


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(eager_ops=200_000), "for 200,000 eager ops"),
        (Load(heap_bytes=HEAP_BYTES), "until memory use had grown by 512 MB"),
        (Load(free=0.09), "until less than 10% of the memory was free"),
    ],
)
def test_a_session_is_bounded(auto: AutoWindow, load: Load, words: str) -> None:
    call(auto, 10)
    assert auto.looked(load) == End(words)


def fills(auto: AutoWindow) -> None:
    """Let the set-up take the memory that it may."""
    call(auto, 2, "__inference_init_3")
    assert auto.looked(Load(heap_bytes=SET_UP_BYTES - 1)) is None
    ended = auto.looked(Load(heap_bytes=SET_UP_BYTES))
    assert ended == End(f"until memory use had grown by {SET_UP_BYTES >> 20} MB")


def test_after_a_set_up_that_filled_the_window_steps_are_recorded(auto: AutoWindow) -> None:
    fills(auto)
    assert not call(auto, 1)  # which traces the function
    assert call(auto, 1) == [Begin("from call 2 of step")]
    assert auto.looked(Load(heap_bytes=SET_UP_BYTES)) is None


def test_memory_that_the_program_itself_took_does_not_end_the_recording(auto: AutoWindow) -> None:
    """Weights and data may grow the heap too; a trace of so much memory is not small."""
    fills(auto)
    assert isinstance(auto.written(1 << 20), Begin)
    assert auto.looked(Load(heap_bytes=SET_UP_BYTES)) is None
    assert isinstance(auto.looked(Load(heap_bytes=HEAP_BYTES)), End)
    assert auto.written(100 << 20) is None


def test_a_few_steps_at_the_end_do_not_replace_a_recording(auto: AutoWindow, clock: Clock) -> None:
    """As the one training step after the predictions of an agent."""
    call(auto, 10)
    clock.now += 30
    assert isinstance(auto.looked(Load()), End)
    call(auto, 2, "__inference_train_function_7")
    clock.now += 1
    assert auto.is_too_short()
    clock.now += 2
    assert not auto.is_too_short()


def test_after_such_a_set_up_an_eager_loop_is_recorded(auto: AutoWindow, clock: Clock) -> None:
    fills(auto)
    assert auto.awaits_eager_ops
    assert auto.next_look_s() == 1.0
    assert auto.looked(Load(eager_ops=900)) is None
    assert auto.looked(Load(eager_ops=1000)) == Begin("after a loop of eager ops began")
    clock.now += 20
    assert auto.looked(Load(eager_ops=9000)) == End("for 20 s")


def test_training_is_recorded_although_another_function_was(clock: Clock) -> None:
    is_training = False
    window = AutoWindow(clock, lambda: is_training)
    window.used()
    call(window, 50, "__inference_adapt_step_7")
    call(window, 50, "__inference_one_step_on_iterator_8")  # of `evaluate`
    clock.now += 20
    assert window.looked(Load()) == End("for 20 s")
    call(window, 50, "__inference_one_step_on_iterator_8")
    is_training = True
    assert not call(window, 1, "__inference_one_step_on_iterator_9")
    [begun] = call(window, 1, "__inference_one_step_on_iterator_9")
    assert begun == Begin("from call 2 of one_step_on_iterator")
    clock.now += 20
    call(window, 50, "__inference_one_step_on_iterator_9")
    assert window.looked(Load()) == End("for 20 s")
    assert window.over


def test_steps_are_calls_of_what_is_called_most(clock: Clock) -> None:
    window = StepsWindow(clock, 10, 20)
    assert not call(window, 9)
    assert not call(window, 9, "__inference_other_1")
    assert call(window, 1) == [Begin("from call 10 of step")]
    assert not call(window, 30, "__inference_other_1")
    assert not call(window, 10)
    assert call(window, 1) == [End("to call 20")]
    assert window.over


@pytest.mark.parametrize("asked", [{"kind": "whole"}, {"kind": "steps", "first": 1, "last": 10**9}])
def test_no_window_outgrows_the_machine(clock: Clock, asked: dict[str, object]) -> None:
    window = window_of(asked, clock)
    assert isinstance(window.used() or window.called(STEP), Begin)
    assert window.looked(Load(eager_ops=10**7)) is None
    assert isinstance(window.looked(Load(heap_bytes=2 << 30)), End)
