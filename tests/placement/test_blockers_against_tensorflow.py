"""Blockers of nodes, compared with TensorFlow on programs without some of them.

Each program of `tests.counterfactuals` has an op on the CPU and a switch for each reason. The cases
name the blocker that belongs to each switch. With all switches off, TensorFlow itself must put the
op on the GPU; with one of them on, it must not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import pytest

from tests.emulator.oracle import Outcome, PlacerRun, the_oracle
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.blockers import BlockerFinder
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.nodes import describe
from traceanalyzer.placement.placer import Placement, Setting
from traceanalyzer.placement.registry import load

_CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
_GPU: Final = "/job:localhost/replica:0/task:0/device:GPU:0"
_TARGET: Final = "target"
_ALWAYS: Final = {"together:complex_update", "together:beside_two_texts_in_scope"}

# How it holds; the last part of the node's name, in which `target` stands for the target's; the
# attributes. TensorFlow names the argument that a variable becomes after its first use.
Label: TypeAlias = tuple[BlockerKind, str, tuple[str, ...]]

_TYPE: Final[Label] = (BlockerKind.ATTRIBUTES, _TARGET, ("T",))
_KERNEL: Final[Label] = (BlockerKind.NO_KERNEL, _TARGET, ())
_SCOPE: Final[Label] = (BlockerKind.REQUEST, _TARGET, ())
_CALLER: Final[Label] = (BlockerKind.DEFAULT_DEVICE, _TARGET, ())


def _variable(argument: str) -> Label:
    return (BlockerKind.ASSIGNED, argument, ())


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A program, and what each of its switches stands for."""

    program: str
    switches: Mapping[str, frozenset[Label]]

    def target(self, off: frozenset[str]) -> str:
        """Return what the op in question is called where some switches are off."""
        left = "_".join(sorted(self.switches.keys() - off)) or "nothing"
        return f"{_TARGET}_{self.program.replace(':', '_')}_{left}"

    def variants(self) -> Iterator[frozenset[str]]:
        """Walk the sets of switches that are off: none, all, all but each."""
        every = frozenset(self.switches)
        yield from dict.fromkeys([frozenset(), every, *(every - {one} for one in every)])


def _case(program: str, **switches: Label | frozenset[Label]) -> Case:
    return Case(
        program,
        {
            name: stands_for if isinstance(stands_for, frozenset) else frozenset({stands_for})
            for name, stands_for in switches.items()
        },
    )


CASES: Final = (
    _case("alone:int32_matmul_in_scope_called_in_scope", cast=_TYPE, scope=_SCOPE, caller=_CALLER),
    _case("alone:shuffle_in_scope_called_in_scope", op=_KERNEL, scope=_SCOPE, caller=_CALLER),
    _case("alone:loop_of_int32_matmul_in_scope", cast=_TYPE, scope=_SCOPE),
    _case("alone:bicubic_resize_of_a_called_function", op=_KERNEL, scope=_SCOPE),
    _case(
        "alone:length_of_a_list_of_strings_called_in_scope",
        cast=(BlockerKind.HOST_LIST, _TARGET, ()),
        caller=_CALLER,
    ),
    _case("alone:gradient_in_scope", scope=_SCOPE, caller=_CALLER),
    _case("alone:body_of_a_pipeline", pipeline=_CALLER),
    _case("alone:optional_in_callers_scope", caller=_CALLER),
    _case("together:gather_through_scope", variable=_variable("target_resource")),
    _case("together:read_of_int32_variable", variable=_variable("target_resource")),
    _case(
        "together:momentum_of_two_variables",
        variable=_variable("target_var"),
        slot=_variable("target_accum"),
    ),
    _case(
        "together:complex_update",
        cast=(BlockerKind.ATTRIBUTES, _TARGET, ("dtype",)),
        variable=_variable("target_resource"),
    ),
    _case("together:find_in_a_table", table=frozenset({_KERNEL, _variable("target_table_handle")})),
    _case(
        "together:int32_matmul_beside_text_called_in_scope",
        cast=_TYPE,
        colocation=(BlockerKind.NO_KERNEL, "upper", ()),
        caller=_CALLER,
    ),
    _case(
        "together:beside_an_op_in_scope",
        # What is colocated with an op in a scope is asked for what that is.
        scope=frozenset((BlockerKind.REQUEST, name, ()) for name in ("anchor", _TARGET, "add")),
    ),
    _case(
        "together:beside_two_texts_in_scope",
        upper=(BlockerKind.NO_KERNEL, "upper", ()),
        lower=(BlockerKind.NO_KERNEL, "lower", ()),
        scope=_SCOPE,
    ),
    _case(
        "together:constant_of_int32_matmul_in_scope",
        cast=(BlockerKind.ATTRIBUTES, "follow", ("T",)),
        scope=(BlockerKind.REQUEST, "follow", ()),
        caller=(BlockerKind.DEFAULT_DEVICE, "follow", ()),
    ),
    _case(
        "together:identity_of_an_identity_in_caller",
        op=(BlockerKind.NO_KERNEL, "follow", ()),
        caller=(BlockerKind.DEFAULT_DEVICE, "follow", ()),
    ),
    _case("together:identity_between_scopes", scope=(BlockerKind.REQUEST, "follow", ())),
    _case("together:identity_of_a_variable", variable=_variable("readvariableop_resource")),
    _case(
        "together:shape_of_shuffled_in_caller",
        op=(BlockerKind.NO_KERNEL, "follow", ()),
        caller=(BlockerKind.DEFAULT_DEVICE, "follow", ()),
    ),
    _case(
        "alone:read_of_a_variable_in_scope",
        # All that makes and uses a variable in its scope is asked for there too.
        variable=frozenset(
            {
                (BlockerKind.RESOURCE, "weights", ()),
                (BlockerKind.REQUEST, "Assign", ()),
                (BlockerKind.REQUEST, "VarIsInitializedOp", ()),
                (BlockerKind.REQUEST, "ReadVariableOp", ()),
            }
        ),
    ),
    _case(
        "alone:uses_of_a_variable_in_scopes",
        variable=(BlockerKind.RESOURCE, "handle", ()),
        assignment=(BlockerKind.REQUEST, "assign", ()),
        scope=_SCOPE,
    ),
    _case(
        "alone:optional_of_a_value_in_scope",
        op=(BlockerKind.PRIORITY, _TARGET, ()),
        scope=_SCOPE,
    ),
)


@cache
def _outcome(case: Case) -> Outcome:
    """Run all variants of a program."""
    variants = [(case.program, case.target(off), off) for off in case.variants()]
    outcome = the_oracle().run("tests.counterfactuals.switches:run_all", variants)
    assert outcome.value is not None, outcome.stderr[-2000:]
    return outcome


def _run_of(case: Case, off: frozenset[str]) -> tuple[PlacerRun, int]:
    """Return the placer's run that the op of a variant is in, and its index there."""
    target = case.target(off)
    for run in _outcome(case).runs:
        for at, name in enumerate(run.graph.names):
            if name.rpartition("/")[2] == target:
                return run, at
    pytest.fail(f"no placer's run has the node {target}: {_outcome(case).value}")


def _device(case: Case, off: frozenset[str]) -> str:
    """Return where TensorFlow puts the op of a variant; "" where it refuses the program."""
    run, at = _run_of(case, off)
    return run.assigned[at] if run.assigned else ""


def _placed(case: Case, run: PlacerRun) -> Placement:
    functions = {each.function for each in _outcome(case).runs}
    registry = load(the_oracle().installation.version)
    setting = Setting(
        machine=Machine(run.devices),
        default_device=run.default_device,
        soft=run.soft_placement,
        assigned={at: device for at, device in enumerate(run.assigned_before) if device},
    )
    return Placement(describe(run.graph, run.attributes, registry, functions), setting)


_each = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=[] if case.program in _ALWAYS else pytest.mark.slow, id=case.program
        )
        for case in CASES
    ],
)


@_each
def test_no_variant_fails_but_where_tensorflow_refuses_to_place_it(case: Case) -> None:
    """A variable of a type that its update has no GPU kernel for, or two on different devices."""
    for off, error in zip(case.variants(), _outcome(case).value, strict=True):
        assert not error or not _run_of(case, off)[0].assigned


@_each
def test_the_replay_has_the_op_where_tensorflow_has_it(case: Case) -> None:
    for off in case.variants():
        run, at = _run_of(case, off)
        if run.assigned:
            assert _placed(case, run).devices[at] == run.assigned[at], off


@_each
def test_what_is_found_is_what_holds_it(case: Case) -> None:
    target = case.target(frozenset())
    run, at = _run_of(case, frozenset())
    found = BlockerFinder(_placed(case, run)).of(at)
    names = [run.graph.names[b.node].rpartition("/")[2] for b in found.found]
    labels = {
        (b.kind, name.replace(target, _TARGET), b.refused)
        for b, name in zip(found.found, names, strict=True)
    }
    assert _device(case, frozenset()) == _CPU
    assert labels == frozenset().union(*case.switches.values())
    assert found.is_complete


@_each
def test_without_all_of_it_tensorflow_has_the_op_on_the_gpu_and_with_any_of_it_not(
    case: Case,
) -> None:
    every = frozenset(case.switches)
    assert _device(case, every) == _GPU
    for one in every:
        assert _device(case, every - {one}) != _GPU, f"with {one} alone"
