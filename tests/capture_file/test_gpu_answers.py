"""Which requests for a device depend on whether there is a GPU, read from the source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capture_file.document import Frame
from traceanalyzer.capture_file.gpu_answers import GpuAnswers

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
