"""TensorFlow's own answers: its placer and its eager runtime, with emulated GPUs or without.

    oracle = the_oracle()                  # skips the test, with a reason, if it cannot be built
    outcome = oracle.run(program, 3)       # program(3) in a process of its own, with one GPU
    outcome = oracle.run(Path("train.py"), "--epochs", "2", gpus=2, memory=1 << 30)
    outcome = oracle.run(program, gpus=0)  # without a GPU

    for run in outcome.runs:               # what the placer did, in order of time
        run.function, run.default_device, run.soft_placement, run.devices
        for at, name in enumerate(run.graph.names):
            run.graph.devices[at], run.assigned_before[at], run.assigned[at]
            run.attributes[run.graph.attributes[at]]
    outcome.runs_of("train_step")          # those of a `tf.function`
    outcome.value, outcome.exit_code, outcome.error, outcome.stdout, outcome.stderr

A program is a file, a function as `"tests.placement.workloads:train"`, which need not be imported
here and so may import TensorFlow at its top, or a callable that pickle can name. It runs in a fork
of a process that has imported TensorFlow, before its context is made, in an empty working
directory. Where it crashes or fails, what was recorded until then is there. Single eager ops:
`tests.emulator.eager`.

TensorFlow puts an eager op into a function of its own and places that too: `run.is_eager_op`.

What is not as with a real GPU: ops that only a GPU can compute (cuDNN's, NCCL's; a convolution in
NCHW) are placed and then fail with UNIMPLEMENTED, so what a program would have called after that is
missing; functions that XLA should compile run op by op, and one that is called from another is
placed, which XLA's is not; grappler does not see the devices as GPUs (its layout optimizer rests).
"""

import atexit
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.emulator.build import CannotBuildError, Installation, built
from traceanalyzer.capture_file.document import Attributes
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph

_ROOT: Final = Path(__file__).parents[2]
_SERVER: Final = Path(__file__).with_name("server.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerRun:
    """One run of TensorFlow's placer. Columns have one entry a node, in the order of the graph."""

    function: str  #: its name (`__inference_step_12`); "" for the graph of a session
    #: The placer's input. `devices` holds the requested devices, and for nodes that were assigned
    #: before (`_Arg`, `_Retval`) that device.
    graph: Graph
    attributes: tuple[Attributes, ...]  #: the attribute sets that `graph.attributes` numbers
    assigned_before: tuple[str, ...]  #: "" for none
    default_device: str  #: "" for none (sessions)
    soft_placement: bool
    devices: tuple[str, ...]  #: those of highest priority first
    assigned: tuple[str, ...]  #: the placer's answer; empty if it refused

    @property
    def is_eager_op(self) -> bool:
        """Whether it is one eager op, in the function that TensorFlow made for it."""
        return self.function.startswith("__wrapped__")

    def device_of(self, node: str) -> str:
        """Return the device that a node was given.

        Raises:
            LookupError: There is no such node, or the placer refused.
        """
        at = self.graph.index(node)
        if at < 0 or not self.assigned:
            raise LookupError(node)
        return self.assigned[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMade:
    """A kernel that TensorFlow made: op type, device, name of the node."""

    op: str
    device: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended, and what was recorded."""

    runs: tuple[PlacerRun, ...]  #: in order of time
    kernels: tuple[KernelMade, ...]  #: in order of time, eager ops' too
    value: Any  #: returned by the callable; None if it failed, or is a file
    exit_code: int  #: 1 for an uncaught exception, minus the signal's number
    error: str  #: the uncaught exception's traceback
    stdout: str
    stderr: str  #: with TensorFlow's log

    def runs_of(self, function: str) -> tuple[PlacerRun, ...]:
        """Return the runs of a `tf.function` by its Python name."""
        return tuple(
            run for run in self.runs if run.function.startswith(f"__inference_{function}_")
        )


class Oracle:
    """A process that has imported TensorFlow and forks one for each program."""

    def __init__(self, python: str = sys.executable) -> None:
        """Start the process, which takes seconds, and build the emulator where it is not yet.

        Args:
            python: The interpreter whose TensorFlow is asked; it needs nothing else.

        Raises:
            CannotBuildError: The emulator cannot be built, or there is no TensorFlow.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._server = subprocess.Popen(
            [python, str(_SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        try:
            self.installation = Installation(**self._received())
            self._library = built(self.installation)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        program: Path | str | Callable[..., Any],
        *arguments: Any,  # noqa: ANN401 - the program's
        gpus: int = 1,
        memory: int = 8 << 30,
        environment: Mapping[str, str | None] | None = None,
        seconds: float = 300.0,
    ) -> Outcome:
        """Run a program in a process of its own.

        Args:
            program: A Python file; a function as `package.module:function`; or a callable that
                pickle can name.
            arguments: Its arguments; of a file, those of its command line.
            gpus: How many GPUs are emulated; 0 for none.
            memory: The memory of each, in bytes.
            environment: Variables to set, or with None to unset, before TensorFlow is used.
            seconds: After which it is killed.

        Raises:
            TimeoutError: It was killed.
        """
        folder = Path(tempfile.mkdtemp(prefix="emulator-"))
        try:
            ended = self._request(
                {
                    "file": str(program.resolve()) if isinstance(program, Path) else "",
                    "name": program if isinstance(program, str) else "",
                    # Loaded in the fork, where the project's modules can be imported.
                    "call": pickle.dumps((program if callable(program) else None, arguments)),
                    "folder": str(folder),
                    "library": str(self._library),
                    "gpus": gpus,
                    "memory": memory,
                    # Without a GPU nothing is to look for one; with one its visibility is ours.
                    "environment": {"CUDA_VISIBLE_DEVICES": None if gpus else "-1"}
                    | dict(environment or {}),
                    "path": [str(_ROOT)],
                    "seconds": seconds,
                }
            )
            outcome = _outcome(folder, ended["exit_code"])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if ended["timed_out"]:
            words = f"killed after {seconds} s: {outcome.stderr[-2000:]}"
            raise TimeoutError(words)
        return outcome

    def close(self) -> None:
        """End the process."""
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()
        self._server.wait()
        self._log.close()

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        pickle.dump(request, self._server.stdin)
        self._server.stdin.flush()
        return self._received()

    def _received(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        try:
            message: dict[str, Any] = pickle.load(self._server.stdout)  # noqa: S301 - our own
        except EOFError:
            self._log.seek(0)
            words = self._log.read().decode(errors="replace").strip().rpartition("\n")[2]
            reason = f"the process that imports TensorFlow ended: {words}"
            raise CannotBuildError(reason) from None
        return message


def the_oracle(python: str = sys.executable) -> Oracle:
    """Return the oracle of an interpreter, one for the whole test run.

    Skips the test where the emulator cannot be built.
    """
    found = _oracle_or_reason(python)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@lru_cache
def _oracle_or_reason(python: str) -> Oracle | str:
    try:
        oracle = Oracle(python)
    except CannotBuildError as error:
        return str(error)
    atexit.register(oracle.close)
    return oracle


def _outcome(folder: Path, exit_code: int) -> Outcome:
    value = folder / "value"
    return Outcome(
        runs=_runs(folder / "runs"),
        kernels=tuple(map(_kernel, _lines(folder / "runs" / "kernels"))),
        value=pickle.loads(value.read_bytes()) if value.exists() else None,  # noqa: S301 - our own
        exit_code=exit_code,
        error=_text(folder / "error"),
        stdout=_text(folder / "stdout"),
        stderr=_text(folder / "stderr"),
    )


def _kernel(line: str) -> KernelMade:
    op, device, node = line.split("\t")
    return KernelMade(op=op, device=device, node=node)


def _runs(folder: Path) -> tuple[PlacerRun, ...]:
    """Read what the emulator recorded; the files' form stands in placer_runs.h."""
    pool = AttributePool()
    found = [
        (file, parse_graph(file.with_suffix(".graph").read_bytes(), pool))
        for file in sorted(folder.glob("*.input"), key=lambda file: int(file.stem))
    ]
    attributes = tuple(pool.sets)
    runs = []
    for file, graph in found:
        lines = _lines(file)
        if len(lines) != 4 + len(graph):
            continue  # the process ended while it was written
        function, default_device, soft, devices, *before = lines
        assigned = _lines(file.with_suffix(".answer"))
        runs.append(
            PlacerRun(
                function=function,
                graph=graph,
                attributes=attributes,
                assigned_before=tuple(before),
                default_device=default_device,
                soft_placement=soft == "1",
                devices=tuple(devices.split("\t")),
                assigned=tuple(assigned) if len(assigned) == len(graph) else (),
            )
        )
    return tuple(runs)


def _lines(file: Path) -> list[str]:
    """Return the lines that are there whole."""
    return _text(file).split("\n")[:-1]


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
