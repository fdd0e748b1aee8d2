"""What the package offers, and what it does without: TensorFlow, and haste at import."""

import json
import subprocess
import sys
from pathlib import Path

import traceanalyzer
from tests.architecture.toolchain import ROOT

PUBLIC = [
    "Capture",
    "Diagnosis",
    "Run",
    "TraceAnalyzerError",
    "TraceFormatError",
    "TraceNotFoundError",
    "__version__",
    "assert_placement",
    "capture",
    "capture_callback",
    "diagnose",
    "load",
    "runs",
    "write_report",
]

# Refuses to import what a machine without TensorFlow lacks, then runs the command line.
WITHOUT_TENSORFLOW = """
import sys

absent = {"google", "keras", "tensorboard", "tensorboard_plugin_profile", "tensorflow", "xprof"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())

from traceanalyzer.cli import main

main(sys.argv[1:])
"""


def python(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_is_what_it_was_and_documented() -> None:
    assert traceanalyzer.__all__ == PUBLIC
    assert dir(traceanalyzer) == sorted(PUBLIC)
    for name in {*PUBLIC} - {"__version__"}:
        text = getattr(traceanalyzer, name).__doc__
        assert text, f"{name} has no docstring"
        assert not text.startswith(f"{name}("), f"{name} has dataclass's own docstring"


def test_loads_nothing_large_before_it_is_used(tmp_path: Path) -> None:
    code = "import json, sys, traceanalyzer; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(python("-c", code, folder=tmp_path))}
    large = {"jinja2", "networkx", "numpy", "pandas", "pyarrow", "rich", "tensorflow"}
    assert not loaded & large


def test_shows_its_help_without_waiting_for_pandas(tmp_path: Path) -> None:
    code = (
        "import atexit, sys; from traceanalyzer.cli import main;"
        "atexit.register(lambda: print('slow:', {'pandas', 'numpy'} & {*sys.modules}));"
        "main(['report', '--help'])"
    )
    assert python("-c", code, folder=tmp_path).endswith("slow: set()\n")


def test_reports_without_tensorflow_and_tensorboard(tmp_path: Path) -> None:
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    logs = ROOT / "sample_traces" / "keras_fit" / "logs"
    python(
        "-c",
        WITHOUT_TENSORFLOW,
        *("report", str(logs), "-o", str(page), "--json", str(data)),
        folder=tmp_path,
    )
    assert page.stat().st_size > 10_000
    assert json.loads(data.read_text())["run"]["hosts"] == ["sample-host"]
