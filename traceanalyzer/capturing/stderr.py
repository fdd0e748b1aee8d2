r"""What the script writes to stderr, less what TensorFlow says there only because of the capture.

The capture makes TensorFlow dump its graphs and starts profiler sessions, and TensorFlow logs
both. Those lines are taken out; every other byte passes in its order. TensorFlow's log lines have
one of two forms, the newer from 2.18 or so on (abseil's):

    2026-11-21 12:26:08.510075: I tensorflow/core/util/dump_graph.cc:240] Dumped Graph to ...
    I0000 00:00:1795263718.987488    4311 dump_graph.cc:245] Dumped Graph to ...

They may begin in the middle of a line, behind a progress bar. What TensorFlow says about a session
is told by its source file, and only between two sentinels that the recorder writes around what it
does: `\0traceanalyzer:TOKEN:quiet\n` and `\0traceanalyzer:TOKEN:loud\n`. Lines about devices are
kept as evidence besides.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["StderrFilter", "is_about_devices", "text_of"]

_HEADER_PARTS: Final = (
    (
        *([rb"[IWEF]"] + [rb"\d"] * 4 + [rb" ", rb"\d", rb"\d", rb":", rb"\d", rb"\d", rb":"]),
        *(rb"\d+", rb"\.", rb"\d+", rb" +", rb"\d+", rb" ", rb"[\w./+-]+", rb":", rb"\d+", rb"\]"),
    ),
    (
        *([rb"\d"] * 4 + [rb"-", rb"\d", rb"\d", rb"-", rb"\d", rb"\d", rb" "]),
        *(rb"\d", rb"\d", rb":", rb"\d", rb"\d", rb":", rb"\d", rb"\d", rb"\.", rb"\d+", rb":"),
        *(rb" ", rb"[IWEF]", rb" ", rb"[\w./+-]+", rb":", rb"\d+", rb"\]"),
    ),
)
_HEADER: Final = re.compile(
    rb"(?:[IWEF]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ "
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )"
    rb"(?P<file>[\w./+-]+):\d+\] "
)


def _beginnings(parts: tuple[bytes, ...]) -> bytes:
    """Return a pattern of everything that a sequence of parts can begin with."""
    pattern = b""
    for part in reversed(parts):
        pattern = part + (b"(?:" + pattern + b")?" if pattern else b"")
    return pattern


_BEGINNING: Final = re.compile(
    b"(?:" + b"|".join(_beginnings(parts) for parts in _HEADER_PARTS) + rb")\Z"
)

# Abseil's word before its first line, whichever that is: it goes with the first line that passes.
_PREAMBLE: Final = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
)
_SOURCES: Final = (b".cc:", b".h:")  # no line of TensorFlow's log is without one
_DUMPS: Final = "dump_graph.cc"
_PLACER: Final = "placer.cc"  # TensorFlow 2.12 dumps from there, and tells every placement as well
_PLACER_SAYS: Final = (b" placed on: ", b"Wrote ColocationGraph to ")
_SESSION: Final = re.compile(
    r"(?:profiler_session|profiler_server|profiler_service_impl|save_profile|cupti_\w+)\.cc"
)
_ABOUT_DEVICES: Final = re.compile(
    rb"gpu|cuda|cudnn|cublas|cufft|curand|nvidia|nvml|nccl|tensorrt|tf-trt|onednn|\bmkl|rocm"
    rb"|\bdevices?\b|cpu_feature|instructions|xla|driver|dso|dlopen|numa|compute capability"
    rb"|bfc_allocator|out of memory",
    re.IGNORECASE,
)
_NOT_ABOUT_DEVICES: Final = {_PLACER, "execute.cc"}  # a line for each op, where the user asks

_QUIET: Final = b"quiet\n"
_SENTINELS: Final = (_QUIET, b"loud\n")
_WINDOW: Final = 256  # bytes; no header is longer
_LONGEST_HELD: Final = 1 << 16
_LONGEST_KEPT: Final = 1000  # bytes of a line
_MOST_KEPT: Final = 2000  # lines


def is_about_devices(line: bytes) -> bool:
    """Whether a line is one of TensorFlow's log that tells of devices or the libraries for them."""
    header = next(_headers(line), None)
    return (
        header is not None
        and _name(header) not in _NOT_ABOUT_DEVICES
        and _ABOUT_DEVICES.search(line, header.start("file")) is not None
    )


def text_of(line: str) -> str:
    """Return what a log line says, without when and where it was said."""
    return line.partition("] ")[2] or line


class StderrFilter:
    """Takes out what TensorFlow says because of the capture; keeps what it says of devices.

    Attributes:
        log: TensorFlow's lines about devices, as they passed.
        omitted: How many more such lines there were than are kept.
    """

    def __init__(
        self,
        token: str,
        prefixes: tuple[str, ...],
        *,
        logdir: str = "",
        with_placer: bool = True,
    ) -> None:
        """Set up a filter.

        Args:
            token: What marks the recorder's sentinels as those of this capture.
            prefixes: How the paths of our dumps begin.
            logdir: Log directory, which TensorFlow tells as it is, even if that takes lines.
            with_placer: Whether the placer's own log is our doing; not so where the user asked
                for it.
        """
        self.log: list[str] = []
        self.omitted = 0
        self._sentinel = b"\0traceanalyzer:" + token.encode() + b":"
        self._prefixes = tuple(prefix.encode("utf-8", "surrogateescape") for prefix in prefixes)
        self._logdir = BytesIO(f"{logdir}/".encode("utf-8", "surrogateescape")).readlines()
        self._told_of_logdir: list[bytes] = []  # how the next lines begin that go with the last
        self._with_placer = with_placer
        self._quiet = False
        self._held = b""  # the beginning of what may have to go
        self._preamble = b""  # abseil's word, until it is known of which line
        self._owes_preamble = False  # it was of a line that went
        self._begun = b""  # a log line that has passed in part: it may have to be kept

    @property
    def is_holding(self) -> bool:
        """Whether something waits for its continuation; it should not for long."""
        return bool(self._held or self._preamble)

    def feed(self, data: bytes) -> bytes:
        """Take what was written; return what of it, and of what was held, is to pass on."""
        data = self._held + data
        end_of_lines = data.rfind(b"\n") + 1
        lines, tail = data[:end_of_lines], data[end_of_lines:]
        if lines and self._concerns(lines):
            lines = b"".join(self._filtered(line + b"\n") for line in lines[:-1].split(b"\n"))
        headers = list(_headers(tail))
        start = self._suspect(tail, headers)
        self._held = tail[start:]
        begun = tail[:start]
        if begun:
            begun = self._before(begun)
            if self._begun or headers:
                self._begun = (self._begun + begun)[:_LONGEST_KEPT]
        return lines + begun

    def flush(self) -> bytes:
        """Return what was held: its continuation did not come in time."""
        held, self._held, self._preamble = self._preamble + self._held, b"", b""
        return held

    def _concerns(self, lines: bytes) -> bool:
        """Whether complete lines may hold anything to take out or to keep."""
        return (
            bool(self._preamble or self._begun or self._told_of_logdir)
            or b"\0" in lines
            or (b"]" in lines and any(source in lines for source in _SOURCES))
            or _PREAMBLE in lines
        )

    def _filtered(self, line: bytes) -> bytes:
        """Return what of a complete line passes."""
        if self._told_of_logdir and line.startswith(self._told_of_logdir.pop(0)):
            return b""
        self._told_of_logdir = []
        at = line.find(self._sentinel)
        if at >= 0 and line[at + len(self._sentinel) :] in _SENTINELS:
            self._quiet = line.endswith(_QUIET)
            return self._before(line[:at])  # the line that it came upon goes on
        at = line.find(_PREAMBLE)
        if at >= 0:
            before = self._before(line[:at])
            self._preamble += _PREAMBLE
            return before
        headers = list(_headers(line))
        for header in headers:
            if self._is_ours(_name(header), line[header.end() :]):
                if self._preamble:
                    self._preamble, self._owes_preamble = b"", True
                if line.endswith(self._logdir[0]):
                    self._told_of_logdir = self._logdir[1:]
                return line[: header.start()]
        start = headers[0].start() if headers else 0
        if headers or self._begun:
            self._keep(self._begun + line[start:])
            self._begun = b""
        if headers and self._owes_preamble and line[start : start + 1].isalpha():
            self._owes_preamble = False
            return line[:start] + _PREAMBLE + line[start:]
        return self._before(line)

    def _before(self, data: bytes) -> bytes:
        """Return what passes, behind the preamble that waited for it."""
        if data and self._preamble:
            data, self._preamble = self._preamble + data, b""
        return data

    def _is_ours(self, name: str, text: bytes) -> bool:
        """Whether TensorFlow says this because of the capture."""
        if name == _DUMPS:
            return any(prefix in text for prefix in self._prefixes)
        if name == _PLACER:
            return self._with_placer and any(words in text for words in _PLACER_SAYS)
        return self._quiet and _SESSION.fullmatch(name) is not None

    def _keep(self, line: bytes) -> None:
        if not is_about_devices(line):
            return
        if len(self.log) < _MOST_KEPT:
            self.log.append(line[:_LONGEST_KEPT].decode("utf-8", "replace").rstrip("\n"))
        else:
            self.omitted += 1

    def _suspect(self, tail: bytes, headers: list[re.Match[bytes]]) -> int:
        """Return from where on an incomplete line may have to go: its length if nowhere."""
        found = [0 if self._told_of_logdir else len(tail)]
        zero = tail.rfind(b"\0", -len(self._sentinel) - len(_QUIET))
        if zero >= 0 and any(
            (self._sentinel + word).startswith(tail[zero:]) for word in _SENTINELS
        ):
            found.append(zero)
        at = tail.rfind(_PREAMBLE[:1], -len(_PREAMBLE))
        if at >= 0 and _PREAMBLE.startswith(tail[at:]):
            found.append(at)
        beginning = _BEGINNING.search(tail, max(0, len(tail) - _WINDOW))
        if beginning:
            found.append(beginning.start())
        found += [header.start() for header in headers if self._may_be_ours(_name(header))]
        start = min(found)
        return start if len(tail) - start <= _LONGEST_HELD else len(tail)

    def _may_be_ours(self, name: str) -> bool:
        return (
            name == _DUMPS
            or (name == _PLACER and self._with_placer)
            or (self._quiet and _SESSION.fullmatch(name) is not None)
        )


def _headers(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the headers of log lines in a line, looking only where one can be."""
    if b"]" not in data:  # of one byte, which is found many times as fast as several
        return
    for source in _SOURCES:
        end, at = 0, data.find(source)
        while at >= 0:
            header = _HEADER.search(data, max(end, at - _WINDOW), at + _WINDOW)
            if header:
                yield header
                end = header.end()
            at = data.find(source, max(end, at + 1))


def _name(header: re.Match[bytes]) -> str:
    return PurePosixPath(header["file"].decode("ascii", "replace")).name
