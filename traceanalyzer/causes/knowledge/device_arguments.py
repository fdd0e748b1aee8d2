"""The argument of a command line that names the device a program asks for, like `--device=cpu`.

Where the line that asks for a device spells none out, its value comes from elsewhere. If an
argument has that value, it is the likely origin; more than that a command line does not prove.
"""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.placement.blocker import Blocker

__all__ = ["argument_note"]

_CPU: Final = re.compile(r"/?(?:device:)?cpu(?::(?P<index>\d+))?", re.IGNORECASE)
_OPTION: Final = re.compile(r"(?P<name>--?\w[\w.-]*)(?:=(?P<value>.*))?")
_CAPTURE: Final = 2  # `traceanalyzer capture`
_BY_SCOPE: Final = frozenset({BlockerKind.REQUEST, BlockerKind.DEFAULT_DEVICE})


def argument_note(
    blocker: Sequence[Blocker], capture_files: Iterable[CaptureFile]
) -> tuple[Evidence, Fix] | None:
    """Return which argument likely chose the CPU for some ops, and what to do about it.

    Args:
        blocker: What keeps each of them there.
        capture_files: The evidence of the run.

    Returns:
        None where no argument names the device, or the program's lines do.
    """
    known = tuple(capture_files)
    chosen = {capture_file.frames[at] for capture_file in known for at in capture_file.chosen}
    if not all(_is_open(each, chosen) for each in blocker):
        return None
    asked = {_device_of(each) for each in blocker}
    for option, value in (
        a for capture_file in known for a in _arguments(capture_file.command or ())
    ):
        if all(_names(value, device) for device in asked):
            shown = f"{option}{value}"
            instead = option + re.sub("cpu", _gpu_for, value, flags=re.IGNORECASE)
            return (
                Evidence(kind="command_line", text=f"the program was run with `{shown}`"),
                Fix(
                    text=(
                        f"The command line has `{shown}`, which is likely where this device comes "
                        "from: name the GPU there."
                    ),
                    code=instead,
                ),
            )
    return None


def _is_open(blocker: Blocker, chosen: set[Frame]) -> bool:
    """Return whether a request may have its device from an argument: no line spells it out."""
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
    """Walk the options of a command, each with what is between it and its value; and the value."""
    before = ""
    for word in command[_CAPTURE:]:
        option = _OPTION.fullmatch(word)
        if option is None and before:
            yield f"{before} ", word
        elif option is not None and option["value"] is not None:
            yield f"{option['name']}=", option["value"]
        before = word if option is not None and option["value"] is None else ""


def _names(value: str, device: str) -> bool:
    """Return whether a value names a device: `cpu` does each CPU, `/cpu:0` the first."""
    given, asked = _CPU.fullmatch(value), _CPU.fullmatch(device)
    if given is None or asked is None:
        return False
    return given["index"] is None or given["index"] == (asked["index"] or "0")


def _gpu_for(match: re.Match[str]) -> str:
    return "GPU" if match[0].isupper() else "gpu"
