"""Native code for loops over bytes and events that NumPy cannot vectorize.

It is plain C without dependencies, compiled when the package is built (`hatch_build.py`). Each
module wraps the C file of the same name, which documents its functions and their arguments.
"""
