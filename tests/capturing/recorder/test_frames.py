"""Which code is the user's own."""

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from traceanalyzer.capturing.recorder import frames
from traceanalyzer.capturing.recorder.frames import (
    is_user_file,
    outwards,
    user_and_library,
    user_frame,
)

HERE = __file__


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "known_files", {})
    monkeypatch.setattr(frames, "_IS_COMMAND", False)  # as which the processes of pytest-xdist run


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        (HERE, True),
        ("/srv/user/project/train.py", True),
        ("<stdin>", True),
        ("<string>", False),
        ("<ipython-input-1-abc>", True),
        ("<frozen importlib._bootstrap>", False),
        (json.__file__, False),
        (pytest.__file__, False),
        ("/srv/user/project/.venv/lib/python3.11/site-packages/keras/src/layer.py", False),
        ("/usr/lib/python3/dist-packages/six.py", False),
        (frames.__file__, False),
    ],
)
def test_the_users_files_are_neither_pythons_nor_installed_nor_ours(
    file: str, *, is_users: bool
) -> None:
    assert is_user_file(file) is is_users
    assert is_user_file(file) is is_users  # known now


def test_a_function_without_a_file_is_told_by_its_caller() -> None:
    names: dict[str, object] = {"here": lambda: user_frame(sys._getframe(1))}  # noqa: SLF001
    exec("def loaded_op():\n    return here()", names)  # noqa: S102 - as TensorFlow does
    found = names["loaded_op"]()  # type: ignore[operator]
    assert found.f_code.co_name == "test_a_function_without_a_file_is_told_by_its_caller"


def called_through(*files: str) -> FrameType:
    """The frame of code that files call, each the next one; the first is called by this one."""
    code = "import sys\nfound = sys._getframe()"
    names: dict[str, Any] = {}
    for file in reversed(files):
        inner = compile(code, file, "exec")
        names = {"inner": inner, "names": names}
        code = "exec(inner, names)"
    exec(inner, names["names"])  # noqa: S102 - it is ours
    while "found" not in names:
        names = names["names"]
    frame = names["found"]
    assert isinstance(frame, type(sys._getframe()))  # noqa: SLF001
    return frame


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (("keras/src/layers/resizing.py", "keras/src/backend/tensorflow/image.py"), "resizing.py"),
        (("keras/src/backend/tensorflow/trainer.py",), "trainer.py"),
        (("keras/src/metrics/iou.py", "tensorflow/python/ops/math_ops.py"), "iou.py"),
        ((), None),
    ],
)
def test_of_a_librarys_frames_the_one_that_names_the_layer_is_taken(
    files: tuple[str, ...], named: str | None
) -> None:
    # TensorFlow's own code counts as no library; here it is not imported from that folder.
    known = [f"/lib/site-packages/{f}" for f in files if not f.startswith("tensorflow")]
    innermost = called_through(*known) if known else sys._getframe()  # noqa: SLF001
    _, frame = user_and_library((f.f_code.co_filename, f) for f in outwards(innermost))

    assert (None if frame is None else Path(frame.f_code.co_filename).name) == named
