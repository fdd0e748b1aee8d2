"""Examines a machine: runs probes in parallel, each with a time limit, and diagnoses the facts."""

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from traceanalyzer.doctor.check import table
from traceanalyzer.doctor.checklist import Checkup, diagnose, has_obstacle
from traceanalyzer.doctor.facts import (
    Answer,
    Driver,
    Installation,
    Library,
    Limit,
    MachineFacts,
    OperatingSystem,
    ProbeFailure,
    Script,
    numbers,
)
from traceanalyzer.doctor.probing import Probe, ProbeResult
from traceanalyzer.doctor.tensorflow_log import log_lines
from traceanalyzer.errors import TraceAnalyzerError

_Record = TypeVar("_Record")
_HIDES: Final = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The settings of an examination, with time limits for its parts."""

    interpreter: Sequence[str] = (sys.executable,)
    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: str = "/"  #: the folder of /sys, /proc, and /dev
    script: str | None = None
    arguments: Sequence[str] = ()
    probe_s: float = 5.0
    libraries_s: float = 10.0  #: all of them
    script_s: float = 18.0
    tensorflow_s: float = 15.0  #: 0 not to ask it
    #: How long to wait for TensorFlow's answer if an obstacle is known; 0 not to ask it then.
    patience_s: float = 2.5


def examine(request: Examination) -> Checkup:
    """Return whether TensorFlow can use a GPU on this machine, and if not, why.

    Raises:
        TraceAnalyzerError: The interpreter cannot run Python.
    """
    with ExitStack() as stack:
        return diagnose(_Gathering(request, stack).facts())


class _Gathering:
    def __init__(self, request: Examination, stack: ExitStack) -> None:
        self._request, self._stack = request, stack
        self._began_s = time.monotonic()
        self._failures: dict[str, ProbeFailure] = {}

    def facts(self) -> MachineFacts:
        request = self._request
        names = table("versions")["packages"]["names"]
        variables = list(table("variables"))
        installation = self._start("installation", variables=variables, packages=names)
        machine = self._start("machine")
        # The driver is asked about hidden GPUs, too.
        driver = self._start("driver", {n: v for n, v in request.variables.items() if n != _HIDES})
        script = None
        if request.script is not None:
            arguments = list(request.arguments)
            script = self._start("script", script=request.script, arguments=arguments)
        answer = self._start("tensorflow", self._with_log()) if request.patience_s > 0 else None
        installed = self._record(Installation, installation)
        found = MachineFacts(
            installation=installed,
            libraries=tuple(self._libraries(installed)),
            machine=self._record(OperatingSystem, machine),
            driver=self._record(Driver, driver),
            failures=self._failures,
        )
        limit_s = request.patience_s if has_obstacle(found) else request.tensorflow_s
        if installed.origin and limit_s > 0:
            began_s = self._began_s if answer is not None else time.monotonic()
            answer = answer or self._start("tensorflow", self._with_log())
            found = replace(found, answer=self._answer(answer, began_s + limit_s))
        return found if script is None else replace(found, script=self._script(script))

    def _with_log(self) -> dict[str, str]:
        return {**self._request.variables, "TF_CPP_MIN_LOG_LEVEL": "0"}

    def _start(
        self, name: str, environment: Mapping[str, str] | None = None, /, **given: object
    ) -> Probe:
        request = self._request
        given["root"] = request.root
        probe = Probe(name, request.interpreter, environment or request.variables, given)
        self._stack.callback(probe.close)
        return probe

    def _result(self, probe: Probe, until_s: float) -> ProbeResult:
        result = probe.result(until_s)
        if result.failure is not None:
            self._failures[probe.name] = result.failure
        return result

    def _record(self, kind: type[_Record], probe: Probe) -> _Record:
        result = self._result(probe, self._began_s + self._request.probe_s)
        if kind is Installation and not (result.reported or result.is_cut_off):
            ended = "ended" if result.failure is None else result.failure.text
            words = shlex.join(self._request.interpreter)
            advice = "name a working interpreter with --python"
            msg = f"{words}: {ended} before it ran any Python code; {advice}"
            raise TraceAnalyzerError(msg)
        return msgspec.convert(result.facts, kind)

    def _libraries(self, installation: Installation) -> list[Library]:
        """Load TensorFlow's libraries. One that hangs or crashes does not affect the others."""
        request, names, found = self._request, _names_of_libraries(installation), []
        until_s = time.monotonic() + request.libraries_s
        given = {"search": list(installation.search), "site": installation.site}
        while names and time.monotonic() < until_s:
            probe = self._start("libraries", names=names, **given)
            result = probe.result(min(until_s, time.monotonic() + request.probe_s))
            found += [
                msgspec.convert(reported, Library)
                for reported in result.reported
                if "name" in reported
            ]
            done = {library.name for library in found}
            names = [name for name in names if name not in done]
            if result.failure is not None and names:
                error = f"the process that opened it {result.failure.text}"
                found.append(Library(name=names.pop(0), error=error))
        return found + [Library(name=name, error=None) for name in names]

    def _script(self, probe: Probe) -> Script:
        result = self._result(probe, self._began_s + self._request.script_s)
        limits = [
            msgspec.convert(reported["limit"], Limit)
            for reported in result.reported
            if "limit" in reported
        ]
        return replace(msgspec.convert(result.facts, Script), limits=tuple(limits))

    def _answer(self, probe: Probe, until_s: float) -> Answer:
        result = self._result(probe, until_s)
        return replace(msgspec.convert(result.facts, Answer), log=tuple(log_lines(result.log)))


def _names_of_libraries(installed: Installation) -> list[str]:
    """Return the names of the libraries that TensorFlow opens, CUPTI last."""
    if installed.cuda is None or installed.build is None:
        return []
    known = table("versions")["libraries"].get(str(installed.cuda[0]))
    if known is None:
        return []
    cudnn = (*numbers(str(installed.build.get("cudnn_version", ""))), 0)[0]
    return [*known["names"], *([f"libcudnn.so.{cudnn}"] if cudnn else []), known["cupti"]]
