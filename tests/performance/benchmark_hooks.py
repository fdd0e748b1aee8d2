"""Measures what a recorder that waits for its window costs each op and each call; prints ratios.

Run as `python -m tests.performance.benchmark_hooks`, from the folder of the repository, where
TensorFlow is installed.

`benchmark_capture` compares whole processes, between which a busy machine's speed differs by more
than what is to be found. Here one process does the work of its scripts in short blocks, in turn
with the recorder's replacements in place and taken away: two blocks that follow each other ran at
one speed. A ratio is the median over pairs of blocks, with an interval for that median. What it
leaves out is what the replacements do not cause: an idle thread, variables of the environment.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

from tests.performance.benchmark_capture import SCRIPTS, Interval, median_interval, verdict
from traceanalyzer.recorder.attach import Attachment
from traceanalyzer.recorder.journal import Journal
from traceanalyzer.recorder.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_LIMIT: Final = 1.02
_ROUNDS_OF_A_BLOCK: Final = {"function_loop": 100, "eager_loop": 200}
_NEVER_REACHED: Final = {
    "function_loop": {"kind": "steps", "first": 10**9, "last": 10**9 + 1},
    "eager_loop": {"kind": "time", "after_s": 10**9, "for_s": 1},
}


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


def _measured(name: str, pairs: int) -> Interval:
    """Attach a recorder to this process, and compare the blocks of a script."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(folder, folder, "run", "host", window=_NEVER_REACHED[name])
        attachment = Attachment(settings, Journal(settings.journal))
        attachment.before_tensorflow()
        found: dict[str, Any] = {}
        import tensorflow  # noqa: F401, ICN001, PLC0415 - between the two, as in a recorded program

        attachment.after_tensorflow()
        code = SCRIPTS[name].code
        exec(compile(code, name, "exec"), _names(found))  # noqa: S102 - a text of our own
        work, rounds = found["work"], _ROUNDS_OF_A_BLOCK[name]
        evidence = attachment._evidence  # noqa: SLF001 - what a program cannot switch
        assert evidence is not None
        switch = {True: evidence.install, False: evidence.uninstall}
        work(10 * rounds)
        evidence.uninstall()
        ratios = pair_ratios(lambda: work(rounds), lambda is_on: switch[is_on](), pairs)
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
    asked = parser.parse_args(arguments)
    found = _measured(asked.script, asked.pairs)
    print(
        f"{asked.script}: CPU time in terms of that without the recorder's replacements: "
        f"{found} at {found.coverage:.0%}{verdict(found, _LIMIT)}"
    )


if __name__ == "__main__":
    main()
