"""The evidence that `traceanalyzer capture` writes beside a trace: its format and creation."""
