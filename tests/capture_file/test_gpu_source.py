"""What a program's source shows of how it deals with GPUs."""

import textwrap
from pathlib import Path

import pytest

from traceanalyzer.capture_file.document import NO_SOURCE, Frame
from traceanalyzer.capture_file.gpu_source import (
    COMPUTED,
    CONDITION,
    OUTRIGHT,
    UNLESS_SET,
    manner_of,
    may_choose,
    may_choose_device,
    questions_without_tensorflow,
)


def place(folder: Path, source: str) -> tuple[str, int]:
    """The line of a program that is marked with `# here`."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(source))
    lines = file.read_text().split("\n")
    return str(file), next(k for k, text in enumerate(lines, 1) if "# here" in text)


def frame(folder: Path, source: str) -> Frame:
    file, line = place(folder, source)
    return Frame(file=file, line=line, code="<module>", is_user=True)


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


ASKS = 'tf.config.list_physical_devices("GPU")  # here'


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
    assert not may_choose(*place(tmp_path, source), is_script=True)


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
    assert may_choose(*place(tmp_path, source), is_script=True)


def test_what_another_file_can_import_may_matter(tmp_path: Path) -> None:
    asking = place(tmp_path, f"GPUS = {ASKS}")
    assert may_choose(*asking, is_script=False)
    assert not may_choose(*asking, is_script=True)


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
    file, line = place(tmp_path, source)
    assert [*questions_without_tensorflow(file)] == [line]
    assert may_choose(file, line, is_script=False) is matters


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
        'with tf.device(tf.config.list_logical_devices("CPU")[0].name):  # here\n    f()',
    ],
)
def test_a_device_that_is_spelt_out_is_asked_for_everywhere(tmp_path: Path, source: str) -> None:
    assert not may_choose_device(frame(tmp_path, source))


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
    assert may_choose_device(frame(tmp_path, source))
