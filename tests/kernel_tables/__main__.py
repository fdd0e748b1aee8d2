"""The tables of kernels and ops in `traceanalyzer/placement/data/`: adding a version, checking it.

    python -m tests.kernel_tables add 2.22
    python -m tests.kernel_tables check 2.22

Each installs the newest patch of that version from its Linux CUDA wheel into a new environment
(some 2 GB for a while; uv and g++ are needed, a GPU is not), takes what is registered after
`import tensorflow`, and removes the environment. Today's Python cannot import versions before 2.12:
of these it loads the wheel's libraries alone (`extract_old`). `add` puts it into the tables, in
place of what was there of the version; only lines in which it differs from its neighbours change.
`check` compares the tables with it, every kernel for every single value of each attribute, every
definition, and the list of ops exempt from colocation: exit code 0 if nothing differs; else 1, and
each difference a line.

`check --python PATH` compares with the TensorFlow that an interpreter has.

After `add`: a new type needs a name in `traceanalyzer/capture_file/attributes.py`, an op made by a
rewrite a line in `traceanalyzer/placement/data/rewrites.toml`; the tests say which.
"""

import argparse
import sys
from pathlib import Path

from tests.kernel_tables.compare import differences
from tests.kernel_tables.tables import Extraction, add
from tests.kernel_tables.wheels import of_interpreter, of_wheel
from traceanalyzer.placement.registry import load


def main() -> int:
    """Add or check the versions that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernel_tables", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("action", choices=["add", "check"])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="a minor version, like 2.22")
    parser.add_argument("--python", type=Path, help="an interpreter to check with, for a version")
    arguments = parser.parse_args()
    if arguments.python is not None:
        return _check(of_interpreter(arguments.python), str(arguments.python))
    code = 0
    for version in arguments.versions:
        extraction, wheel, sha256 = of_wheel(version)
        if arguments.action == "add":
            add(extraction, wheel, sha256)
            sys.stdout.write(f"{version}: added, from {wheel}\n")
        else:
            code |= _check(extraction, wheel)
    return code


def _check(extraction: Extraction, source: str) -> int:
    found = differences(load(extraction.release), extraction)
    sys.stdout.writelines(f"{extraction.release}: {line}\n" for line in found)
    sys.stdout.write(f"{extraction.release}: {len(found)} differences from {source}\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
