"""The recorder: runs inside the user's program and records facts that a trace cannot contain.

It is loaded by path into the user's interpreter, where this package need not be installed. So it
supports Python 3.8, and imports only the standard library, its own modules (relatively) and, once
the program has imported it, TensorFlow. It appends records to a journal, from which
`traceanalyzer.capture_file` makes the capture file. If a part of it fails, the program continues,
and the journal says what is missing.
"""
