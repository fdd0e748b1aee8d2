"""Captures a program as a user does, without a GPU and with emulated ones."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import traceanalyzer as ta
from tests.emulator.build import Installation, built
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.files import SUFFIX, read
from traceanalyzer.run import Run

_ROOT: Final = Path(__file__).parents[2]
_EMULATED: Final = Path(__file__).with_name("emulated")
_INSTALLATION: Final = (
    "import json, tensorflow as tf; s = tf.sysconfig; print(json.dumps("
    "[tf.__version__, s.get_compile_flags(), s.get_link_flags()]))"
)
_OUTCOME: Final = "outcome.json"
_TIMEOUT_S: Final = 600.0
_KILLED: Final = 124  # as `timeout` does


@dataclass(frozen=True, kw_only=True, eq=False)
class Captured:
    """A captured program."""

    exit_code: int  #: the program's own; 124 if it was killed after too long
    cpu_seconds: float  #: of the capture
    run: Run | None  #: None if no trace was written
    capture_file: CaptureFile | None


def capture(
    words: Sequence[str],
    *,
    gpus: int,
    logdir: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Captured:
    """Capture a program with `traceanalyzer capture`, or read the capture if there is one already.

    Args:
        words: The script, or `-m` and a module, and the arguments.
        gpus: How many GPUs are emulated; 0 for none.
        logdir: Where the capture is written.
        environment: Further variables of the environment.
        cwd: The working directory.
    """
    command = [sys.executable, "-m", "traceanalyzer", "capture", "--no-report"]
    command += ["--logdir", str(logdir), *words]
    outcome = logdir / _OUTCOME
    if not outcome.exists():
        with tempfile.TemporaryDirectory(prefix="twin-") as records:
            ended = _run(command, _variables(environment or {}, gpus, records), cwd)
        logdir.mkdir(parents=True, exist_ok=True)
        outcome.write_text(json.dumps(ended), encoding="utf-8")
    exit_code, cpu_seconds = json.loads(outcome.read_text(encoding="utf-8"))
    files = sorted(logdir.glob(f"plugins/profile/*/*{SUFFIX}"))
    try:
        run = ta.load(logdir)
    except ta.TraceAnalyzerError:
        run = None
    return Captured(
        exit_code=exit_code,
        cpu_seconds=cpu_seconds,
        run=run,
        capture_file=read(files[0]) if files else None,
    )


def _variables(extra: Mapping[str, str], gpus: int, records: str) -> dict[str, str]:
    variables = {**os.environ, **extra}
    variables.pop("CUDA_VISIBLE_DEVICES", None)
    paths = [variables.get("PYTHONPATH", ""), str(_ROOT)]
    if gpus:
        variables["TWIN_EMULATOR"] = os.pathsep.join([str(_library()), str(gpus), records])
        paths.insert(0, str(_EMULATED))
    variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return variables


@functools.cache
def _library() -> Path:
    words = [sys.executable, "-c", _INSTALLATION]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    version, compile_flags, link_flags = json.loads(out.strip().rpartition("\n")[2])
    return built(
        Installation(
            version=version, compile_flags=tuple(compile_flags), link_flags=tuple(link_flags)
        )
    )


def _run(
    command: Sequence[str], variables: Mapping[str, str], cwd: Path | None
) -> tuple[int, float]:
    """Return the exit code and the CPU time."""
    before = os.times()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        code = _KILLED
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    after = os.times()
    cpu = after.children_user + after.children_system
    return code, cpu - before.children_user - before.children_system
