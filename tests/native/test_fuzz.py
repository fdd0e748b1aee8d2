"""The native code under sanitizers: whatever it is fed, it stays within its columns."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trace.test_xplane import SMALL
from tests.xspace_proto import XSpace

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "sample_traces"
INPUTS = 600_000
SANITIZED = ["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def seeds() -> Iterator[bytes]:
    """A trace with all there is in one, and recorded ones cut down to some events a line."""
    yield SMALL
    for path in sorted(SAMPLES.rglob("*.xplane.pb")):
        space = XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            for entries in (plane.event_metadata, plane.stat_metadata):
                for key in sorted(entries)[8:]:
                    del entries[key]
            del plane.lines[4:]
            for line in plane.lines:
                del line.events[5:]
        yield space.SerializeToString(deterministic=True)


@pytest.mark.slow
def test_nothing_is_read_or_written_outside_of_columns(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    program = tmp_path / "fuzz"
    subprocess.run([compiler, *SANITIZED, HERE / "fuzz.c", "-o", program], check=True)
    traces = []
    for k, content in enumerate(seeds()):
        traces.append(tmp_path / f"{k}.xplane.pb")
        traces[-1].write_bytes(content)
    done = subprocess.run(
        [program, str(INPUTS), "1", *traces], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{INPUTS} inputs\n", done.stderr
