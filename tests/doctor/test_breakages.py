"""Whatever is broken, the doctor's first obstacle names it with a command, and nothing stops it."""

import json
import sys
import time
from pathlib import Path

import pytest

from tests.doctor.machines import BREAKAGES, Simulated, stubs
from traceanalyzer.cli import main
from traceanalyzer.doctor.examine import Examination, examine

_MOST_S = 20.0
_SLOW = pytest.mark.slow  # as slow as the time limits
_QUICK = {
    *("no GPU", "container without GPU", "no libcuda", "cuInit crashes", "no libraries"),
    *("TensorFlow not installed", "CPU-only build", "import raises", "GPU hidden"),
    "a library crashes on load",
}
LINE = "I0000 00:00:1795266933.490061   28888 cudart_stub.cc:31] Could not find cuda drivers"
OLDER = "2026-11-21 12:26:08.510075: I tensorflow/tsl/cuda/cudart_stub.cc:28] no cuda drivers"


@pytest.fixture(scope="module")
def stub_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stubs(tmp_path_factory.mktemp("stubs"))


@pytest.fixture
def machine(tmp_path: Path, stub_libraries: Path) -> Simulated:
    return Simulated(tmp_path, stub_libraries).made()


@pytest.mark.parametrize(
    "what",
    [pytest.param(w, marks=() if w in _QUICK else _SLOW) for w in BREAKAGES],
)
def test_what_is_broken_is_named_first(what: str, machine: Simulated) -> None:
    began_s = time.monotonic()
    diagnosis = machine.broken(what).examined(probe_s=1.5, libraries_s=3.0, tensorflow_s=2.5)
    assert time.monotonic() - began_s < _MOST_S
    assert not diagnosis.usable
    first = diagnosis.obstacles[0]
    assert first.id == BREAKAGES[what]["first"]
    assert first.fix
    assert first.command


def test_a_sound_machine_has_no_obstacle(machine: Simulated) -> None:
    diagnosis = machine.examined()
    assert diagnosis.usable
    assert {check.status for check in diagnosis.checks} == {"ok"}


def test_what_tensorflow_does_despite_an_obstacle_counts(machine: Simulated) -> None:
    machine.remove("site/nvidia")
    diagnosis = machine.examined()
    assert diagnosis.usable
    assert not diagnosis.obstacles
    assert "library_missing" in {c.id for c in diagnosis.checks if c.status == "warning"}


def test_an_old_library_in_ld_library_path_is_a_warning(machine: Simulated) -> None:
    machine.link("good", machine.folder / "driver" / "libcudnn.so.9")
    diagnosis = machine.examined()
    assert [check.id for check in diagnosis.checks if check.status != "ok"] == ["library_replaced"]


@pytest.mark.slow  # starts TensorFlow
def test_a_script_is_run_until_its_devices_are_made(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, pathlib, tensorflow as tf\n"
        "tf.config.set_visible_devices([], 'GPU')\n"
        "tf.constant(1.0)\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
    )
    beyond = tmp_path / "beyond"
    arguments = (str(beyond),)
    diagnosis = examine(Examination(script=str(script), arguments=arguments, script_s=60.0))
    (chosen,) = (check for check in diagnosis.checks if check.id == "script_hides_gpu")
    assert "train.py:2" in chosen.text
    assert not beyond.exists()


@pytest.mark.slow  # as slow as the other probes
def test_a_script_that_is_not_run_in_time_is_still_read(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n")
    diagnosis = examine(Examination(script=str(script), script_s=0.5, tensorflow_s=0.0))
    (unknown,) = (check for check in diagnosis.checks if check.id == "script_not_known")
    assert "line 2" in unknown.text


def test_the_command_prints_json_and_ends_with_1_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", "--python", f"{sys.executable} -S"])
    assert ended.value.code == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["usable"]
    assert told["first_obstacle"] in {check["id"] for check in told["checks"]}


def test_a_program_that_is_no_python_is_no_broken_driver(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--python", "cat"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert "--python" in err


def test_tensorflows_log_lines_are_kept(machine: Simulated) -> None:
    lines = f"'other', {LINE!r}, {OLDER!r}"
    code = f"import os, sys\nif os.environ['TF_CPP_MIN_LOG_LEVEL'] == '0':\n    print({lines}, "
    file = machine.site / "tensorflow" / "__init__.py"
    file.write_text(f"{code}sep=chr(10), file=sys.stderr)\n{file.read_text()}")
    hidden = machine.with_variables(TF_CPP_MIN_LOG_LEVEL="3")
    assert hidden.examined().log == (LINE, OLDER)
