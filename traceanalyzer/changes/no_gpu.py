"""The change that makes a GPU visible, with everything that hides it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.visibility import obstacles
from traceanalyzer.causes.no_gpu_visible import is_doubtful, obstacle_fix
from traceanalyzer.changes.edits import unhiding_edit
from traceanalyzer.model.changes import Candidate, Change, Saving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.capture_file.visibility import Obstacle
    from traceanalyzer.changes.source import Sources
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.findings import Finding
    from traceanalyzer.model.changes import Edit

_CAUSE: Final = "no_gpu_visible"
_UNKNOWN: Final = "Find out why TensorFlow sees no GPU"
_SHOW_LIBRARIES: Final = 'python -c "import tensorflow as tf; print(tf.sysconfig.get_build_info())"'
_SHOW_HIDDEN: Final = "python -c \"import os; print(os.getenv('CUDA_VISIBLE_DEVICES'))\""
_NOT_MEASURED: Final = "what a GPU would save is not in this trace"


def gpu_change(diagnosis: Diagnosis, sources: Sources) -> Change | None:
    """Return the change that makes a GPU visible; None if the run used one."""
    findings = [f for f in diagnosis.findings if f.cause == _CAUSE]
    predicted = () if diagnosis.on_a_gpu is None else diagnosis.on_a_gpu.findings
    findings += [f for f in predicted if f.cause == _CAUSE]
    if not findings:
        return None
    capture_files = [capture_file for _, capture_file in diagnosis.run.captured]
    every = list(
        dict.fromkeys(o for capture_file in capture_files for o in obstacles(capture_file))
    )
    every.sort(key=is_doubtful)  # those that are sure first
    edits = tuple(_edits(every, sources))
    first = findings[0]
    frame = next((each.frame for each in every if each.frame is not None), None)
    fixes = [fix for finding in findings for fix in finding.fixes]
    hiding = {each.frame.text for each in every if each.frame is not None}
    edited = {edit.old[0].strip() for edit in edits}
    advice = [
        fix.text if fix.code in hiding else fix.code or fix.text
        for fix in fixes
        if fix.code not in edited
    ]
    candidates = () if every else tuple(_checklist(first))
    if candidates:
        advice = [fix.code for fix in fixes if fix.code]
    return Change(
        id=first.id,
        kind="gpu",
        title=(obstacle_fix(every[0]).title if every else None) or _UNKNOWN,
        detail="; ".join(each.text for each in every),
        place=None if frame is None else (frame.file, frame.line),
        edits=edits,
        instead="\n".join(dict.fromkeys(advice)),
        why=first.why,
        saving=Saving(kind="none", per="run", note=_NOT_MEASURED),
        certainty=first.certainty,
        effort="one line" if edits and len(every) == 1 else "command",
        finding_ids=tuple(finding.id for finding in findings),
        op_ids=first.op_ids,
        candidates=candidates,
    )


def _edits(every: Sequence[Obstacle], sources: Sources) -> Iterable[Edit]:
    for obstacle in every:
        if obstacle.frame is not None and not is_doubtful(obstacle):
            edit = unhiding_edit(sources, obstacle.frame.file, obstacle.frame.line)
            if edit is not None:
                yield edit


def _checklist(finding: Finding) -> Iterable[Candidate]:
    """Walk what to check if the reason is unknown."""
    count = len(finding.op_ids)
    for fix in finding.fixes:
        asks = fix.code is not None and fix.code.startswith("python")
        check = (fix.code if asks else _SHOW_LIBRARIES if fix.code else _SHOW_HIDDEN) or ""
        edit = "Do what TensorFlow's messages say." if asks else fix.code or "Unset it."
        yield Candidate(
            cause=finding.cause,
            title=fix.text,
            explains_directly=count,
            explains_following=0,
            check=check,
            edit=edit,
        )
