"""The kernel registry as data: what TensorFlow has, found as TensorFlow finds it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest

from tests.architecture.toolchain import ROOT
from tests.placement.asking import ask, registry_of_installed
from traceanalyzer.placement import tables_file
from traceanalyzer.placement.kernels import Kernel, admits, memory_of
from traceanalyzer.placement.registry import load, nearest, supported
from traceanalyzer.placement.support import support_of, usable_kernels

DATA = ROOT / "traceanalyzer" / "placement" / "data"
NEWEST = load("2.21")


@pytest.mark.slow
def test_is_what_tensorflow_has_registered() -> None:
    registry_of_installed()
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing, which the list of ops exempt from colocation needs")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernel_tables", "check", "--python", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[:4000] + done.stderr[-2000:]
    assert ": 0 differences" in done.stdout


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow, id="all"), 8])
def test_finds_a_kernel_where_tensorflow_does(step: int) -> None:
    """Of each op, or of each so many: TensorFlow takes most of a millisecond for an answer."""
    registry = registry_of_installed()
    questions, found = [], []
    for op in sorted(registry.ops)[::step]:
        support, definition = support_of(registry, op), registry.definition(op)
        assert support is not None
        assert definition is not None
        for combination in support.combinations:
            values = {
                name: [value] if definition.attributes[name].type == "list(type)" else value
                for name, value in combination.values.items()
            }
            for device, kernel in (("CPU", combination.cpu), ("GPU", combination.gpu)):
                if kernel is None or not kernel.label:
                    questions.append((op, device, values, None))
                    found.append(kernel is not None)
    answers = [has for has, _ in ask(questions)]
    # A label is no question of types; and the kernels of some ops have nothing but labelled ones.
    differing = [
        (question, ours)
        for question, ours, theirs in zip(questions, found, answers, strict=True)
        if ours != theirs and not all(k.label for k in registry.kernels(question[0]))
    ]
    assert len(questions) > 10_000 / step
    assert not differing[:10]


def test_the_tables_are_small() -> None:
    assert sum(file.stat().st_size for file in DATA.iterdir()) < 2_000_000


def test_a_version_is_loaded_at_once() -> None:
    for remembered in (tables_file.read, tables_file.paragraphs, tables_file.tabulated):
        remembered.cache_clear()
    start = time.perf_counter()
    registry = load("2.16")
    assert registry.find("MatMul", "GPU", {"T": "float"}) is not None
    assert time.perf_counter() - start < 0.05


def test_has_each_version() -> None:
    assert supported() == tuple(f"2.{minor}" for minor in range(12, 22))
    for version in supported():
        registry = load(version)
        assert registry.version == version
        assert registry.release.startswith(f"{version}.")
        assert len(registry.ops) > 1700
        kernels = [kernel for op in registry.ops for kernel in registry.kernels(op)]
        assert {kernel.device_type for kernel in kernels} == {"CPU", "DEFAULT", "GPU"}
        # tensorflow-cpu has a tenth of them.
        assert len({k.op for k in kernels if k.device_type == "GPU"}) > 600
        assert {"IdentityN", "StatefulPartitionedCall"} <= registry.colocation_exempt
        assert registry.colocation_exempt <= {*registry.ops}


def test_a_device_types_own_kernel_comes_before_that_for_all() -> None:
    devices = [k.device_type for k in NEWEST.kernels("Abs") if "int32" in k.constraints["T"]]
    assert sorted(devices) == ["CPU", "DEFAULT", "GPU"]
    for device in ("CPU", "GPU"):
        kernel = NEWEST.find("Abs", device, {"T": "int32"})
        assert kernel is not None
        assert kernel.device_type == device
    default = NEWEST.find("NoOp", "GPU", {})
    assert default is not None
    assert default.device_type == "DEFAULT"


def test_the_highest_priority_is_taken() -> None:
    several = {
        (op, kernel.priority)
        for op in NEWEST.ops
        for kernel in NEWEST.kernels(op)
        if kernel.priority
    }
    assert several
    for op, priority in several:
        (kernel,) = (k for k in NEWEST.kernels(op) if k.priority == priority)
        attributes = {name: next(iter(values)) for name, values in kernel.constraints.items()}
        taken = NEWEST.find(op, kernel.device_type, attributes)
        assert taken == kernel


def test_a_label_is_asked_for_by_the_node() -> None:
    plain = NEWEST.find("MaxPool", "GPU", {"T": "float"})
    labelled = NEWEST.find("MaxPool", "GPU", {"T": "float", "_kernel": {"s": "eigen_tensor"}})
    assert plain is not None
    assert labelled is not None
    assert (plain.label, labelled.label) == ("", "eigen_tensor")
    assert labelled == NEWEST.find("MaxPool", "GPU", {"T": "float"}, "eigen_tensor")
    assert NEWEST.find("MatMul", "GPU", {"T": "float"}, "eigen_tensor") is None


def test_a_default_is_filled_in() -> None:
    types = {"Tparams": "float", "Tindices": "int32"}
    assert NEWEST.find("GatherNd", "GPU", types) is not None
    assert NEWEST.find("GatherNd", "GPU", {**types, "bad_indices_policy": {"s": "ERROR"}}) is None


def test_a_node_that_two_kernels_match_has_none() -> None:
    node = {"Tin": "half", "Tout": "int32"}
    there = {v: load(v).find("StochasticCastToInt", "CPU", node) for v in supported()[1:]}
    assert [version for version, kernel in there.items() if kernel is None] == ["2.13"]
    kernels = load("2.13").kernels("StochasticCastToInt")
    assert len([k for k in kernels if k.device_type == "CPU" and k.matches(node)]) == 2


def test_a_kernel_for_an_attribute_that_the_op_lacks_is_none() -> None:
    assert NEWEST.kernels("TopK")
    assert not usable_kernels(NEWEST, "TopK")
    assert NEWEST.find("TopK", "CPU", {"T": "float", "k": 1}) is None
    assert load("2.12").find("TopK", "CPU", {"T": "float", "k": 1}) is not None


def test_an_unknown_op_has_nothing() -> None:
    assert NEWEST.kernels("MyOp") == ()
    assert NEWEST.definition("MyOp") is None
    assert NEWEST.find("MyOp", "GPU", {}) is None


def test_the_nearest_version_is_taken_and_said_to_be() -> None:
    assert nearest("2.15.1").exact
    assert nearest("2.15.1").registry is load("2.15")
    near = nearest("2.10.0")
    assert (near.exact, near.registry.version, near.proof.certainty) == (False, "2.12", "likely")
    assert not nearest(None).exact
    with pytest.raises(ValueError, match=r"no kernel table of TensorFlow 2\.11"):
        load("2.11")


@pytest.mark.parametrize(
    ("value", "admitted"),
    [
        ("float", True),
        ("int32", False),
        ("float_ref", False),
        ([], True),
        (["float", "float"], True),
        (["float", "int32"], False),
        ([{"s": "float"}], False),
        ({"s": "NHWC"}, True),
        ({"s": "NCHW"}, False),
        (1, True),
        (True, False),
        (2, False),
        (None, False),
        ({"func": "f"}, False),
    ],
)
def test_what_a_constraint_admits(value: object, *, admitted: bool) -> None:
    assert admits(frozenset({"float", "NHWC", 1}), value) is admitted  # type: ignore[arg-type]


def test_a_missing_attribute_does_not_match() -> None:
    kernel = Kernel(op="X", device_type="GPU", constraints={"T": frozenset({"float"})})
    assert kernel.matches({"T": "float"})
    assert not kernel.matches({})
    assert kernel.mismatches({"T": "int32"}) == ("T",)


def test_memory_is_as_the_kernel_and_the_types_say() -> None:
    definition = NEWEST.definition("AddV2")
    assert definition is not None
    on_host = NEWEST.find("AddV2", "GPU", {"T": "int32"})
    on_device = NEWEST.find("AddV2", "GPU", {"T": "float"})
    assert on_host is not None
    assert on_device is not None
    assert memory_of(on_host, definition, {"T": "int32"}).all_host
    memory = memory_of(on_device, definition, {"T": "float", "_input_hostmem": [1, 7]})
    assert (memory.inputs, memory.outputs, memory.all_host) == ((False, True), (False,), False)
    read = NEWEST.definition("ReadVariableOp")
    kernel = NEWEST.find("ReadVariableOp", "GPU", {"dtype": "float"})
    assert read is not None
    assert kernel is not None
    assert memory_of(kernel, read, {"dtype": "float"}).inputs == (True,)  # a resource


def test_a_node_without_tensors_is_not_all_on_the_host() -> None:
    definition, kernel = NEWEST.definition("NoOp"), NEWEST.find("NoOp", "GPU", {})
    assert definition is not None
    assert kernel is not None
    assert not memory_of(kernel, definition, {}).all_host
