"""Which ops of a run without a GPU have GPU kernels, by a trace alone."""

from __future__ import annotations

import pytest

from tests.causes.examples import Example
from traceanalyzer.placement.by_registry import coverage_text


def said(version: str | None, **times_ps: int) -> str:
    ops = tuple({"name": t, "type": t, "host_self_ps": time} for t, time in times_ps.items())
    return coverage_text(Example(title="", ops=ops).run().ops, version)


def test_what_has_a_kernel_is_counted_and_what_has_none_named() -> None:
    text = said("2.21.0", MatMul=30, Eig=60, Relu=10)

    assert text.startswith(
        "ops with a GPU kernel in TensorFlow 2.21: 2 of 3 (40 % of their time); they would likely"
    )
    assert text.endswith("; without a GPU kernel: Eig")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.4", "in TensorFlow 2.12, the nearest to 2.4 whose kernels are known"),
        (None, "in TensorFlow 2.21 (the version of the run is not known)"),
        ("2.13.0", "in TensorFlow 2.13: 1 of 1"),
    ],
)
def test_it_says_whose_kernels_they_are(version: str | None, words: str) -> None:
    assert words in said(version, MatMul=5)
