"""The errors that a caller can meet; each message is one line: what, why, what to do."""

from __future__ import annotations


class TraceAnalyzerError(Exception):
    """Base of every error that this package raises on purpose."""


class TraceNotFoundError(TraceAnalyzerError):
    """There is no trace where one was looked for."""


class TraceFormatError(TraceAnalyzerError):
    """A file is not a trace, or is damaged beyond what can be salvaged."""


class TraceTooLargeError(TraceFormatError):
    """Reading a file would take more memory than the limit allows."""


class CaptureFileError(TraceAnalyzerError):
    """The evidence beside a trace is of another version, or cannot be read."""


class NativeCodeError(TraceAnalyzerError, ImportError):
    """The native code is missing, cannot be loaded, or was compiled from other sources."""
