"""Compares the gain that a report predicts for a fix with the gain of that fix.

Run as `python -m tests.performance.predict_gain`.

Each program of `pipelines/` is captured, and the first fix that its report names must be the one
that `--fixed` makes. Then it runs plainly, without the fix and with it. All three take turns, and
medians are compared: the gain must lie within the predicted bounds, give or take half of the range
of the single gains and of the single waits. The exit code is 1 if one does not.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import traceanalyzer as ta
from tests.emulator.oracle import the_oracle
from traceanalyzer.model import InputPipeline, Report
from traceanalyzer.report.assemble import assemble

PIPELINES: Final = Path(__file__).with_name("pipelines")
#: By program, the kind of the fix that helps.
FIXES: Final = {
    "slow_map": "parallel",
    "no_prefetch": "prefetch",
    "no_cache": "cache",
    "generator": "generator",
}


def reported(name: str, steps: int, *options: str) -> Report:
    """Capture a program and return its report."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (str(PIPELINES / f"{name}.py"), folder, 2, "--steps", str(steps), *options)
        capture = "tests.labelled.captured_in_fork:capture"
        outcome = the_oracle().run(capture, *arguments, gpus=0)
        assert outcome.exit_code == 0, outcome.error
        return assemble(ta.diagnose(ta.load(folder)))


def predicted(name: str, steps: int) -> InputPipeline:
    """Capture a program and return the report's section about its input pipeline."""
    found = reported(name, steps).input_pipeline
    assert found is not None
    return found


def _step_ms(name: str, steps: int, *options: str) -> float:
    script = PIPELINES / f"{name}.py"
    outcome = the_oracle().run(script, "--steps", str(steps), *options, gpus=0)
    assert outcome.exit_code == 0, outcome.error
    return float(json.loads(outcome.stdout.splitlines()[-1])["step_ms"])


def _is_right(name: str, steps: int, repetitions: int) -> bool:
    """Measure a program, print its row, and return whether the predicted fix gains as predicted."""
    waits, highs, before, after = [], [], [], []
    kinds = set()
    for _ in range(repetitions):
        pipeline = predicted(name, steps)
        fix = next(fix for fix in pipeline.fixes if fix.kind != "rewrite")  # they read in Python
        kinds.add(fix.kind)
        host = next(h for h in pipeline.hosts if h.host == pipeline.host)
        waits.append((host.wait_mean_us or 0.0) / 1000)
        highs.append((fix.gain_us_per_step.high or 0.0) / 1000)
        before.append(_step_ms(name, steps))
        after.append(_step_ms(name, steps, "--fixed"))
    gains = [a - b for a, b in zip(before, after, strict=True)]
    noise = (max(gains) - min(gains) + max(waits) - min(waits)) / 2
    high, gain = median(highs), median(gains)
    is_right = kinds == {FIXES[name]} and -noise <= gain <= high + noise
    shown = (median(waits), high, median(before), median(after), gain, noise)
    figures = "".join(f"{figure:>9.2f}" for figure in shown)
    print(f"{name:<14}{'/'.join(kinds):<12}{figures}{'yes' if is_right else 'no':>9}", flush=True)
    return is_right


def main(arguments: list[str] | None = None) -> int:
    """Print predicted and measured gains; return 1 if one gains more than predicted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=FIXES, action="append", help="default: all")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args(arguments)
    head = ("waits", "high", "before", "after", "gain", "noise", "within")
    print(f"{'program':<14}{'fix':<12}" + "".join(f"{h:>9}" for h in head) + "   ms per step")
    names = options.only or FIXES
    right = [_is_right(name, options.steps, options.repetitions) for name in names]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main())
