"""Which requests for a device depend on whether there is a GPU, read from the source."""

from __future__ import annotations

import linecache
import textwrap
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capture_file.document import Frame
from traceanalyzer.capture_file.gpu_answers import (
    GpuAnswers,
    may_choose,
    may_choose_device,
    questions_without_tensorflow,
)

if TYPE_CHECKING:
    from pathlib import Path


def reaches(folder: Path, *sources: str) -> bool:
    """Whether the line marked `# request` depends on the lines marked `# question`."""
    questions, requests = [], []
    for number, source in enumerate(sources):
        file = folder / f"module{number}.py"
        file.write_text(textwrap.dedent(source))
        for line, text in enumerate(file.read_text().split("\n"), 1):
            if "# question" in text:
                questions.append((str(file), line))
            if "# request" in text:
                requests.append(Frame(file=str(file), line=line, code="f", is_user=True))
    files = [str(folder / f"module{number}.py") for number in range(len(sources))]
    (request,) = requests
    return GpuAnswers(files, questions).reach(request)


@pytest.mark.parametrize(
    "source",
    [
        """
        gpus = tf.config.list_physical_devices("GPU")  # question
        name = gpus[0].name if gpus else "/cpu:0"
        with tf.device(name):  # request
            train()
        """,
        """
        def pick():
            if tf.test.is_gpu_available():  # question
                return "/gpu:0"
            return "/cpu:0"

        def train():
            where = pick()
            with tf.device(where):  # request
                step()
        """,
        """
        if tf.config.list_logical_devices("GPU"):  # question
            DEVICE = "/gpu:0"
        else:
            DEVICE = "/cpu:0"
        tf.device(DEVICE).__enter__()  # request
        """,
        """
        class Trainer:
            def __init__(self, model, device):
                self.device = device

            def train(self):
                with tf.device(self.device):  # request
                    step()

        Trainer(model, tf.test.gpu_device_name() or "/cpu:0").train()  # question
        """,
        """
        def train(steps, device="/cpu:0"):
            with tf.device(device):  # request
                step()

        gpus = tf.config.list_logical_devices("GPU")  # question
        train(3, device=gpus[0].name if gpus else "/cpu:0")
        """,
        """
        gpus = tf.config.list_logical_devices("GPU")  # question
        parser.add_argument("--device", default="/gpu:0" if gpus else "/cpu:0")
        arguments = parser.parse_args()
        with tf.device(arguments.device):  # request
            train()
        """,
        """
        gpus = tf.config.list_logical_devices("GPU")  # question
        if not gpus:
            with tf.device("/cpu:0"):  # request
                train()
        """,
    ],
)
def test_a_device_made_from_an_answer_depends_on_it(tmp_path: Path, source: str) -> None:
    assert reaches(tmp_path, source)


def test_an_answer_is_followed_into_another_file(tmp_path: Path) -> None:
    settings = 'GPUS = tf.config.list_logical_devices("GPU")  # question\nNAME = pick(GPUS)'
    train = "import module0\nwith tf.device(module0.NAME):  # request\n    train()"
    assert reaches(tmp_path, settings, train)


@pytest.mark.parametrize(
    "source",
    [
        """
        print(tf.config.list_physical_devices("GPU"))  # question
        with tf.device(sys.argv[1]):  # request
            train()
        """,
        """
        import tensorflow as tf

        def show():
            device = tf.test.gpu_device_name()  # question
            tf.print(device)

        def train(device):
            with tf.device(device):  # request
                step()

        show()
        train("/cpu:0")
        """,
    ],
)
def test_one_made_from_something_else_does_not(tmp_path: Path, source: str) -> None:
    assert not reaches(tmp_path, source)


ASKS = 'tf.config.list_physical_devices("GPU")  # here'


def asked(folder: Path, source: str) -> tuple[str, int]:
    """The line of a program that is marked with `# here`."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(source))
    lines = file.read_text().split("\n")
    return str(file), next(k for k, text in enumerate(lines, 1) if "# here" in text)


@pytest.mark.parametrize(
    "source",
    [
        f"print({ASKS}\n)",
        f'gpus = {ASKS}\nprint(f"{{len(gpus)}} GPUs")',
        f"for gpu in {ASKS[:-8]}:  # here\n    tf.config.experimental.set_memory_growth(gpu, True)",
        f"""
        gpus = {ASKS}
        if gpus:
            try:
                for gpu in gpus:
                    tf.config.experimental.set_memory_growth(gpu, True)
                logical = tf.config.list_logical_devices("GPU")
                print(len(gpus), "physical,", len(logical), "logical")
            except RuntimeError as error:
                print(error)
        """,
        f"""
        def let_memory_grow():
            gpus = {ASKS}
            tf.config.set_visible_devices(gpus[0], "GPU")

        for gpus in range(3):
            train(gpus)
        """,
        f'if not {ASKS[:-8]}:  # here\n    raise SystemError("no GPU")',
    ],
)
def test_a_question_whose_answer_changes_nothing_else_is_harmless(
    tmp_path: Path, source: str
) -> None:
    assert not may_choose(*asked(tmp_path, source), is_script=True)


@pytest.mark.parametrize(
    "source",
    [
        f'DEVICE = "/gpu:0" if {ASKS[:-8]} else "/cpu:0"  # here\nwith tf.device(DEVICE):\n    f()',
        f"gpus = {ASKS}\nhas = bool(gpus)\nif has:\n    train()",
        f"if {ASKS[:-8]}: train()  # here",
        f"def has_gpu():\n    return bool({ASKS}\n    )",
        f"def ask():\n    global GPUS\n    GPUS = {ASKS}",
        f"strategy = MirroredStrategy() if {ASKS[:-8]} else None  # here\nuse(strategy)",
        f"settings.gpus = len({ASKS}\n)",
        f"train(len({ASKS}\n))",
        f"""
        gpus = {ASKS}
        try:
            tf.config.experimental.set_memory_growth(gpus[0], True)
        except IndexError:
            train_on_the_cpu()
        """,
        "this is no Python  # here",
    ],
)
def test_one_whose_answer_goes_elsewhere_may_matter(tmp_path: Path, source: str) -> None:
    assert may_choose(*asked(tmp_path, source), is_script=True)


def test_what_another_file_can_import_may_matter(tmp_path: Path) -> None:
    place = asked(tmp_path, f"GPUS = {ASKS}")
    assert may_choose(*place, is_script=False)
    assert not may_choose(*place, is_script=True)


@pytest.mark.parametrize(
    ("source", "matters"),
    [
        ('gpus = subprocess.run(["nvidia-smi", "-L"])  # here', True),
        ('if os.path.exists("/dev/nvidia0"):  # here\n    train()', True),
        ("import pynvml  # here", True),
        ("from GPUtil import getAvailable  # here", True),
        ("if torch.cuda.is_available():  # here\n    train()", True),
        ("print(torch.cuda.is_available())  # here", False),
        ('"""Run it beside nvidia-smi."""  # here', False),
    ],
)
def test_gpus_are_asked_for_in_other_ways_too(
    tmp_path: Path, source: str, *, matters: bool
) -> None:
    file, line = asked(tmp_path, source)
    assert [*questions_without_tensorflow(file)] == [line]
    assert may_choose(file, line, is_script=False) is matters


def entered(folder: Path, source: str) -> Frame:
    file, line = asked(folder, source)
    return Frame(file=file, line=line, code="<module>", is_user=True)


@pytest.mark.parametrize(
    "source",
    [
        'with tf.device("/cpu:0"):  # here\n    y = f(x) if x else 0',
        'for _ in range(3):\n    with tf.device("CPU"):  # here\n        f()',
        'HOST = "/cpu:0"\nwith strategy.scope(), tf.device(HOST):  # here\n    f()',
        'def f():\n    stack.enter_context(tf.device("/CPU:0"))  # here',
        'with keras.device("cpu:0"):  # here\n    f()',
        'def f():\n    with tf.device("/cpu:0"): return g(x if x else 0)  # here',
        'with tf.device("/gpu:0"), tf.device("/cpu:0"):  # here\n    f()',
    ],
)
def test_a_device_that_is_spelt_out_is_asked_for_everywhere(tmp_path: Path, source: str) -> None:
    assert not may_choose_device(entered(tmp_path, source))


@pytest.mark.parametrize(
    "source",
    [
        "with tf.device(DEVICE):  # here\n    f()",
        'with tf.device(f"/{kind}:0"):  # here\n    f()',
        'with tf.device("/cpu:0" if small else None):  # here\n    f()',
        'with tf.device("/cpu:0"), tf.device(DEVICE):  # here\n    f()',
        'HOST = "/cpu:0"\nif gpus:\n    HOST = "/gpu:0"\nwith tf.device(HOST):  # here\n    f()',
        'if not gpus:\n    with tf.device("/cpu:0"):  # here\n        f()',
        'try:\n    f()\nexcept RuntimeError:\n    with tf.device("/cpu:0"):  # here\n        f()',
        "this is no Python  # here",
    ],
)
def test_one_that_is_computed_or_under_a_condition_may_not_be(tmp_path: Path, source: str) -> None:
    assert may_choose_device(entered(tmp_path, source))


def test_the_cell_of_a_notebook_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'with tf.device("/cpu:0"):\n    f()\n'
    cell = "<ipython-input-3>"
    entry = (len(text), None, text.splitlines(keepends=True), cell)
    monkeypatch.setitem(linecache.cache, cell, entry)
    assert not may_choose_device(Frame(file=cell, line=1, code="<module>", is_user=True))
