"""What a trace alone tells of a run without GPU: what of it has GPU kernels."""

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
        "2 of the 3 ops (40 % of their time) are of types that have a GPU kernel in TensorFlow 2.21"
    )
    assert "would likely be placed there" in text
    assert text.endswith("; none has Eig")


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("2.4", "in TensorFlow 2.12, the nearest to 2.4 of which the kernels are known"),
        (None, "in TensorFlow 2.21 (the version of the run is not known)"),
        ("2.13.0", "in TensorFlow 2.13: with a GPU"),
    ],
)
def test_it_says_whose_kernels_they_are(version: str | None, told: str) -> None:
    assert told in said(version, MatMul=5)
