"""The code that replaces ops without a GPU kernel: run beside them, and placed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pytest

from tests.emulator.oracle import the_oracle
from traceanalyzer.causes.knowledge.advice import SUBSTITUTES, substitute
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.kernel_types import all_on_host
from traceanalyzer.placement.registry import load, registries, supported

Code: TypeAlias = "tuple[str, str, str, str]"  # op, function that makes it, code, type of the data
_FOLLOWING: Final = {"_Arg", "_Retval", "Const", "Shape"}  # they go where their neighbour is
_CODES: Final[list[Code]] = [
    (op, function, each.fix.code or "", dtype)
    for (op, function), each in sorted(SUBSTITUTES.items())
    for dtype in each.types or ("float",)
]

some_codes = pytest.mark.parametrize(
    "codes", [_CODES[::8], pytest.param(_CODES, marks=pytest.mark.slow)], ids=["some", "all"]
)


def _in_fork(function: str, codes: Sequence[Code]) -> Any:  # noqa: ANN401 - what it returns
    outcome = the_oracle().run(f"tests.causes.knowledge.substitute_code:{function}", codes, gpus=0)
    assert outcome.exit_code == 0, outcome.error
    return outcome.value


def test_what_it_replaces_has_no_gpu_kernel_in_any_version() -> None:
    for op, _ in SUBSTITUTES:
        versions = [v for v in supported() if load(v).definition(op) is not None]
        assert versions, op
        assert not [v for v in versions if bool(load(v).gpu_kernels(op))], op


@some_codes
def test_code_that_is_called_checked_gives_the_result_of_the_op(codes: Sequence[Code]) -> None:
    assert not _in_fork("differences", [c for c in codes if SUBSTITUTES[c[0], c[1]].same_result])


@some_codes
def test_every_op_of_the_code_has_a_gpu_kernel_in_every_version(codes: Sequence[Code]) -> None:
    without = {
        (code[0], code[3], version, op)
        for code, nodes in zip(codes, _in_fork("nodes_of", codes), strict=True)
        for version in (registry.version for registry in registries())
        for op, attributes in nodes
        if not _computes_on_gpu(version, op, attributes, code[3])
    }
    assert not without


@some_codes
def test_tensorflow_places_the_code_on_a_gpu(codes: Sequence[Code]) -> None:
    outcome = the_oracle().run("tests.causes.knowledge.substitute_code:run_all", codes)

    assert outcome.exit_code == 0, outcome.error
    on_cpu = {
        (run.function, name, op)
        for run in outcome.runs
        if "code_" in run.function
        for name, op, device in zip(run.graph.names, run.graph.ops, run.assigned, strict=True)
        if "CPU" in device and op not in _FOLLOWING
    }
    assert not on_cpu


def test_nothing_is_offered_for_a_type_that_the_code_does_not_move() -> None:
    assert substitute("UniqueV2", [{"T": "float"}, {"T": "string"}]) is None


def test_a_type_that_was_not_recorded_is_not_called_checked() -> None:
    for attributes, checked in (({}, False), ({"T": "float"}, True)):
        fix = substitute("UniqueV2", [attributes])
        assert fix == replace(SUBSTITUTES["UniqueV2", ""].fix, checked=checked)


def _computes_on_gpu(version: str, op: str, attributes: dict[str, Any], dtype: str) -> bool:
    registry = load(version)
    definition = registry.definition(op)
    if definition is None or not registry.kernels(op) or op in _FOLLOWING:
        return True
    kernel = registry.find(op, GPU, attributes)
    if kernel is None:
        return False
    # Sizes and indices are int32 and in host memory by design: not the data.
    is_data = dtype != "int32" and dtype in attributes.values()
    return not (is_data and all_on_host(kernel, definition, attributes))
