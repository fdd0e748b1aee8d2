"""Measures `traceanalyzer report` against XProf on the same trace; prints time and memory.

Run as `python -m tests.performance.benchmark_report`, from the folder of the repository.

Each measurement is of a fresh process, the two tools in turn, so that what else the machine does
falls on both. Files are in the page cache, and Python's bytecode in a folder of the
benchmark's own, from a run before: where `PYTHONDONTWRITEBYTECODE` is set, both tools
would compile their modules each time, which no installed program does. What XProf saved of the run
before is deleted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from tests.performance.synthetic import synthetic_trace

__all__ = ["main"]

_XPROF: Final = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "framework_op_stats", {})
assert len(data) > 1000, data
"""

_STAGES: Final = """
import json, sys, time
import traceanalyzer
def work(path):
    traceanalyzer.write_report(traceanalyzer.diagnose(traceanalyzer.load(path)), sys.argv[2])
work(sys.argv[1])  # loads modules
times = []
for path in sys.argv[1], sys.argv[3]:
    begin = time.process_time()
    work(path)
    times.append(time.process_time() - begin)
print(json.dumps(times))
"""


class Measured(NamedTuple):
    """What a process took."""

    wall_s: float
    cpu_s: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.wall_s:8.2f} {self.cpu_s:8.2f} {self.peak_mb:8.0f}"


def measure(bytecode: Path, *arguments: str) -> Measured:
    """Run this interpreter and return what it took, its own children included."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return Measured(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


def answer(code: str, *arguments: str | Path) -> str:
    """Return what a snippet prints in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def write_trace(folder: Path, content: bytes) -> Path:
    """Put a trace where TensorBoard would look for it."""
    run = folder / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    file = run / "host0.xplane.pb"
    file.write_bytes(content)
    return file


def compare(trace: Path, for_xprof: Path, pairs: int) -> None:
    """Measure both tools in turn."""
    page, data = trace.with_name("report.html"), trace.with_name("report.json")
    report = ("-m", "traceanalyzer", "report", str(trace), "-o", str(page), "--json", str(data))
    xprof = ("-c", _XPROF, str(for_xprof))
    found: dict[str, list[Measured]] = {"report": [], "framework_op_stats": []}
    print(f"{'':26}{'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
    for number in range(pairs + 1):  # the first warms the caches
        for name, arguments in (("report", report), ("framework_op_stats", xprof)):
            for saved in for_xprof.parent.iterdir():
                if saved != for_xprof:
                    saved.unlink()
            taken = measure(trace.with_name("bytecode"), *arguments)
            if number:
                found[name].append(taken)
                print(f"{number}  {name:23}{taken}")
    medians = [Measured(*map(median, zip(*taken, strict=True))) for taken in found.values()]
    for name, taken in zip(found, medians, strict=True):
        print(f"median  {name:18}{taken}")
    ratios = (ours / theirs for ours, theirs in zip(*medians, strict=True))
    print(f"ratio   {'report / XProf':18}" + " ".join(f"{ratio:8.2f}" for ratio in ratios))


def grow(folder: Path, steps: int) -> None:
    """Measure the whole report at a size and at twice that."""
    small, large = (
        write_trace(folder / f"growth{n}", synthetic_trace(n)) for n in (steps, 2 * steps)
    )
    times = json.loads(answer(_STAGES, small, folder / "growth.html", large))
    print(
        f"growth                    {times[0]:.2f} s CPU at {steps} steps, {times[1]:.2f} s at "
        f"{2 * steps}: x{times[1] / times[0]:.2f} for twice the events"
    )


def main(arguments: list[str] | None = None) -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=380, help="length of the trace; 380 is 97 MB")
    parser.add_argument("--pairs", type=int, default=3, help="how often each tool is measured")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = synthetic_trace(asked.steps)
        trace = write_trace(folder / "ours", content)
        for_xprof = write_trace(folder / "theirs", content)
        print(f"{len(content) / 1e6:.1f} MB, {asked.steps} steps, {asked.pairs} pairs")
        del content
        compare(trace, for_xprof, asked.pairs)
        grow(folder, max(asked.steps // 4, 1))


if __name__ == "__main__":
    main()
