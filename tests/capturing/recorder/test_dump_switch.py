"""The flag by which TensorFlow decides whether it dumps graphs, found in memory."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capturing.recorder.dumps import flag_in

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import os, sys
folder = sys.argv[1]
os.putenv("TF_DUMP_GRAPH_PREFIX", folder)
os.putenv("TF_DUMP_GRAPH_FMT", "BIN")
os.putenv("TF_DUMP_GRAPH_NAME_FILTER", "*")
import tensorflow as tf
from traceanalyzer.capturing.recorder.dumps import dump_switch
switch = dump_switch()
counts = []
for on in (True, False, True):
    if switch is not None:
        switch.value = int(on)
    tf.function(lambda x: x + 1.0)(tf.constant(1.0))
    counts.append(len(os.listdir(folder)))
print(switch is not None, counts[0] > 0, counts[1] == counts[0], counts[2] > counts[1])
"""

ADDRESS = 0x7000_0000_1000


def held(text: bytes, *, flag: int = 1, at: int = 0x28, address: int = ADDRESS) -> bytes:
    """The bytes of an object at an address that holds an optional short text."""
    text_at = (address + at + 16).to_bytes(8, sys.byteorder)
    length = len(text).to_bytes(8, sys.byteorder)
    optional = text_at + length + text.ljust(16, b"\0") + bytes([flag])
    return (bytes(at) + optional).ljust(0x80, b"\xff")


def test_the_flag_is_that_of_the_filter() -> None:
    assert flag_in(ADDRESS, held(b"*")) == ADDRESS + 0x28 + 32
    assert flag_in(ADDRESS, held(b"*", at=0x40)) == ADDRESS + 0x40 + 32


def test_what_looks_otherwise_has_none() -> None:
    assert flag_in(ADDRESS, held(b"mine")) is None
    assert flag_in(ADDRESS, held(b"*", flag=0)) is None
    assert flag_in(ADDRESS + 8, held(b"*")) is None
    assert flag_in(ADDRESS, bytes(0x80)) is None


@pytest.mark.slow
def test_tensorflow_dumps_as_it_is_switched(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # A TensorFlow whose flag is not found goes on as before.
    assert done.stdout.split() in (["True"] * 4, ["False", "True", "False", "True"])
