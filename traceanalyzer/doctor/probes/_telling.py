"""Code prepended to every probe: reports each fact as a line of JSON as soon as it is found.

Probes run in the examined interpreter, so they support Python 3.8, as TensorFlow 2.12 does.
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
    """Write facts to stdout as a line of JSON."""
    os.write(_OUT, (json.dumps(facts) + "\n").encode("ascii"))


def begin(step):  # noqa: ANN001, ANN201 - text
    """Report the step that begins, in case the probe hangs or crashes in it."""
    report(step=step)


def text_of(*parts):  # noqa: ANN002, ANN201 - text
    """Return the text of a file below `ROOT`, or None if it cannot be read."""
    try:
        with open(os.path.join(ROOT, *parts), errors="replace") as file:
            return file.read(100_000)
    except OSError:
        return None
