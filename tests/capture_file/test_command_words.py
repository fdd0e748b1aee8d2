"""A command line that may be shown to others."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.capture_file.recorded_run import MASK, shown_command, without_secrets


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
    [
        "--tokenizer=bert",
        "--lr=1e-4",
        "--name=resnet50_v1_imagenet2012_224x224_batch32",
        "sk-1",
    ],
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
