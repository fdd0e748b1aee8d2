"""The parent side of `traceanalyzer capture`: runs the user's script and collects its records."""
