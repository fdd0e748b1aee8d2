"""How much of a program a capture recorded."""

import time

import pytest

from traceanalyzer.capture_file.document import CaptureFile, Session
from traceanalyzer.capture_file.recorded_run import (
    MASK,
    recorded_part,
    shown_command,
    without_secrets,
)

S = 10**9


def recorded(start_s: int, stop_s: int | None, end_s: int | None) -> CaptureFile:
    """A capture of a program that began at 0 and had imported TensorFlow after 8 s."""
    session = Session(
        trace="vm.xplane.pb",
        method="api",
        requested=None,
        start_ns=start_s * S,
        stop_ns=None if stop_s is None else stop_s * S,
        reason="from call 3 of step",
    )
    return CaptureFile(
        tool="1",
        host="vm",
        complete=True,
        environment={"started_ns": 0, "attached_ns": 8 * S},
        devices={} if end_s is None else {"ended_ns": end_s * S},
        sessions=(session,),
    )


@pytest.mark.parametrize(
    ("start_s", "stop_s", "end_s", "words", "is_nearly_all"),
    [
        (38, 50, 50, "12.0 s of 50.0 s", False),
        (10, 29, 30, "19.0 s of 30.0 s", True),  # the import is nothing to record
        (9, 10, 11, "1.00 s of 11.0 s", True),
        (38, 50, None, "12.0 s", True),
    ],
)
def test_of_how_much(
    start_s: int, stop_s: int, end_s: int | None, words: str, *, is_nearly_all: bool
) -> None:
    part = recorded_part(recorded(start_s, stop_s, end_s), 0)
    assert part is not None
    assert (str(part), part.is_nearly_all) == (words, is_nearly_all)


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("--token=abc", "--token=***"),
        ("--api_key=abc", "--api_key=***"),
        ("--dbPassword=abc", "--dbPassword=***"),
        ('{"api_key": "abc", "depth": 3}', '{"api_key": "***", "depth": 3}'),
        ("https://host/data?key=abc&n=1", "https://host/data?key=***&n=1"),
        ("https://me:abc@host/data", "https://***@host/data"),
        ("sk-abcdefghijklmnop", MASK),
        ("0123456789abcdef0123456789abcdef", MASK),
    ],
)
def test_what_looks_like_a_secret_is_masked(word: str, kept: str) -> None:
    assert without_secrets([word]) == (kept,)


@pytest.mark.parametrize(
    "word",
    ["--tokenizer=bert", "--lr=1e-4", "--name=resnet50_v1_imagenet2012_224x224_batch32", "sk-1"],
)
def test_other_arguments_stay(word: str) -> None:
    assert without_secrets([word]) == (word,)


def test_the_value_of_a_secret_option_may_be_the_next_word() -> None:
    assert without_secrets(["--password", "abc", "--epochs", "3"]) == (
        *("--password", MASK),
        *("--epochs", "3"),
    )
    assert without_secrets(["--auth", "--epochs", "3"]) == ("--auth", "--epochs", "3")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/srv/ann/train.py"], "train.py"),
        (["../ann/train.py"], "train.py"),
        (["../../train.py"], "../../train.py"),  # `verify` needs it, and it names no folder
        (["--data=/srv/ann/data/"], "--data=data"),
        (["C:\\Users\\ann\\..\\x.py"], "C:x.py"),
        (["--title", "two words"], "--title 'two words'"),
        (["--key", "abc"], "--key ***"),
        (["--key=abc", "*.py"], "--key=*** '*.py'"),
    ],
)
def test_it_can_be_typed_and_names_no_folder_of_its_author(words: list[str], shown: str) -> None:
    assert shown_command(words) == shown


def test_a_hostile_command_is_cut_in_no_time() -> None:
    began = time.process_time()
    shown = shown_command(["k" * 1_000_000, "token" * 1_000_000, *["x"] * 100_000])
    assert time.process_time() - began < 1
    assert len(shown) < 2_000
    assert shown.endswith("...")
