"""Whether a line hides the GPUs of every machine, read from its source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.sidecar.document import Frame
from traceanalyzer.sidecar.outright import hides_outright

if TYPE_CHECKING:
    from pathlib import Path


def frame(folder: Path, source: str) -> Frame:
    """The line of a program that is marked with `# here`."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(source))
    line = next(k for k, text in enumerate(file.read_text().split("\n"), 1) if "# here" in text)
    return Frame(file=str(file), line=line, code="<module>", is_user=True)


@pytest.mark.parametrize(
    "source",
    [
        'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # here',
        'tf.config.set_visible_devices([], "GPU")  # here',
        'tf.config.set_visible_devices(devices=[], device_type="GPU")  # here',
        'tf.config.set_visible_devices(tf.config.list_physical_devices("CPU"))  # here',
        'if __name__ == "__main__":\n    tf.config.set_visible_devices([], "GPU")  # here',
        'def main():\n    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # here',
        'os.environ.update({"CUDA_VISIBLE_DEVICES": "-1"})  # here',
        'os.environ.update(CUDA_VISIBLE_DEVICES="-1")  # here',
    ],
)
def test_what_is_spelt_out_is_sure(tmp_path: Path, source: str) -> None:
    assert hides_outright([frame(tmp_path, source)], "-1")


@pytest.mark.parametrize(
    "source",
    [
        # On a machine without a GPU the list is empty, on another it need not be.
        'tf.config.set_visible_devices(gpus[:1], "GPU")  # here',
        "if not gpus:\n    tf.config.set_visible_devices([], 'GPU')  # here",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0" if gpus else "-1"  # here',
        'os.environ["CUDA_VISIBLE_DEVICES"] = chosen  # here',
        'try:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # here\nfinally:\n    pass',
        'os.environ["CUDA_VISIBLE_DEVICES"] = settings.get("gpu", "-1")  # here',
        "def hide():\n    if gpus:\n        return\n    tf.config.set_visible_devices([])  # here",
        "this is no Python  # here",
    ],
)
def test_what_may_depend_on_the_machine_is_not(tmp_path: Path, source: str) -> None:
    assert not hides_outright([frame(tmp_path, source)], "-1")


def test_a_call_under_a_condition_is_not_sure_either(tmp_path: Path) -> None:
    (tmp_path / "calling").mkdir()
    hiding = frame(tmp_path, 'def hide():\n    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # here')
    calling = frame(tmp_path / "calling", "if not gpus:\n    hide()  # here")
    assert not hides_outright([hiding, calling], "-1")
    assert not hides_outright([], "-1")
