"""What the kernels of one version of TensorFlow prove of a run of another."""

import re
from dataclasses import replace
from typing import Final

import pytest

from tests.causes.examples import Example
from traceanalyzer.diagnosis import Diagnosis, diagnose
from traceanalyzer.model.blocks import Fold
from traceanalyzer.placement.registry import supported
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.op_details import ops_that_match
from traceanalyzer.trace.tfevents import VersionSighting

# As a trace can tell: from its GraphDef's producer, from a capture, or not at all.
WITHOUT_TABLE: Final = (
    "2.1 or 2.2",
    "between 2.4 and 2.5",
    "2.13.0+nv23.7",
    "2.99.0",
    "1.15.5",
    None,
)


def diagnosis_of(version: str | None) -> Diagnosis:
    """An op without any GPU kernel, one without one for its type, and one that may have one."""
    run = Example(
        title="",
        ops=(
            {"name": "shuffle", "type": "RandomShuffle"},
            {"name": "counts", "type": "MatMul", "input_types": "int32;int32"},
            {"name": "scores", "type": "MatMul"},
        ),
    ).run()
    told = None if version is None else VersionSighting(value=version, source="the test")
    return diagnose(replace(run, version=told))


def certainties(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.cause: finding.certainty for finding in diagnosis.findings}


@pytest.mark.parametrize(
    "version",
    [*(pytest.param(v, marks=pytest.mark.slow) for v in supported()[1:]), supported()[0]],
)
def test_the_kernels_of_its_own_version_make_certain(version: str) -> None:
    for patch in (version, f"{version}.1"):
        assert certainties(diagnosis_of(patch)) == {
            "no_gpu_kernel": "certain",
            "dtype_unsupported": "certain",
        }


@pytest.mark.parametrize("version", WITHOUT_TABLE)
def test_those_of_another_make_likely_and_rule_nothing_out(version: str | None) -> None:
    """A kernel that a later version has may have been missing yet."""
    diagnosis = diagnosis_of(version)
    explained = assemble(diagnosis).summary.explained

    assert certainties(diagnosis) == {"no_gpu_kernel": "likely", "dtype_unsupported": "likely"}
    assert explained.certain == 0
    assert explained.likely == pytest.approx(2 / 3)
    (found,), _ = ops_that_match(diagnosis, re.compile(r"^scores$"))
    excluded = str([block for block in found.here if isinstance(block, Fold)])
    assert "no_gpu_kernel" not in excluded
    assert "dtype_unsupported" not in excluded
