"""The command-line argument that likely chose a requested device, such as `--device=cpu`.

If no line spells out the device, its value comes from elsewhere. An argument with that value is the
likely origin; a command line proves no more.
"""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.model import Evidence
    from traceanalyzer.placement.blocker import Blocker

_CPU: Final = re.compile(r"/?(?:device:)?cpu(?::(?P<index>\d+))?", re.IGNORECASE)
_OPTION: Final = re.compile(r"(?P<name>--?\w[\w.-]*)(?:=(?P<value>.*))?")
_CAPTURE_WORDS: Final = 2  # `traceanalyzer capture`
_BY_SCOPE: Final = frozenset({BlockerKind.REQUEST, BlockerKind.DEFAULT_DEVICE})


def argument_note(
    blockers: Sequence[Blocker], capture_files: Sequence[CaptureFile]
) -> tuple[Evidence, Fix] | None:
    """Return the argument that likely chose the CPU for some ops, and what to do about it."""
    chosen = {
        capture_file.frames[at] for capture_file in capture_files for at in capture_file.chosen
    }
    if not all(_may_come_from_argument(blocker, chosen) for blocker in blockers):
        return None
    devices = {_device_of(blocker) for blocker in blockers}
    for option, value in (a for c in capture_files for a in _arguments(c.command or ())):
        if all(_names(value, device) for device in devices):
            argument = f"{option}{value}"
            return (
                observed("command_line", f"the program was run with `{argument}`"),
                Fix(
                    text=(
                        f"The argument `{argument}` likely chooses this device: name the GPU there."
                    ),
                    code=option + re.sub("cpu", _gpu_for, value, flags=re.IGNORECASE),
                ),
            )
    return None


def _may_come_from_argument(blocker: Blocker, chosen: set[Frame]) -> bool:
    """Return whether no line spells out the requested device."""
    if blocker.copied_from or (blocker.scope is None and blocker.kind not in _BY_SCOPE):
        return False
    frame = blocker.scope_frame
    if frame is None:
        return True
    if frame.is_user:
        return frame in chosen and "cpu" not in (frame.text or "").lower()
    text = linecache.getline(frame.file, frame.line).lower()
    return "device(" in text and "cpu" not in text


def _device_of(blocker: Blocker) -> str:
    if blocker.scope is None and blocker.call is not None:
        return device_text(blocker.call.scope)
    return device_text(blocker.scope or blocker.requested_device)


def _arguments(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Walk the options of a command with the separator, such as `--device=`, and their values."""
    before = ""
    for word in command[_CAPTURE_WORDS:]:
        option = _OPTION.fullmatch(word)
        if option is None and before:
            yield f"{before} ", word
        elif option is not None and option["value"] is not None:
            yield f"{option['name']}=", option["value"]
        before = word if option is not None and option["value"] is None else ""


def _names(value: str, device: str) -> bool:
    """Return whether a value names a device: `cpu` names any CPU, `/cpu:0` the first."""
    given, requested = _CPU.fullmatch(value), _CPU.fullmatch(device)
    if given is None or requested is None:
        return False
    return given["index"] is None or given["index"] == (requested["index"] or "0")


def _gpu_for(match: re.Match[str]) -> str:
    return "GPU" if match[0].isupper() else "gpu"
