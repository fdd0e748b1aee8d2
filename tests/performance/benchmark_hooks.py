"""Measures what the recorder's replacements cost each op and each call; prints ratios.

Run as `python -m tests.performance.benchmark_hooks`, from the folder of the repository, where
TensorFlow is installed.

`benchmark_capture` compares whole processes, between which a busy machine's speed differs by more
than what is to be found. Here one process does the work of its scripts in short blocks, in turn
with the recorder's replacements in place and taken away: two blocks that follow each other ran at
one speed. A ratio is the median over pairs of blocks, with an interval for that median. What it
leaves out is what the replacements do not cause, an idle thread or variables of the environment,
and what ends soon: a look at the first thousands of objects that may be steps of the program's.

They are measured as they are outside of a window, in terms of the program alone; and, if asked to,
as they are in one, in terms of the program under `tf.profiler`, which then records all blocks.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

from tests.performance.benchmark_capture import SCRIPTS, Interval, median_interval, verdict
from traceanalyzer.capturing.recorder.attach import Attachment
from traceanalyzer.capturing.recorder.journal import Journal
from traceanalyzer.capturing.recorder.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_LIMIT_OUTSIDE: Final = 1.02
_LIMITS_INSIDE: Final = {"function_loop": 1.05, "eager_loop": 1.5, "keras_cnn_fit": 1.05}
_ROUNDS_OF_A_BLOCK: Final = {"function_loop": 100, "eager_loop": 200, "keras_cnn_fit": 10}
# In those of the eager loop 12,000 objects are made, more than are looked at for steps.
_ROUNDS_BEFORE: Final = {"function_loop": 1000, "eager_loop": 4000, "keras_cnn_fit": 20}
_TIME_NEVER_REACHED: Final = {"kind": "time", "after_s": 10**9, "for_s": 1}
_STEPS_NEVER_REACHED: Final = {"kind": "steps", "first": 10**9, "last": 10**9 + 1}


def pair_ratios(
    work: Callable[[], object], switch: Callable[[bool], None], pairs: int
) -> list[float]:
    """Return the CPU time of a block with something switched on, in terms of one without.

    Args:
        work: Does a block's work.
        switch: Switches it on or off.
        pairs: How many pairs of blocks; which of a pair comes first alternates.
    """
    found = []
    for number in range(pairs):
        taken_s = {}
        for is_on in (True, False) if number % 2 else (False, True):
            switch(is_on)
            begin_s = time.process_time()
            work()
            taken_s[is_on] = time.process_time() - begin_s
        found.append(taken_s[True] / taken_s[False])
    return found


def _measured(name: str, pairs: int, *, is_inside: bool) -> Interval:
    """Attach a recorder to this process, and compare the blocks of a script."""
    is_of_calls = name != "eager_loop" and not is_inside
    window = _STEPS_NEVER_REACHED if is_of_calls else _TIME_NEVER_REACHED
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(folder, folder, "run", "host", window=window)
        attachment = Attachment(settings, Journal(settings.journal))
        attachment.before_tensorflow()
        found: dict[str, Any] = {}
        import tensorflow as tf  # noqa: PLC0415 - between the two, as in a recorded program

        attachment.after_tensorflow()
        code = SCRIPTS[name].code
        exec(compile(code, name, "exec"), _names(found))  # noqa: S102 - a text of our own
        work, rounds = found["work"], _ROUNDS_OF_A_BLOCK[name]
        evidence = attachment._evidence  # noqa: SLF001 - what a program cannot switch
        assert evidence is not None
        sessions = itertools.count()

        def switch(is_on: bool) -> None:  # noqa: FBT001
            if is_on:
                evidence.install()
                if is_inside:
                    evidence.session_started(next(sessions))
            else:
                if is_inside:
                    evidence.session_stopped()
                evidence.uninstall()

        work(_ROUNDS_BEFORE[name])
        evidence.uninstall()
        if is_inside:
            tf.profiler.experimental.start(folder)
        ratios = pair_ratios(lambda: work(rounds), switch, pairs)
        if is_inside:
            tf.profiler.experimental.stop(save=False)
        attachment.finish("exit")
    return median_interval(ratios)


def _names(found: dict[str, Any]) -> dict[str, Any]:
    """Return the names that a script of `benchmark_capture` wants; its work is kept."""
    import numpy as np  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    def measure(work: Callable[[int], Any], _: int) -> None:
        found["work"] = work

    return {"np": np, "tf": tf, "measure": measure}


def main(arguments: list[str] | None = None) -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("script", choices=_ROUNDS_OF_A_BLOCK)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of blocks")
    parser.add_argument(
        "--inside", action="store_true", help="while the profiler records, not outside of a window"
    )
    asked = parser.parse_args(arguments)
    found = _measured(asked.script, asked.pairs, is_inside=asked.inside)
    limit = _LIMITS_INSIDE[asked.script] if asked.inside else _LIMIT_OUTSIDE
    base = "under tf.profiler" if asked.inside else "alone"
    print(
        f"{asked.script}: CPU time in terms of that of the program {base}: "
        f"{found} at {found.coverage:.0%}{verdict(found, limit)}"
    )


if __name__ == "__main__":
    main()
