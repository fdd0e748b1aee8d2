"""Runs all checks, from the hardware up to TensorFlow, and reaches a verdict."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from traceanalyzer.doctor.check import Check, found
from traceanalyzer.doctor.facts import MachineFacts
from traceanalyzer.doctor.hardware import check_devices, check_driver, check_gpu, check_variables
from traceanalyzer.doctor.installation import (
    check_import,
    check_installation,
    check_libraries,
    check_profiling,
)
from traceanalyzer.doctor.tensorflow_log import reasons
from traceanalyzer.format import counted


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """The doctor's result."""

    checks: tuple[Check, ...]
    usable: bool  #: whether TensorFlow was seen to have a GPU
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
    checks = (*below, *_answer(facts, is_explained=has_obstacle))
    log = facts.answer.log if facts.answer is not None else ()
    return Checkup(checks=checks, usable=sees_gpu, log=log)


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
