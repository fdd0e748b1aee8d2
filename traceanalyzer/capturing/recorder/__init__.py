"""The recorder: runs inside the user's program and records facts that a trace cannot contain.

It is loaded by path into the user's interpreter, which may not have this package installed. So it
supports Python 3.8, and imports only the standard library, its own modules (relatively), and
TensorFlow, after the program has imported it. It appends records to a journal, from which
`traceanalyzer.capture_file` builds the capture file. If a part of the recorder fails, the program
continues, and the journal says what is missing.
"""
