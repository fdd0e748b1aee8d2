"""The start of a recorded program, for real: the program finds what it would find without us."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capturing.recorder.recorded import Recorder, run

_VERSIONS = ("3.8", "3.10", "3.12", "3.13")
_PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"

_TELL = """
import json, os, sys
print(json.dumps({
    "path": sys.path, "environ": dict(os.environ), "argv": sys.argv, "name": __name__,
    "file": __file__, "meta_path": [f.__name__ for f in sys.meta_path if isinstance(f, type)],
    "own": getattr(sys.modules.get("sitecustomize"), "OWN", None),
    "tensorflow": [name for name in sys.modules if "tensorflow" in name],
}))
"""


def _interpreter(version: str) -> str | None:
    """Return an interpreter of a version that runs, from pyenv's or from PATH."""
    candidates = [str(p / "bin" / "python") for p in sorted(_PYENV.glob(f"{version}.*"))]
    candidates.append(shutil.which(f"python{version}") or "")
    for candidate in filter(None, candidates):
        if Path(candidate).exists():
            probe = subprocess.run([candidate, "-c", ""], capture_output=True, check=False)
            if probe.returncode == 0:
                return candidate
    return None


@pytest.fixture(params=["this", *_VERSIONS])
def python(request: pytest.FixtureRequest) -> str:
    if request.param == "this":
        return sys.executable
    found = _interpreter(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} is installed here")
    return found


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder.make(tmp_path)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """An environment as a user's, with a `sitecustomize` of the user's own."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(
        "import os\nOWN = os.environ.get('PYTHONPATH')\n"
        "with open(os.environ['RUNS'], 'a') as runs:\n    runs.write('run ')\n"
    )
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "RUNS": str(tmp_path / "runs")}


def _script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def _told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("python_path", [None, ":own", "absent:own"])
def test_the_program_finds_path_and_environment_as_without_us(
    recorder: Recorder, variables: dict[str, str], tmp_path: Path, python_path: str | None
) -> None:
    if python_path is not None:
        variables["PYTHONPATH"] = python_path.replace("own", str(tmp_path / "own"))
    command = [sys.executable, _script(tmp_path, _TELL), "--an", "argument"]
    plain = _told(run(command, variables, cwd=tmp_path))
    assert plain["environ"].get("PYTHONPATH") == variables.get("PYTHONPATH")
    assert _told(recorder.run(command, variables, cwd=tmp_path)) == plain


def test_every_version_of_python_runs_the_recorder_and_the_users_own_sitecustomize_once(
    python: str, recorder: Recorder, variables: dict[str, str], tmp_path: Path
) -> None:
    variables["PYTHONPATH"] = str(tmp_path / "own")
    told = _told(recorder.run([python, _script(tmp_path, _TELL)], variables))
    assert (told["own"], told["tensorflow"]) == (str(tmp_path / "own"), [])
    assert (tmp_path / "runs").read_text() == "run "
    assert [record["kind"] for record in recorder.journal()] == ["started", "finished"]


@pytest.mark.parametrize(
    "own", ["raise ValueError('mine')", "import not_installed_anywhere", "raise SystemExit(5)"]
)
def test_an_error_in_the_users_own_sitecustomize_is_as_without_us(
    recorder: Recorder, variables: dict[str, str], tmp_path: Path, own: str
) -> None:
    (tmp_path / "own" / "sitecustomize.py").write_text(own)
    variables["PYTHONPATH"] = str(tmp_path / "own")
    command = [sys.executable, _script(tmp_path, "print('runs')")]
    plain, recorded = run(command, variables), recorder.run(command, variables)
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout)
    # `ImportError` passes through `site`, with a traceback that has our lines in it.
    assert recorded.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


def test_a_traceback_is_as_without_us_in_every_version_of_python(
    python: str, recorder: Recorder, variables: dict[str, str], tmp_path: Path
) -> None:
    command = [python, _script(tmp_path, "print('begins')\ndef f():\n    return 1 / 0\nf()")]
    plain, recorded = run(command, variables), recorder.run(command, variables)
    assert plain.returncode == recorded.returncode == 1
    assert (recorded.stdout, recorded.stderr) == (plain.stdout, plain.stderr)


@pytest.mark.parametrize("settings", [None, "{", '{"work": 1}'])
def test_a_recorder_that_cannot_start_leaves_the_program_as_it_is(
    recorder: Recorder, variables: dict[str, str], tmp_path: Path, settings: str | None
) -> None:
    recorder.settings.unlink()
    if settings is not None:
        recorder.settings.write_text(settings)
    command = [sys.executable, _script(tmp_path, _TELL)]
    assert _told(recorder.run(command, variables)) == _told(run(command, variables))
    assert recorder.journal() == []
