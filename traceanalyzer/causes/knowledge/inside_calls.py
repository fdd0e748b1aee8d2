"""Finds the ops that a function of TensorFlow creates inside, and not at the user's request.

A line such as `x = tf.vectorized_map(f, x)` creates loops and lists whose dtypes the program does
not choose. `data/api_names.txt` lists the functions that create each op directly; any op of a line
that calls only another function is made inside of it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from traceanalyzer.causes.knowledge.finding_text import fix_of
from traceanalyzer.data_files import text, toml
from traceanalyzer.model import Fix

_CALL: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\.\w+)*)\s*\(")
_METHOD: Final = re.compile(r"[)\]\"']\s*\.(\w+)\s*\(")
_TENSORFLOW: Final = frozenset({"tf", "tensorflow"})
_VERSION: Final = re.compile(r"V\d+$")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ARRAYS: Final = re.compile(r"TensorArray|TensorList|EmptyTensorList|Stack")
# Calls of a program that uses arrays or lists itself.
_OF_ARRAYS: Final = frozenset(
    {"TensorArray", "append", "concat", "gather", "pop", "read", "scatter", "split", "stack"}
    | {"unstack", "write"}
)
# Ops that operators create.
_OPERATORS: Final = re.compile(
    r"Add(V2)?|Sub|Mul|(Real|Floor|Truncate)?Div|(Floor|Truncate)?Mod|Pow|(Batch)?MatMul(V\d)?|Neg|Abs"
    r"|(Not)?Equal|(Less|Greater)(Equal)?|Logical\w+|Bitwise\w+|Invert|StridedSlice|GatherV2|Cast|Const"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A function that creates ops of its own choice; `data/inside_calls.toml` has the fields."""

    fix: Mapping[str, str]
    source: str
    functions: tuple[str, ...] = ()


_CALLS: Final = tuple(_Call(**each) for each in toml("causes/data/inside_calls.toml")["call"])


def caller_of(op: str, line: str | None) -> str:
    """Return the function on a line that creates an op inside, such as `tf.map_fn`, or ""."""
    calls = _CALL.findall(line or "")
    names = {call.rpartition(".")[2] for call in calls} | {*_METHOD.findall(line or "")}
    if names & _makers(op) or (_ARRAYS.match(op) and names & _OF_ARRAYS):
        return ""
    known = (c for c in calls if any(c.rpartition(".")[2] in e.functions for e in _CALLS))
    call = next(known, "")
    if call or _OPERATORS.fullmatch(op) or not (_makers(op) or _ARRAYS.match(op)):
        return call
    # Only if nothing else on the line can create the op.
    is_one = len(calls) == 1 and len(names) == 1
    is_whole = line is not None and line.count("(") == line.count(")")
    return calls[0] if is_one and is_whole and calls[0].partition(".")[0] in _TENSORFLOW else ""


def fix_inside(op: str, call: str) -> Fix:
    """Return what to do about an op that a function creates inside."""
    name = call.rpartition(".")[2]
    entry = next(each for each in _CALLS if name in each.functions or not each.functions)
    return fix_of(entry.fix, {"call": call, "type": op})


@cache
def _makers(op: str) -> frozenset[str]:
    """Return the names of the functions that create an op directly."""
    found = _table().get(op, frozenset())
    plain = _VERSION.sub("", op)
    return found and found | {op, plain, _CAPITAL.sub("_", plain).lower()}


@cache
def _table() -> Mapping[str, frozenset[str]]:
    lines: Iterable[str] = text("causes/data/api_names.txt").splitlines()
    words = (line.split() for line in lines)
    return {op: frozenset(names) for op, *names in words}
