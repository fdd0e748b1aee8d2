"""The errors that callers can catch. Each message is one line: what failed, why, and what to do."""


class TraceAnalyzerError(Exception):
    """The base class of the errors of this package."""


class TraceNotFoundError(TraceAnalyzerError):
    """There is no trace at the path."""


class TraceFormatError(TraceAnalyzerError):
    """A file is not a trace, or too damaged to be read."""


class TraceTooLargeError(TraceFormatError):
    """A trace would need more memory than the limit allows."""


class CaptureFileError(TraceAnalyzerError):
    """A capture file is of another version, or cannot be read."""


class GraphFileError(TraceAnalyzerError):
    """A file has no graph of the program, or cannot be read."""


class NativeCodeError(TraceAnalyzerError, ImportError):
    """The native code is missing, cannot be loaded, or was compiled from other sources."""
