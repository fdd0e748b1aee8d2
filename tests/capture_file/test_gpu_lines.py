"""Which lines of a program do the same on every machine, and which ask for GPUs."""

import textwrap
from pathlib import Path

import pytest

from traceanalyzer.capture_file.document import Frame
from traceanalyzer.capture_file.gpu_lines import (
    always_hides_gpus,
    always_requests_cpu,
    gpu_queries,
    only_prints,
)


def frame(folder: Path, source: str) -> Frame:
    """The line of a program that is marked with `# here`."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(source))
    lines = file.read_text().split("\n")
    line = next(k for k, text in enumerate(lines, 1) if "# here" in text)
    return Frame(file=str(file), line=line, code="<module>", is_user=True)


HIDES = 'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # here'
CALLS = 'tf.config.set_visible_devices([], "GPU")  # here'


@pytest.mark.parametrize(
    ("source", "always"),
    [
        (HIDES, True),
        (CALLS, True),
        (f"def ask():\n    raise OSError\n{HIDES}", True),
        # A list is empty without a GPU, and need not be with one.
        ('tf.config.set_visible_devices(gpus[:1], "GPU")  # here', False),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0" if gpus else "-1"  # here', False),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = chosen  # here', False),
        ('os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # here', False),
        (f"if not gpus:\n    {CALLS}", False),
        (f"for _ in missing:\n    {HIDES}", False),
        (f"def hide():\n    if gpus:\n        return\n    {CALLS}", False),
        (f'{HIDES}\nif gpus:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"', False),
        (f'{HIDES}\nif gpus:\n    os.environ.pop("CUDA_VISIBLE_DEVICES")', False),
        (f"{CALLS}\nif gpus:\n    tf.config.set_visible_devices(gpus)", False),
        ("this is no Python  # here", False),
    ],
)
def test_only_a_plain_line_hides_the_gpus_of_every_machine(
    tmp_path: Path, source: str, *, always: bool
) -> None:
    assert always_hides_gpus([frame(tmp_path, source)]) is always


@pytest.mark.parametrize(
    ("source", "always"),
    [("import settings  # here", True), ("if no:\n    import x  # here", False)],
)
def test_so_does_one_in_a_file_that_is_always_imported(
    tmp_path: Path, source: str, *, always: bool
) -> None:
    (tmp_path / "importing").mkdir()
    hiding, importing = frame(tmp_path, HIDES), frame(tmp_path / "importing", source)
    assert always_hides_gpus([hiding, importing]) is always


ASKS = 'tf.config.list_physical_devices("GPU")'


@pytest.mark.parametrize(
    ("source", "prints"),
    [
        (f"print(len({ASKS}))  # here", True),
        (f"def main():\n    print('GPUs:', {ASKS})  # here", True),
        (f"gpus = {ASKS}  # here\nprint(gpus)", False),
        (f"print(gpus := {ASKS})  # here", False),
        (f"print(train({ASKS}))  # here", False),
        (f"try:\n    print({ASKS}[0])  # here\nexcept IndexError:\n    train()", False),
        ("this is no Python  # here", False),
    ],
)
def test_a_query_that_is_only_printed_changes_nothing(
    tmp_path: Path, source: str, *, prints: bool
) -> None:
    at = frame(tmp_path, source)
    assert only_prints(at.file, at.line) is prints


@pytest.mark.parametrize(
    "source",
    [
        'gpus = subprocess.run(["nvidia-smi", "-L"])  # here',
        'if os.path.exists("/dev/nvidia0"):  # here\n    train()',
        "import pynvml  # here",
        "from GPUtil import getAvailable  # here",
        '"""Not beside nvidia-smi."""\nif torch.cuda.is_available():  # here\n    train()',
    ],
)
def test_gpus_are_asked_for_without_tensorflow_too(tmp_path: Path, source: str) -> None:
    at = frame(tmp_path, source)
    assert [*gpu_queries(at.file)] == [at.line]


@pytest.mark.parametrize(
    ("source", "always"),
    [
        ('with tf.device("/cpu:0"):  # here\n    y = f(x) if x else 0', True),
        ('for _ in range(3):\n    with tf.device("CPU"):  # here\n        f()', True),
        ('HOST = "/cpu:0"\nwith strategy.scope(), tf.device(HOST):  # here\n    f()', True),
        ('def f():\n    stack.enter_context(tf.device("/CPU:0"))  # here', True),
        ('with keras.device("cpu:0"):  # here\n    f()', True),
        ('with tf.device(tf.config.list_logical_devices("CPU")[0].name):  # here\n    f()', True),
        ("with tf.device(DEVICE):  # here\n    f()", False),
        ('HOST = "/cpu:0"\nfrom x import *\nwith tf.device(HOST):  # here\n    f()', False),
        ('with tf.device(f"/{kind}:0"):  # here\n    f()', False),
        ('with tf.device("/cpu:0" if small else None):  # here\n    f()', False),
        ('with tf.device("/cpu:0"), tf.device(DEVICE):  # here\n    f()', False),
        (
            'HOST = "/cpu:0"\nif x:\n    HOST = "/gpu:0"\nwith tf.device(HOST):  # here\n    f()',
            False,
        ),
        ('if not gpus:\n    with tf.device("/cpu:0"):  # here\n        f()', False),
        (
            'try:\n    f()\nexcept OSError:\n    with tf.device("/cpu:0"):  # here\n        f()',
            False,
        ),
        ("this is no Python  # here", False),
    ],
)
def test_only_a_constant_requests_the_cpu_on_every_machine(
    tmp_path: Path, source: str, *, always: bool
) -> None:
    assert always_requests_cpu(frame(tmp_path, source)) is always
