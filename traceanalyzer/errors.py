"""The errors that callers can catch. Each message is one line: what failed, why, and what to do."""


class TraceAnalyzerError(Exception):
    """Base class of this package's errors."""


class TraceNotFoundError(TraceAnalyzerError):
    """Raised if there is no trace at a path."""


class TraceFormatError(TraceAnalyzerError):
    """Raised if a file is not a trace, or is too damaged to be read."""


class TraceTooLargeError(TraceFormatError):
    """Raised if a trace would need more memory than the limit allows."""


class CaptureFileError(TraceAnalyzerError):
    """Raised if a capture file has an unsupported version, or cannot be read."""


class GraphFileError(TraceAnalyzerError):
    """Raised if a file has no graph of the program, or cannot be read."""


class NativeCodeError(TraceAnalyzerError, ImportError):
    """Raised if the native code is missing, does not load, or does not match its sources."""
