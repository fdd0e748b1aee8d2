"""How a line came to hide the GPUs of its machine, read from its source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capture_file.document import NO_SOURCE, Frame
from traceanalyzer.capture_file.visibility import (
    COMPUTED,
    CONDITION,
    OUTRIGHT,
    UNLESS_SET,
    manner_of,
)

if TYPE_CHECKING:
    from pathlib import Path


def frame(folder: Path, source: str) -> Frame:
    """The line of a program that is marked with `# here`."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(source))
    line = next(k for k, text in enumerate(file.read_text().split("\n"), 1) if "# here" in text)
    return Frame(file=str(file), line=line, code="<module>", is_user=True)


HIDES = 'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # here'
CALLS = 'tf.config.set_visible_devices([], "GPU")  # here'


@pytest.mark.parametrize(
    "source",
    [
        HIDES,
        CALLS,
        'tf.config.set_visible_devices(devices=[], device_type="GPU")  # here',
        'tf.config.set_visible_devices(tf.config.list_physical_devices("CPU"))  # here',
        f'if __name__ == "__main__":\n    {CALLS}',
        'os.environ.update({"CUDA_VISIBLE_DEVICES": "-1"})  # here',
        'os.environ.update(CUDA_VISIBLE_DEVICES="-1")  # here',
        'GPU = "-1"\nos.environ["CUDA_VISIBLE_DEVICES"] = GPU  # here',
        f'{HIDES}\nprint(os.environ["CUDA_VISIBLE_DEVICES"])\n{CALLS[:-6]}',
        f"def ask():\n    raise OSError\n{HIDES}",
    ],
)
def test_what_is_spelt_out_is_sure(tmp_path: Path, source: str) -> None:
    assert manner_of([frame(tmp_path, source)], "-1") == OUTRIGHT


@pytest.mark.parametrize(
    "source",
    [
        # On a machine without a GPU the list is empty, on another it need not be.
        'tf.config.set_visible_devices(gpus[:1], "GPU")  # here',
        'tf.config.set_visible_devices(\n    free[:1],  # here\n    "GPU",\n)',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0" if gpus else "-1"  # here',
        'os.environ["CUDA_VISIBLE_DEVICES"] = chosen  # here',
        'os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(len(gpus))))  # here',
        'os.environ["CUDA_VISIBLE_DEVICES"] = settings.get("gpu", "-1")  # here',
        'os.environ.update({"CUDA_VISIBLE_DEVICES": free(), "TF_GPU_ALLOCATOR": "-1"})  # here',
        'GPU = "-1"\nif gpus:\n    GPU = "0"\nos.environ["CUDA_VISIBLE_DEVICES"] = GPU  # here',
        'GPU = "-1"\ndef use(GPU):\n    os.environ["CUDA_VISIBLE_DEVICES"] = GPU  # here',
    ],
)
def test_what_is_computed_may_depend_on_the_machine(tmp_path: Path, source: str) -> None:
    assert manner_of([frame(tmp_path, source)], "-1") == COMPUTED


@pytest.mark.parametrize(
    "source",
    [
        f"if not gpus:\n    {CALLS}",
        f"for _ in missing:\n    {HIDES}",
        f"try:\n    {HIDES}\nfinally:\n    pass",
        f"def hide():\n    if gpus:\n        return\n    {CALLS}",
        f"if gpus:\n    sys.exit(main())\n{HIDES}",
        f'{HIDES}\nif gpus:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"',
        f'{HIDES}\nif gpus:\n    del os.environ["CUDA_VISIBLE_DEVICES"]',
        f'{HIDES}\nif gpus:\n    os.environ.pop("CUDA_VISIBLE_DEVICES")',
        f"{CALLS}\nif gpus:\n    tf.config.set_visible_devices(gpus)",
    ],
)
def test_what_stands_under_a_condition_or_may_be_undone_does_too(
    tmp_path: Path, source: str
) -> None:
    assert manner_of([frame(tmp_path, source)], "-1") == CONDITION


def test_a_default_holds_where_the_variable_is_not_set(tmp_path: Path) -> None:
    source = 'def main():\n    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # here'
    assert manner_of([frame(tmp_path, source)], "-1") == UNLESS_SET


def test_of_what_cannot_be_read_nothing_is_known(tmp_path: Path) -> None:
    assert manner_of([frame(tmp_path, "this is no Python  # here")], "-1") == NO_SOURCE
    assert manner_of([], "-1") == NO_SOURCE


def test_a_call_under_a_condition_is_not_sure_either(tmp_path: Path) -> None:
    (tmp_path / "calling").mkdir()
    hiding = frame(tmp_path, f"def hide():\n    {HIDES}")
    calling = frame(tmp_path / "calling", "if not gpus:\n    hide()  # here")
    assert manner_of([hiding, calling], "-1") == CONDITION
