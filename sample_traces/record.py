#!/usr/bin/env python3
"""Record the sample traces anew, with the interpreter that runs this script.

Usage: python sample_traces/record.py [CASE ...]

Each program runs in its own folder, writes to the relative folder `logs`, sees no GPU, and has
the host name `sample-host`, so that a trace names neither the machine it was made on nor a folder
of it. That is then checked, not assumed: a recording that does is refused. Nothing inside a trace
is rewritten.

A case whose `case.toml` has `recorded.capture` is recorded by `traceanalyzer capture`, with these
options. Its capture file holds the paths of the program and of TensorFlow, so both are mounted at
places of their own, seen by nothing else: `/srv/recommender` for the case of that name, and
`/srv/tensorflow` for the interpreter's environment. It holds the kernel's release too, of which
it is told the number alone.

A new host name and mounts need `unshare` of util-linux, hence Linux. The case `keras_fit` needs
TensorBoard beside TensorFlow, the captured ones this package.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOST = "sample-host"
RUN = "sample"
LARGEST_PLAIN_BYTES = 500_000

# Run by sh, which calls its first word, the name of the host, $0.
PLAIN = 'hostname "$0"; exec "$@"'
CAPTURED = """
hostname "$0"
case=$1 environment=$2
shift 2
program=$PWD
mount -t tmpfs none /srv
mkdir "/srv/$case" /srv/tensorflow /srv/told
mount --bind "$program" "/srv/$case"
mount --bind "$environment" /srv/tensorflow
cat > /srv/told/sitecustomize.py << END
import os

sysname, nodename, release, version, machine = os.uname()
told = os.uname_result((sysname, nodename, release.partition("-")[0], version, machine))
os.uname = lambda: told
END
cd "/srv/$case"
export PYTHONPATH=/srv/told
exec /srv/tensorflow/bin/python -m traceanalyzer capture --no-report --logdir logs "$@" program.py
"""

log = logging.getLogger("record")


def cases() -> list[str]:
    """Return the names of the cases: the folders that hold a program."""
    return sorted(program.parent.name for program in HERE.glob("*/program.py"))


def run_program(case: Path) -> None:
    """Run the program of a case under the neutral host name."""
    recorded = tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))["recorded"]
    if "capture" in recorded:
        script, words = CAPTURED, [case.name, sys.prefix, *recorded["capture"]]
    else:
        script, words = PLAIN, [sys.executable, "program.py", "logs"]
    # One's own user namespace is what lets someone other than root name the host, and mount.
    command = ["unshare", "--map-root-user", "--uts", "--mount", "sh", "-ec", script, HOST, *words]
    # Without this the same program would leave another trace on a machine with a GPU.
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run(command, cwd=case, env=environment, check=True)  # noqa: S603  (fixed words)


def name_run(logs: Path) -> None:
    """Rename the run, which TensorFlow names after the second it began."""
    (run,) = logs.glob("**/plugins/profile/*")
    run.rename(run.with_name(RUN))


def refuse_leaks(logs: Path) -> None:
    """Raise ValueError if a recorded file, or its name, tells where it was made."""
    home, temporary = Path.home(), Path(tempfile.gettempdir())
    marks = {str(place) for place in (HERE, home, temporary, sys.prefix, sys.base_prefix)}
    if "-" in platform.release():  # who built the kernel, and not its number alone
        marks.add(platform.release())
    for file in (path for path in logs.rglob("*") if path.is_file()):
        content = file.read_bytes()
        if file.suffix == ".gz":
            content = gzip.decompress(content)
        told = [mark for mark in marks if os.fsencode(mark) in content]
        if told or HOST not in file.name:
            message = f"{file} tells of this machine ({', '.join(told) or 'its name'})"
            raise ValueError(message)


def compress(logs: Path) -> None:
    """Compress the traces that are too large for a repository, the same bytes each time."""
    for file in logs.rglob("*.xplane.pb"):
        content = file.read_bytes()
        if len(content) > LARGEST_PLAIN_BYTES:
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(content, mtime=0))
            file.unlink()


def state_recording(case_file: Path) -> None:
    """Bring the facts in a case file that change with each recording up to date."""
    facts = {
        "tensorflow": version("tensorflow"),
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    text = case_file.read_text(encoding="utf-8")
    for key, value in facts.items():
        text = re.sub(rf'^{key} = ".*"$', f'{key} = "{value}"', text, flags=re.MULTILINE)
    case_file.write_text(text, encoding="utf-8")


def record(name: str) -> None:
    """Replace the recording of one case."""
    case = HERE / name
    logs = case / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    run_program(case)
    name_run(logs)
    refuse_leaks(logs)
    compress(logs)
    state_recording(case / "case.toml")
    for file in sorted(path for path in logs.rglob("*") if path.is_file()):
        log.info("%8d bytes  %s", file.stat().st_size, file.relative_to(HERE))


def main() -> None:
    """Record the cases that were named, or all."""
    parser = argparse.ArgumentParser(description="Record the sample traces anew.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of them")
    chosen = parser.parse_args().cases
    if unknown := set(chosen) - set(cases()):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(cases())}")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name in chosen or cases():
        record(name)


if __name__ == "__main__":
    main()
