"""Holds what a report predicts that a fix gains against what it gains; prints the table.

Run as `python -m tests.performance.predict_gain`, from the folder of the repository.

Each program of `pipelines/` is captured as it is, and the first fix that its report names must be
the one that `--fixed` makes; then it runs plainly, without the fix and with it. All three are done
several times in turn, so that what else the machine does falls on each, and medians are compared:
the gain, the difference of the two step times, must lie within the bounds that were predicted, give
or take the noise: half of what the single gains span, and half of what the waits do that the single
predictions rest on. Exits with 1 where it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import traceanalyzer as ta
from traceanalyzer.report.assemble import assemble

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CASES", "Case", "Prediction", "main", "predicted"]

_FOLDER: Final = Path(__file__).with_name("pipelines")
_LONGEST: Final = 300.0  # seconds; a run takes a few, after the import of TensorFlow
_US_PER_MS: Final = 1000
_GPU_PROGRAMS: Final = 6


@dataclass(frozen=True)
class Case:
    """A program and the fix that helps it: the kind of the report's first."""

    name: str
    cure: str

    @property
    def script(self) -> Path:
        """Its file."""
        return _FOLDER / f"{self.name}.py"


CASES: Final = (
    Case("slow_map", "parallel"),
    Case("no_prefetch", "prefetch"),
    Case("no_cache", "cache"),
    Case("generator", "generator"),
)


@dataclass(frozen=True)
class Prediction:
    """What the report of a program says: the verdict, and its first fix with its bounds."""

    verdict: str
    cure: str | None
    wait_us: float | None
    low_us: float | None
    high_us: float | None
    slow_stage: str | None
    line: str | None


@dataclass(frozen=True)
class Measured:
    """One repetition: what was predicted, and a step's time without the fix and with it."""

    told: Prediction
    before_us: float
    after_us: float

    @property
    def gain_us(self) -> float:
        """What the fix gained."""
        return self.before_us - self.after_us


def predicted(case: Case, steps: int) -> Prediction:
    """Capture a program and read its report."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["-m", "traceanalyzer", "capture", "--no-report", "--logdir", folder]
        _run([*command, str(case.script), "--steps", str(steps)])
        report = assemble(ta.diagnose(ta.load(folder)))
    pipeline = report.input_pipeline
    if pipeline is None:
        return Prediction("none", None, None, None, None, None, None)
    host = next(h for h in pipeline.hosts if h.host == pipeline.host)
    first = pipeline.cures[0] if pipeline.cures else None
    made = {row["stage"]: row["source"] for row in pipeline.stages.records()}
    return Prediction(
        verdict=pipeline.verdict,
        cure=first.kind if first else None,
        wait_us=host.wait_mean_us,
        low_us=first.gain_us_per_step.low if first else None,
        high_us=first.gain_us_per_step.high if first else None,
        slow_stage=host.slow_stage,
        line=str(made.get(host.slow_stage)),
    )


def _measured(case: Case, steps: int) -> Measured:
    return Measured(
        told=predicted(case, steps),
        before_us=_step_us(case, steps),
        after_us=_step_us(case, steps, "--fixed"),
    )


def _step_us(case: Case, steps: int, *options: str) -> float:
    printed = _run([str(case.script), "--steps", str(steps), *options])
    told: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return _US_PER_MS * float(told["step_ms"])


def _run(arguments: list[str]) -> str:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_LONGEST,
        check=False,
    )
    if done.returncode:
        msg = f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        raise RuntimeError(msg)
    return done.stdout


def _compare(case: Case, runs: Sequence[Measured]) -> bool:
    """Print a program's row; return whether the right fix gained what was predicted."""
    cures = {run.told.cure for run in runs}
    figures = [
        median(value or 0.0 for value in values)
        for values in (
            [run.told.wait_us for run in runs],
            [run.told.low_us for run in runs],
            [run.told.high_us for run in runs],
            [run.before_us for run in runs],
            [run.after_us for run in runs],
            [run.gain_us for run in runs],
        )
    ]
    gains = [run.gain_us for run in runs]
    waits = [run.told.wait_us or 0.0 for run in runs]
    noise = (max(gains) - min(gains) + max(waits) - min(waits)) / 2
    low, high, gain = figures[1], figures[2], figures[-1]
    is_right = cures == {case.cure} and low - noise <= gain <= high + noise
    shown = "".join(f"{figure / _US_PER_MS:>9.2f}" for figure in (*figures, noise))
    named = "/".join(sorted(cure or "none" for cure in cures))
    print(f"{case.name:<14}{named:<12}{shown}{'yes' if is_right else 'no':>9}", flush=True)
    return is_right


def main(arguments: list[str] | None = None) -> int:
    """Print predicted and measured gains; return 1 where one lies outside its bounds."""
    parser = argparse.ArgumentParser(description="Predicted gains against measured ones.")
    names = [case.name for case in CASES]
    parser.add_argument("--only", choices=names, action="append", help="by default all")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args(arguments)
    head = ("waits", "low", "high", "before", "after", "gain", "noise", "within")
    print(f"{'program':<14}{'fix':<12}" + "".join(f"{h:>9}" for h in head) + "   ms per step")
    missed = 0
    for case in (case for case in CASES if case.name in (options.only or names)):
        missed += not _compare(
            case, [_measured(case, options.steps) for _ in range(options.repetitions)]
        )
    for number in range(1, _GPU_PROGRAMS + 1):
        print(f"{f'on a GPU, {number}':<14}open: needs a machine with a GPU")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
