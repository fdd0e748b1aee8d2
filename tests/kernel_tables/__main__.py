"""The tables of kernels and ops in `traceanalyzer/placement/data/`: adding a version, checking it.

    python -m tests.kernel_tables add 2.22
    python -m tests.kernel_tables check 2.22

Both install the newest patch of that version from its Linux CUDA wheel into a new environment (this
takes 2 GB, uv, and g++, but no GPU), read the registered kernels and ops after `import tensorflow`,
and remove the environment. Today's Python cannot import versions before 2.12: `extract_old` loads
only the wheel's libraries. `add` writes the version into the tables; only lines in which it differs
from its neighbors change. `check` compares the tables with it: every kernel for every single value
of each attribute, every definition, and the ops exempt from colocation. It prints the differences,
and the exit code is 1 if there are any.

`check --python PATH` compares with the TensorFlow that an interpreter has.

After `add`, a new type needs a name in `traceanalyzer/capture_file/attributes.py`, and an op made
by a rewrite needs an entry in `traceanalyzer/placement/data/rewrites.toml`; tests name them.
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
