"""Runs all checks, from the hardware up to TensorFlow and the script, and reaches a verdict."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from traceanalyzer.doctor.check import Check, found
from traceanalyzer.doctor.facts import Limit, MachineFacts, Script
from traceanalyzer.doctor.hardware import (
    VISIBLE,
    check_devices,
    check_driver,
    check_gpu,
    check_variables,
    visible_gpus,
)
from traceanalyzer.doctor.installation import (
    check_import,
    check_installation,
    check_libraries,
    check_profiling,
)
from traceanalyzer.doctor.tensorflow_log import reasons
from traceanalyzer.format import counted, listed

# A whole statement outside of functions and conditions.
_HIDES: Final = re.compile(r"[\w.]*set_visible_devices\(\s*(?:devices\s*=\s*)?\[\s*\]")
_MEMORY: Final = frozenset(
    {
        "set_memory_growth",
        "set_logical_device_configuration",
        "per_process_gpu_memory_fraction",
    }
)


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """The doctor's result."""

    checks: tuple[Check, ...]
    usable: bool  #: whether TensorFlow, or the script, was seen to have a GPU
    log: tuple[str, ...] = ()  #: what TensorFlow said, if it was asked

    @property
    def obstacles(self) -> tuple[Check, ...]:
        """The obstacles to using a GPU, in the order in which to remove them."""
        return tuple(check for check in self.checks if check.status == "obstacle")


def diagnose(facts: MachineFacts) -> Checkup:
    """Run all checks. If TensorFlow lists a GPU, obstacles from other checks become warnings."""
    below = [*before_tensorflow(facts), *check_import(facts)]
    sees_gpu = bool(facts.answer and facts.answer.gpus)
    if sees_gpu:
        below = [replace(c, status="warning") if c.status == "obstacle" else c for c in below]
    has_obstacle = any(check.status == "obstacle" for check in below)
    checks = [*below, *_answer(facts, is_explained=has_obstacle)]
    script_sees_gpu = True
    if facts.script is not None:
        made = [*_script(facts, facts.script)]
        checks += made
        script_sees_gpu = bool(facts.script.gpus)
    log = facts.answer.log if facts.answer is not None else ()
    return Checkup(checks=tuple(checks), usable=sees_gpu and script_sees_gpu, log=log)


def has_obstacle(facts: MachineFacts) -> bool:
    """Return whether a check that does not start TensorFlow finds an obstacle."""
    return any(check.status == "obstacle" for check in before_tensorflow(facts))


def before_tensorflow(facts: MachineFacts) -> Iterator[Check]:
    """Yield the checks that do not start TensorFlow."""
    for name in ("machine", "driver"):
        failure = facts.failures.get(name)
        if failure is not None and (name == "machine" or not facts.has_gpu):
            yield found("probe_failed", probe="GPU", failure=failure)
    yield from check_gpu(facts)
    yield from check_driver(facts)
    yield from check_installation(facts)
    yield from check_libraries(facts)
    yield from check_variables(facts)
    yield from check_devices(facts)
    yield from check_profiling(facts)


def _answer(facts: MachineFacts, *, is_explained: bool) -> Iterator[Check]:
    answer, failure = facts.answer, facts.failures.get("tensorflow")
    is_slow = failure is not None and answer is not None and answer.gpus is None
    if answer is None or (is_slow and is_explained):
        if facts.installation.origin:
            yield found("tensorflow_not_asked")
        return
    if answer.gpus:
        yield found("tensorflow_sees_gpu", count=counted(len(answer.gpus), "GPU"))
    elif answer.gpus is not None:
        said = [text for _, text in reasons(answer.log)]
        sees_none = found(
            "tensorflow_sees_none",
            why="" if is_explained else ", and no check above found the reason",
            said="".join(f"; {text}" for text in said[:2]),
            installed=facts.installation,
        )
        yield replace(sees_none, status="note") if is_explained else sees_none
    elif failure is not None:
        installed = facts.installation
        yield found("tensorflow_did_not_answer", failure=failure, installed=installed)


def _script(facts: MachineFacts, script: Script) -> Iterator[Check]:
    """Check whether a script limited the GPUs before TensorFlow created its devices."""
    hides = False
    # The last choice of each kind counts.
    for limit in {each.kind: each for each in script.limits}.values():
        at, what = _at(limit), f"{limit.kind}: {limit.value}"
        if limit.kind in _MEMORY:
            yield found("script_memory", at=at, what=what)
        elif not _selects_none(facts, limit):
            continue
        elif script.gpus_to_choose_from == 0 and not _hides_anywhere(limit):
            yield found("script_may_hide_gpu", at=at, what=what, command=_edit(limit))
        else:
            hides = True
            yield found("script_hides_gpu", at=at, what=what, command=_edit(limit))
    failure = facts.failures.get("script")
    if script.gpus:
        yield found("script_sees_gpu", count=counted(len(script.gpus), "GPU"))
    elif script.gpus is None and not hides:
        problem = script.ended if failure is None else f"{failure.step} {failure.text}"
        lines = listed([f"line {line}" for line in script.may_hide])
        yield found("script_not_known", problem=problem, lines=lines and f"; check {lines}")
    elif not hides and facts.answer is not None and facts.answer.gpus:
        yield found("script_sees_none", script="script.py")


def _selects_none(facts: MachineFacts, limit: Limit) -> bool:
    if limit.kind == VISIBLE:
        return bool(visible_gpus(limit.value, facts.driver.cuda_gpus)[1])
    if limit.kind == "set_visible_devices":
        return "GPU" not in limit.value
    return limit.kind == "device_count"


def _hides_anywhere(limit: Limit) -> bool:
    """Return whether a line would also hide every GPU on a machine with GPUs."""
    return limit.kind != "set_visible_devices" or bool(_HIDES.match(limit.line))


def _at(limit: Limit) -> str:
    return "" if limit.place is None else f" ({PurePath(limit.place[0]).name}:{limit.place[1]})"


def _edit(limit: Limit) -> str:
    if limit.place is None:
        return "unset CUDA_VISIBLE_DEVICES"
    return f"${{EDITOR:-vi}} +{limit.place[1]} {shlex.quote(limit.place[0])}"
