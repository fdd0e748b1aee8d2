"""The evidence that `traceanalyzer capture` leaves beside a trace: its format, its making."""
