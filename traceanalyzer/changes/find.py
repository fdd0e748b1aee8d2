"""Finds the changes that a user can make, largest saving first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.causes import Cause, all_causes
from traceanalyzer.changes.beside import changes_beside
from traceanalyzer.changes.host_work import host_work_changes
from traceanalyzer.changes.layer_lines import LayerLines
from traceanalyzer.changes.line_ops import ops_in_loops
from traceanalyzer.changes.placement import PlacementChanges
from traceanalyzer.changes.saving import Savings
from traceanalyzer.changes.source import Sources
from traceanalyzer.changes.unexplained import find_cause_changes, gpu_change
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.findings import finding_id
from traceanalyzer.model.changes import Change, Place, Saving, with_distinct_ids
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.profiler_messages import gpu_work_lost
from traceanalyzer.run import Run
from traceanalyzer.source_files import shown_files

_SETTLED: Final = frozenset({"find_cause", "gpu"})  # by a capture


def changes_of(diagnosis: Diagnosis, causes: Sequence[Cause] | None = None) -> tuple[Change, ...]:
    """Return the changes that a user can make, largest saving first."""
    failed = {each.cause for each in diagnosis.outcomes if each.status == "failed"}
    causes = [c for c in (all_causes() if causes is None else causes) if c.id not in failed]
    run = diagnosis.run
    capture_files = [capture_file for _, capture_file in run.captured]
    savings = Savings(diagnosis)
    sources = Sources(capture_files)
    placement = PlacementChanges(
        capture_files=capture_files,
        sources=sources,
        savings=savings,
        is_soft=all(map(_is_soft, capture_files)),
        loops=ops_in_loops(run),
    )
    found = placement.of(diagnosis.cpu_ops, diagnosis.findings, causes)
    there = diagnosis.on_a_gpu
    if there is not None:
        predicted = replace(placement, is_prediction=True)
        found += predicted.of(there.analysis.cpu_ops, there.findings, causes)
    unknown = find_cause_changes(diagnosis, savings)
    gpu = gpu_change(diagnosis, sources)
    if gpu is not None and there is not None and there.hides_gpus:
        found = [replace(c, needs=(*c.needs, gpu.id)) if c.is_prediction else c for c in found]
    beside = [_at_definition(each, sources) for each in changes_beside(diagnosis, savings)]
    found += [*unknown, *([] if gpu is None else [gpu]), *beside]
    found += host_work_changes(diagnosis)
    cpu_ops = {**diagnosis.cpu_ops, **({} if there is None else there.analysis.cpu_ops)}
    layers = LayerLines(capture_files)
    found = [layers.at_layer(each, cpu_ops) for each in found if not _is_set_up(each)]
    found = sorted(with_distinct_ids(found), key=_order)
    needs_lines = any(each.is_by_placement and each.place is None for each in found)
    # A capture uses the same profiler, which has to work first.
    if run.hosts and not capture_files and needs_lines and gpu_work_lost(run) is None:
        at = next((k for k, c in enumerate(found) if c.kind in _SETTLED), len(found))
        found.insert(at + 1, _record(is_cause_unknown=bool(unknown), gpu_used=run.gpu_used))
    return in_order(diagnosis, _shown([_with_line(c, sources) for c in found], run))


def in_order(diagnosis: Diagnosis, found: Sequence[Change]) -> tuple[Change, ...]:
    """Put the change that makes a GPU visible last if other changes would move ops to the GPU.

    Its title then says that it is about this machine, and it has no saving: the others are about a
    machine with a GPU. If the machine has a GPU, or the program hides all GPUs, it comes before the
    changes that help only then; if the program failed because a GPU was missing, it comes first.
    """
    there, captured = diagnosis.on_a_gpu, [captured for _, captured in diagnosis.run.captured]
    others = [change for change in found if change.kind != "gpu"]
    gpu = [change for change in found if change.kind == "gpu"]
    failed = next(filter(None, map(failure, captured)), None)
    if failed is not None and failed.missing:
        return (*gpu, *others)
    if there is None or not there.analysis.replayed or not moves_ops(found):
        return tuple(found)
    if there.hides_gpus or any(each.gpus for each in captured):
        at = next(k for k, change in enumerate(found) if change.is_by_placement)
        return (*others[:at], *gpu, *others[at:])
    none = Saving(kind="none", note="the trace does not show what a GPU would save")
    return (*others, *(replace(c, title=_on_this_machine(c.title), saving=none) for c in gpu))


def _on_this_machine(title: str) -> str:
    return f"Make a GPU visible here: {title[:1].lower()}{title[1:]}"


def moves_ops(changes: Sequence[Change]) -> bool:
    """Return whether any change to the program moves ops to a GPU."""
    return any(change.is_by_placement and change.kind != "gpu" for change in changes)


def _is_set_up(change: Change) -> bool:
    """Return whether a change is about ops that a library runs once, such as in `adapt`."""
    return change.kind == "library" and change.saving.per == "once"


def _at_definition(change: Change, sources: Sources) -> Change:
    """Return a change with the line of the Python function to edit, not of its call by an op."""
    place = change.place and sources.of_python_function(change.place)
    return replace(change, place=place)


def _with_line(change: Change, sources: Sources) -> Change:
    if change.place is None or change.edits:
        return change
    return replace(change, line_text=sources.line(*change.place))


def _record(*, is_cause_unknown: bool, gpu_used: bool) -> Change:
    detail = "A capture records dtypes, requested devices, and source lines."
    if not gpu_used:
        detail += " Its report also predicts which ops would stay on the CPU of a GPU machine."
    return Change(
        id=finding_id("record", ""),
        kind="record",
        title="Record a capture" + (" to find the cause" if is_cause_unknown else ""),
        detail=detail,
        instead="traceanalyzer capture script.py",
        why="A trace alone does not contain the data that determines placement.",
        effort="command",
    )


def _is_soft(capture_file: CaptureFile) -> bool:
    """Return whether TensorFlow drops a device request if the op has no kernel for the device."""
    in_functions = (capture_file.devices or {}).get("soft_device_placement") is not False
    has_sessions = any(is_session(function.name) for function in capture_file.functions)
    return in_functions and not has_sessions


def _order(change: Change) -> tuple[bool, bool, float, float, str]:
    """Return the sort key of a change: its share of the step, whatever its kind.

    What makes a GPU visible comes first if it is unknown which part of the step it shortens.
    """
    saving = change.saving
    return (
        saving.per != "step",
        not (change.kind == "gpu" and saving.kind == "none"),
        -(saving.share or 0.0),
        -(saving.high_us or 0.0),
        change.title,
    )


def _shown(changes: Sequence[Change], run: Run) -> list[Change]:
    """Return changes with file names that do not show the author's folders."""

    def name(file: str) -> str:
        return shown_files([file], run)[0] or file

    def shown(place: Place) -> Place:
        return (name(place[0]), place[1])

    return [
        replace(
            change,
            place=change.place and shown(change.place),
            also=tuple(map(shown, change.also)),
            edits=tuple(replace(edit, file=name(edit.file)) for edit in change.edits),
        )
        for change in changes
    ]
