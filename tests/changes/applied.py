"""Applies changes to programs with `patch`, and captures the edited programs."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from pathlib import Path

import traceanalyzer as ta
from tests.labelled import LabelledProgram
from tests.labelled.scoring import recorded
from traceanalyzer.changes import Change, Edit, changes_of
from traceanalyzer.run import Run


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A program before and after the edits of all its changes."""

    all_changes: tuple[Change, ...]
    #: Those with edits, but for one that makes a GPU visible.
    changes: tuple[Change, ...]
    #: By change, the lines and types of its ops that are still on the CPU.
    left: Mapping[str, set[tuple[int, str]]]
    printed_before: str
    printed_after: str


@cache
def only_found(program: LabelledProgram) -> Applied:
    """Capture a program, and find its changes."""
    before = recorded(program).run()
    every = changes_of(ta.diagnose(before))
    return Applied(all_changes=every, changes=(), left={}, printed_before="", printed_after="")


@cache
def applied(program: LabelledProgram) -> Applied:
    """Capture a program, apply the edits of its changes, and capture it again."""
    original = recorded(program)
    before = original.run()
    every = changes_of(ta.diagnose(before))
    edited = tuple(each for each in every if each.edits and each.kind != "gpu")
    changed = recorded(LabelledProgram(patched(program.path, edited)))
    after = changed.run()
    return Applied(
        all_changes=every,
        changes=edited,
        left=left_on_cpu(every, edited, before, after),
        printed_before=original.outcome.stdout,
        printed_after=changed.outcome.stdout,
    )


def left_on_cpu(
    every: Iterable[Change], edited: Iterable[Change], before: Run, after: Run
) -> dict[str, set[tuple[int, str]]]:
    """Return the ops of each edited change that are on the CPU afterwards, by its title.

    Some ops need another change, too, which may have no edit.
    """
    others = {id_ for each in every if not each.edits for id_ in each.op_ids}
    still = _on_cpu(after)
    left = {e.title: _at(before, {*e.op_ids} - others) & still for e in edited}
    return {title: kinds for title, kinds in left.items() if kinds}


def patched(path: Path, applied: Iterable[Change]) -> Path:
    """Return a copy of a program, edited by `patch`."""
    folder = Path(tempfile.mkdtemp(prefix="changes-"))
    copy = Path(shutil.copy(path, folder))
    edits = dict.fromkeys(edit for change in applied for edit in change.edits)
    done = subprocess.run(
        [shutil.which("patch") or "patch", "-p0", "--fuzz=0"],
        cwd=folder,
        input=diff_of(edits),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "offset" not in done.stdout
    return copy


def _on_cpu(run: Run) -> set[tuple[int, str]]:
    """Return the lines and types of ops on the CPU."""
    return _at(run, run.ops["op_id"][run.ops["placement"] == "cpu"])


def _at(run: Run, op_ids: Iterable[str]) -> set[tuple[int, str]]:
    """Return the lines and types of ops."""
    rows = run.ops[run.ops["op_id"].isin(list(op_ids)) & run.ops["source_line"].notna()]
    types = rows["type"].astype(str).str.removeprefix("_Mkl")
    return set(zip(rows["source_line"].astype(int), types, strict=True))


def diff_of(edits: Iterable[Edit]) -> str:
    """Return a unified diff that `patch -p0` applies in the program's folder."""
    files: dict[str, list[Edit]] = {}
    for edit in edits:
        files.setdefault(edit.file, []).append(edit)
    text = ""
    for file, of_file in files.items():
        text += f"--- {file}\n+++ {file}\n"
        shift = 0
        for edit in sorted(of_file, key=lambda each: each.line):
            text += _hunk(edit, shift)
            shift += len(edit.new) - len(edit.old)
    return text


def _hunk(edit: Edit, shift: int) -> str:
    """Return a hunk without context: only the lines to edit are known."""
    lines = list(unified_diff(edit.old, edit.new, n=len(edit.old), lineterm=""))[3:]
    start = edit.line + shift - (not edit.new)
    head = f"@@ -{edit.line},{len(edit.old)} +{start},{len(edit.new)} @@"
    return "".join(f"{line}\n" for line in (head, *lines))
