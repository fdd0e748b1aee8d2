"""Checks labelled programs, and scores the causes that reports name for them.

python -m tests.labelled check [NAME...]  # does TensorFlow confirm the labels?
python -m tests.labelled rows [NAME...]   # which ops are on the CPU, and where
python -m tests.labelled score [NAME...]  # do the rules name the labels' causes?
"""

import sys
from collections.abc import Sequence

from tests.labelled import BARE, HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.calibration import Calibration, calibrated
from tests.labelled.scoring import (
    Score,
    captured,
    clean_alarms,
    on_cpu,
    problems,
    score,
    score_on_a_gpu,
)


def _check(programs: Sequence[LabelledProgram]) -> bool:
    found = {program.name: problems(program) for program in programs}
    for name, each in found.items():
        print(f"{name}: {len(each)} problems", *each, sep="\n    ")
    return not any(found.values())


def _rows(programs: Sequence[LabelledProgram]) -> bool:
    columns = ["source_line", "type", "name", "function", "requested_device"]
    for program in programs:
        print(program.name, on_cpu(program, captured(program))[columns].to_string(), sep="\n")
    return True


def _score(programs: Sequence[LabelledProgram]) -> bool:
    for name, scores in {
        "with the capture file": map(score, programs),
        "a prediction for a GPU machine": map(score_on_a_gpu, programs),
    }.items():
        total = sum(scores, start=Score())
        figures = f"{total.right} of {total.ops}; certain and wrong: {total.wrong_certain}"
        print(*total.misses, f"{name}: {figures}", sep="\n")
    for level in (2, 3):
        calibrations = (calibrated(program, level) for program in programs)
        bare = sum(calibrations, start=Calibration())
        print(*bare.misses, f"the trace alone, level {level}: {bare}", sep="\n")
    alarms = [alarm for program in programs if program.is_clean for alarm in clean_alarms(program)]
    print("false alarms on clean programs:", *(alarms or ["none"]), sep="\n    ")
    return True


def main(arguments: Sequence[str]) -> int:
    """Run the named command."""
    commands = {"check": _check, "rows": _rows, "score": _score}
    command = commands.get(arguments[0] if arguments else "")
    if command is None:
        print(__doc__)
        return 2
    everything = (*PROGRAMS, *HELD_OUT, *QUESTIONS, *BARE)
    names = arguments[1:] or [program.name for program in everything]
    return 0 if command([program for program in everything if program.name in names]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
