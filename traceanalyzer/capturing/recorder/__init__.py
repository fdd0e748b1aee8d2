"""The recorder: runs inside the user's program and writes down what a trace cannot hold.

It is loaded by path, under a name of its own, into the interpreter of the user's choice, in which
this package need not be installed. So it imports nothing but the standard library, its own
modules (relatively) and, once the program has done so, TensorFlow; and it keeps to what Python 3.8
understands. What it finds it appends to a journal, of which `traceanalyzer.capture_file` makes the
capture file. No exception of the recorder reaches the program: what fails is noted, and left out.
"""
