"""The recorder: runs inside the user's program and records facts that a trace cannot contain.

It is loaded by path, under a separate name, into the interpreter of the user's choice, in which
this package need not be installed. So it imports only the standard library, its own modules
(relatively) and, once the program has imported it, TensorFlow; and it supports Python 3.8.
It appends records to a journal, from which `traceanalyzer.capture_file` makes the capture file. No
exception of the recorder reaches the program: failures are noted, and their facts left out.
"""
