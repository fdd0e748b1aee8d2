"""The beginning of every probe: reports facts, one JSON object per line, as soon as they are known.

Probes run in the interpreter to examine, which may be as old as TensorFlow 2.12 allows (3.8).
"""

import sys

# A file such as json.py in the working folder must not break the probe itself.
HERE = [sys.path.pop(0)] if sys.path[:1] == [""] else []

import json
import os

_OUT = os.dup(1)  # a library that prints, or a script, must not mix with the facts
os.dup2(2, 1)
GIVEN = json.loads(sys.argv.pop(1))
ROOT = GIVEN.get("root", "/")


def report(**facts):  # noqa: ANN003, ANN201 - JSON
    """Report facts."""
    os.write(_OUT, (json.dumps(facts) + "\n").encode("ascii"))


def begin(step):  # noqa: ANN001, ANN201 - text
    """Report what is done next, in case it never ends."""
    report(step=step)


def text_of(*parts):  # noqa: ANN002, ANN201 - text
    """Return the text of a file below the root, or None."""
    try:
        with open(os.path.join(ROOT, *parts), errors="replace") as file:
            return file.read(100_000)
    except OSError:
        return None
