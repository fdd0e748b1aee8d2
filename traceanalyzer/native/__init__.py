"""Native code: the loops over bytes and events that no array operation expresses.

C without a library, compiled when the package is built (`hatch_build.py`). Each module here stands
for the C file of its name: columns go in, columns come out. What a function does and relies on is
said in C, beside its code.
"""
