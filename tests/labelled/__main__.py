"""Prints what is wrong with labelled programs, or with what the rules say of them.

python -m tests.labelled check NAME...    # do TensorFlow's placements bear the labels out?
python -m tests.labelled rows NAME...     # what is on the CPU, where
python -m tests.labelled score [NAME...]  # do the rules name the labels' causes?
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.labelled import HELD_OUT, PROGRAMS, named
from tests.labelled.scoring import (
    captured,
    clean_alarms,
    on_cpu,
    problems,
    score,
    score_bare,
    score_on_a_gpu,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.labelled import LabelledProgram


def _check(programs: Sequence[LabelledProgram]) -> int:
    wrong = 0
    for program in programs:
        found = problems(program)
        wrong += len(found)
        print(f"{program.name}: {len(program.labels)} labels, {len(found)} problems")
        for problem in found:
            print("   ", problem)
    return wrong


def _rows(programs: Sequence[LabelledProgram]) -> int:
    columns = ["source_line", "type", "name", "function", "requested_device"]
    for program in programs:
        print(program.name)
        print(on_cpu(program, captured(program))[columns].to_string())
    return 0


def _score(programs: Sequence[LabelledProgram]) -> int:
    full = [score(program) for program in programs]
    bare = {level: [score_bare(program, level) for program in programs] for level in (2, 3)}
    on_a_gpu = [score_on_a_gpu(program) for program in programs if program.emulated_gpus]
    for each in full:
        print(*each.misses, sep="\n") if each.misses else None
    print("with the capture file:", total(full))
    for level, found in bare.items():
        for each_bare in found:
            print(*each_bare.misses, sep="\n") if each_bare.misses else None
        print(f"the trace alone, level {level}:", total(found))
    for _, _, wrong in on_a_gpu:
        print(*wrong, sep="\n") if wrong else None
    kinds, right = (sum(each[k] for each in on_a_gpu) for k in (0, 1))
    print(f"on a GPU, from a capture without: {right} of {kinds} kinds of ops")
    alarms = [alarm for p in programs if p.is_clean for alarm in clean_alarms(p)]
    print("false alarms on clean programs:", *(alarms or ["none"]), sep="\n    ")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Do what is asked."""
    does = {"check": _check, "rows": _rows, "score": _score}.get(arguments[0] if arguments else "")
    if does is None:
        print(__doc__)
        return 2
    programs = [named(name) for name in arguments[1:]] or [*PROGRAMS, *HELD_OUT]
    return 1 if does(programs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
