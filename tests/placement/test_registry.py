"""The kernel registry as data: the kernels of TensorFlow, found as TensorFlow finds them."""

import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.architecture.toolchain import ROOT
from tests.kernel_tables.tables import ranges
from tests.placement.asking import ask, registry_of_installed
from traceanalyzer.placement.kernel_tables import (
    covers,
    minor_of,
    nearest_minor,
)
from traceanalyzer.placement.kernel_types import support_of
from traceanalyzer.placement.registry import load, supported

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


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow, id="all"), 128])
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


def test_has_each_version() -> None:
    assert supported() == tuple(f"2.{minor}" for minor in range(22))
    for version in supported():
        registry = load(version)
        assert registry.version == version
        assert registry.release.startswith(f"{version}.")
        assert len(registry.ops) > 1300
        types = {op: {k.device_type for k in registry.kernels(op)} for op in registry.ops}
        assert set().union(*types.values()) == {"CPU", "DEFAULT", "GPU"}
        # tensorflow-cpu has a tenth of them.
        assert sum("GPU" in of_op for of_op in types.values()) > 600
        assert {"IdentityN", "StatefulPartitionedCall"} <= registry.colocation_exempt
        assert registry.colocation_exempt <= {*registry.ops}


def test_a_node_that_two_kernels_match_has_none() -> None:
    node = {"Tin": "half", "Tout": "int32"}
    there = {v: load(v).find("StochasticCastToInt", "CPU", node) for v in ("2.13", "2.14", "2.21")}
    assert [version for version, kernel in there.items() if kernel is None] == ["2.13"]
    kernels = load("2.13").kernels("StochasticCastToInt")
    assert len([k for k in kernels if k.device_type == "CPU" and not k.mismatches(node)]) == 2


def test_a_kernel_for_an_attribute_that_the_op_lacks_is_none() -> None:
    assert NEWEST.kernels("TopK")
    assert not NEWEST.usable_kernels("TopK")
    assert NEWEST.find("TopK", "CPU", {"T": "float", "k": 1}) is None
    assert load("2.12").find("TopK", "CPU", {"T": "float", "k": 1}) is not None


AVAILABLE = [(2, minor) for minor in range(12, 22)]


@pytest.mark.parametrize(
    ("version", "nearest", "is_exact"),
    [
        ("2.21", (2, 21), True),
        ("2.21.0", (2, 21), True),
        ("v2.12.1", (2, 12), True),
        ("2.13.0-rc1", (2, 13), False),
        ("2.13.0rc1", (2, 13), False),
        ("2.22.0-dev20260101", (2, 21), False),
        ("2.13.0+nv23.7", (2, 13), False),
        ("v2.16.1-19-g810f233968c", (2, 16), False),
        ("2.11.0", (2, 11), True),
        ("2.14 or 2.15", (2, 14), False),
        ("between 2.4 and 2.5", (2, 5), False),
        ("1.15.5", (2, 0), False),
        ("3.0.0", (2, 21), False),
        ("unknown", (2, 21), False),
        ("", (2, 21), False),
        (None, (2, 21), False),
    ],
)
def test_the_nearest(version: str | None, nearest: tuple[int, int], *, is_exact: bool) -> None:
    assert nearest_minor(version) == (nearest, is_exact)


@pytest.mark.parametrize("no_version", ["", "x", "2", "TensorFlow 2.21", "2.x"])
def test_refuses_what_is_no_version(no_version: str) -> None:
    with pytest.raises(ValueError, match="not a version of TensorFlow"):
        minor_of(no_version)


@given(st.sets(st.sampled_from(AVAILABLE), min_size=1))
def test_ranges_hold_what_was_written(versions: set[tuple[int, int]]) -> None:
    written = ranges(versions, AVAILABLE)
    assert {version for version in AVAILABLE if covers(written, version)} == versions
