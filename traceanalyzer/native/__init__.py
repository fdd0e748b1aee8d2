"""Native code: the loops over bytes and events that no array operation expresses.

Plain C without dependencies, compiled when the package is built (`hatch_build.py`). Each module
here wraps the C file of the same name: columns go in, columns come out. The behavior and
preconditions of a function are documented in C, beside its code.
"""
