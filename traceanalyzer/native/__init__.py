"""Native code: the loops over bytes and events that no array operation expresses.

Plain C without dependencies, compiled when the package is built (`hatch_build.py`). Each module
wraps the C file of the same name, which documents what its functions do and require.
"""
