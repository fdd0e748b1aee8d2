"""Where eager ops run, against TensorFlow's own eager runtime with emulated GPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, islice, product
from math import prod
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy import size

from tests.emulator.eager import EagerAnswer, EagerQuestion, answers
from tests.emulator.eager import EagerInput as EagerInputAsked
from tests.emulator.oracle import the_oracle
from tests.placement.eager_calls import CALLS, PLACES, SCOPES, SIDECAR_TYPES, Call, choices, drawn
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.eager import (
    EagerDecision,
    EagerInput,
    EagerOp,
    EagerPlacement,
    EagerSetting,
    place_eager,
)
from traceanalyzer.placement.eager_blockers import eager_blockers
from traceanalyzer.placement.kernels import memory_of
from traceanalyzer.placement.registry import GPU, load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.placement.eager_blockers import EagerBlocker
    from traceanalyzer.placement.op_definitions import OpDefinition
    from traceanalyzer.placement.registry import Registry
    from traceanalyzer.sidecar.document import Json

_LOCAL: Final = "/job:localhost/replica:0/task:0"
_CPU, _GPU = f"{_LOCAL}/device:CPU:0", f"{_LOCAL}/device:GPU:0"
_PROGRAMS: Final = "tests.placement.eager_programs"
_PINNING: Final = {"TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING": "1"}
# Host memory backs an eager tensor of these types, where the kernel has it there. Of an op that is
# computed on the host and returns another type (BroadcastArgs of int64) nothing shows.
_RETURNED_ON_HOST: Final = frozenset({"int32", "string", "resource"})
_DRAWN: Final = 20  # questions in an example: a process answers them all

# What TensorFlow says of an op that it has no device for.
_REFUSALS: Final = (
    "Could not satisfy device specification",  # `EagerContext::SelectDevice`
    "Could not find device for node",  # no kernel takes its attributes
    "No OpKernel was registered to support Op",
    "unknown device",
    # A resource's device was chosen, but there is no kernel there, or another one is elsewhere.
    "because no supported kernel for GPU devices is available",
    "a reference or resource edge connects colocation groups with incompatible assigned devices",
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A question, TensorFlow's answer, and ours."""

    question: EagerQuestion
    answer: EagerAnswer
    placement: EagerPlacement

    @property
    def is_equal(self) -> bool:
        """Whether both have the device, or neither has one."""
        is_none = self.placement.decision is EagerDecision.NONE
        return self.placement.device == self.answer.device and is_none == (not self.answer.device)

    def __str__(self) -> str:
        """Say what differs."""
        question = self.question
        inputs = {
            name: [(i.dtype, i.device) for i in (g if isinstance(g, tuple) else (g,))]
            for name, g in question.inputs.items()
        }
        soft = "soft" if question.soft_placement else "hard"
        return (
            f"{question.op} {dict(question.attributes)} {inputs} under {question.scope!r}, {soft}: "
            f"TensorFlow {self.answer.device or self.answer.error[:300]!r}, "
            f"we {self.placement.device!r} ({self.placement.decision.value})"
        )


@lru_cache
def _registry() -> Registry:
    return load(the_oracle().installation.version)


@lru_cache
def _held(gpus: int = 1) -> Mapping[str, str]:
    """Return what TensorFlow holds while each scope is open: what a capture records of it.

    `tf.device` fills in what a scope leaves open from that of the first CPU.
    """
    asked = [*SCOPES, *PLACES, "/GPU:1", "/GPU:2", "/CPU:1"]
    outcome = the_oracle().run(f"{_PROGRAMS}:scopes", asked, gpus=gpus)
    return dict(zip(asked, outcome.value, strict=True))


def _named(value: Any, kind: str) -> Json:  # noqa: ANN401 - whatever an attribute is
    """Return an attribute's value in the sidecar's encoding."""
    if kind.startswith("list("):
        return [_named(each, kind[5:-1]) for each in value]
    if kind == "type":
        return SIDECAR_TYPES.get(value, value)
    if kind == "string":
        return {"s": value}
    if kind == "shape":
        return {"shape": list(value)}
    result: Json = value
    return result


def _attributes(question: EagerQuestion, definition: OpDefinition) -> dict[str, Json]:
    return {
        name: _named(value, definition.attributes[name].type)
        for name, value in question.attributes.items()
    }


def _op(
    question: EagerQuestion,
    setting: EagerSetting,
    places: Sequence[str] | None = None,
) -> EagerOp:
    """Return an op as a capture of it would have it: resources where we say that they are made."""
    definition = setting.registry.definition(question.op)
    assert definition is not None
    held = _held(len(setting.machine.devices) - 1)
    # Calls are written in the definition's order; Python has other names for some arguments.
    given_inputs = [
        each
        for given_ in question.inputs.values()
        for each in (given_ if isinstance(given_, tuple) else (given_,))
    ]
    inputs = [
        EagerInput(
            dtype,
            _place_of_variable(each, setting)
            if each.is_variable
            else places[number]
            if places is not None
            else "",
            prod(each.shape) if each.value is None else size(each.value),
        )
        for number, (each, dtype) in enumerate(zip(given_inputs, _types(question), strict=True))
    ]
    return EagerOp(question.op, _attributes(question, definition), inputs, held[question.scope])


def _place_of_variable(variable: EagerInputAsked, setting: EagerSetting) -> str:
    made = place_eager(
        "VarHandleOp",
        {
            "dtype": SIDECAR_TYPES.get(variable.dtype, variable.dtype),
            "shape": {"shape": list(variable.shape)},
        },
        [],
        _held(len(setting.machine.devices) - 1)[variable.device],
        EagerSetting(machine=setting.machine, registry=setting.registry),
    )
    return made.device


def _compared(
    questions: Sequence[EagerQuestion],
    *,
    gpus: int = 1,
    pins_small: bool = False,
) -> list[Compared]:
    """Ask TensorFlow, all of one process, and the replay."""
    count = len(questions)
    asked = list(questions)
    if pins_small:  # then it counts where the inputs are
        asked += [replace(q, op=f"{_PROGRAMS}:given", attributes={}, scope="") for q in questions]
    environment = _PINNING if pins_small else {}
    found = answers(the_oracle(), asked, gpus=gpus, environment=environment)
    compared = []
    for question, answer, where in zip(questions, found, found[count:] or questions, strict=False):
        setting = EagerSetting(
            machine=Machine.local(gpus=gpus),
            registry=_registry(),
            soft=question.soft_placement,
            pins_small=pins_small,
        )
        places = [o.device for o in where.outputs] if isinstance(where, EagerAnswer) else None
        placement = place_eager(*_op(question, setting, places), setting)
        compared.append(Compared(question, answer, placement))
    for each in compared:
        # Else it is not the device that it was refused for, and the question is no question.
        is_answer = any(words in each.answer.error for words in _REFUSALS)
        assert each.answer.device or is_answer, str(each)
    return compared


def _sweep(most: int, seed: int = 0) -> list[EagerQuestion]:
    """Return every call, in so many combinations of its types, with scopes and places in turn.

    Args:
        most: How many combinations of a call at most.
        seed: Another one begins elsewhere in each.
    """
    scopes, places = (islice(cycle(of), seed, None) for of in (SCOPES, PLACES))
    soft = islice(cycle([True, True, True, False]), seed, None)
    questions = []
    for call in CALLS:
        types = choices(call, _registry())
        count = min(most, max((len(of) for of in types.values()), default=1))
        for at in range(count):
            chosen = {n: of[(at * len(of) // count + seed) % len(of)] for n, of in types.items()}
            next(places)  # so that not each call begins with the same
            questions.append(
                drawn(
                    call,
                    chosen,
                    list(islice(places, 3)),
                    next(scopes),
                    soft_placement=next(soft),
                )
            )
    return questions


@st.composite
def _questions(draw: st.DrawFn, calls: Sequence[Call] = CALLS) -> EagerQuestion:
    call = draw(st.sampled_from(calls))
    return drawn(
        call,
        {name: draw(st.sampled_from(of)) for name, of in choices(call, _registry()).items()},
        draw(st.lists(st.sampled_from(PLACES), min_size=3, max_size=3)),
        draw(st.sampled_from(SCOPES)),
        soft_placement=draw(st.booleans()),
    )


def _told(what: str, compared: Sequence[Compared]) -> list[Compared]:
    """Print the score; return what differs."""
    differing = [each for each in compared if not each.is_equal]
    decisions = Counter(each.placement.decision.value for each in compared)
    print(  # noqa: T201 - the score
        f"\n{what}: {len(compared) - len(differing)} of {len(compared)} equal, of"
        f" {len({each.question.op for each in compared})} ops;"
        f" {dict(decisions)}"
    )
    return differing


@lru_cache
def _swept() -> tuple[Compared, ...]:
    return tuple(_compared(_sweep(most=3)))


def test_each_op_runs_where_tensorflow_runs_it() -> None:
    compared = _swept()
    differing = _told("eager ops", compared)
    assert not differing, "\n".join(map(str, differing))
    assert len({repr(each.question) for each in compared}) >= 200
    assert {each.placement.decision for each in compared} == {
        *EagerDecision,
    } - {EagerDecision.SMALL_INPUTS}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_each_op_runs_there_in_all_its_types(seed: int) -> None:
    differing = _told("eager ops, all types", _compared(_sweep(most=16, seed=seed)))
    assert not differing, "\n".join(map(str, differing))


@settings(
    max_examples=6,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink takes a process a try
)
@given(questions=st.data())
def test_any_op_runs_where_tensorflow_runs_it(questions: st.DataObject) -> None:
    drawn_ones = [questions.draw(_questions()) for _ in range(_DRAWN)]
    differing = [each for each in _compared(drawn_ones) if not each.is_equal]
    assert not differing, "\n".join(map(str, differing))


def test_an_op_that_its_resources_do_not_allow_is_refused() -> None:
    questions = [
        _of("ResourceApplyMomentum", {"T": "float32"}, ["/CPU:0", "/GPU:0"]),  # two devices
        _of("ResourceApplyGradientDescent", {"T": "bfloat16"}, ["/GPU:0"]),  # no kernel there
    ]
    compared = _compared(questions)
    assert all(each.is_equal for each in compared)
    assert [each.placement.decision for each in compared] == [EagerDecision.NONE] * 2


def test_an_op_goes_where_its_resource_is_whatever_the_scope() -> None:
    calls = [call for call in CALLS if any(_is_resource(given) for given in call.inputs.values())]
    questions = [
        drawn(call, {n: of[0] for n, of in choices(call, _registry()).items()}, [place], scope)
        for call in calls
        for place in ("/CPU:0", "/GPU:0")
        for scope in ("", "/CPU:0", "/GPU:0")
    ]
    compared = _compared(questions)
    assert not _told("on resources", compared)
    assert {each.placement.decision for each in compared} == {EagerDecision.RESOURCE}
    assert {each.answer.device for each in compared} == {_CPU, _GPU}


def test_a_machine_with_two_gpus() -> None:
    scopes = ("", "/GPU:0", "/GPU:1", "/GPU:2", "/device:GPU:*", "/CPU:0", "/CPU:1")
    questions = [
        drawn(call, {n: of[0] for n, of in choices(call, _registry()).items()}, [place], scope)
        for call, scope, place in zip(
            CALLS, cycle(scopes), cycle(["/GPU:1", "/CPU:0", "/GPU:0", ""]), strict=False
        )
    ]
    compared = _compared(questions, gpus=2)
    assert not _told("with two GPUs", compared)
    assert {each.answer.device[-5:] for each in compared} == {"CPU:0", "GPU:0", "GPU:1"}


def test_small_integers_on_the_cpu_pin_ops_where_the_environment_says_so() -> None:
    scopes, places = cycle(("", "/CPU:0", "/GPU:0", "/GPU:7")), cycle(("/CPU:0", "/GPU:0", ""))
    questions = []
    for call in CALLS:
        types = choices(call, _registry())
        small = {
            n: next((t for t in of if t in {"int32", "int64"}), of[0]) for n, of in types.items()
        }
        questions.append(drawn(call, small, [next(places)], next(scopes)))
    many = EagerInputAsked(dtype="int64", shape=(65,), device="/CPU:0")
    few = EagerInputAsked(dtype="int64", shape=(64,), device="/CPU:0")
    questions += [
        EagerQuestion(op="Mul", inputs={"x": each, "y": each}, scope=scope)
        for each in (few, many)
        for scope in ("", "/GPU:0")
    ]
    compared = _compared(questions, pins_small=True)
    differing = _told("small integers pinned", compared)
    assert not differing, "\n".join(map(str, differing))
    pinned = [each for each in compared if each.placement.decision is EagerDecision.SMALL_INPUTS]
    assert len(pinned) >= 20
    assert [each.answer.device for each in compared[-4:]] == [_CPU, _CPU, _GPU, _GPU]


# Program, the op that it ends with, its inputs' types, attributes; its resource is on the CPU.
_ON_RESOURCES: Final[tuple[tuple[str, str, tuple[str, ...], dict[str, Json]], ...]] = (
    ("find", "LookupTableFindV2", ("resource", "string", "int64"), {}),
    ("table_size", "LookupTableSizeV2", ("resource",), {}),
    ("next_element", "IteratorGetNext", ("resource",), {"output_types": ["int64"]}),
    ("take", "TakeDataset", ("variant", "int64"), {"output_types": ["int64"]}),
    ("push", "TensorListPushBack", ("variant", "float"), {"element_dtype": "float"}),
    ("uniform", "StatefulUniform", ("resource", "int64", "int32"), {"dtype": "float"}),
)


def test_ops_on_tables_iterators_datasets_lists_and_generators() -> None:
    questions = [
        EagerQuestion(op=f"{_PROGRAMS}:{program}", scope=scope, soft_placement=soft)
        for program, *_ in _ON_RESOURCES
        for scope in SCOPES
        if scope not in {"/job:elsewhere", "/task:1/GPU:0"}  # no scope within such a one is met
        for soft in (True, False)
    ]
    expected = {}
    for question in questions:
        program = question.op.rpartition(":")[2]
        op, types, attributes = next(rest for name, *rest in _ON_RESOURCES if name == program)
        expected[repr(question)] = place_eager(
            op,
            attributes,
            [EagerInput(t, _CPU if t == "resource" else "") for t in types],
            _held()[question.scope],
            EagerSetting(
                machine=Machine.local(gpus=1), registry=_registry(), soft=question.soft_placement
            ),
        )
    compared = [
        Compared(question, answer, expected[repr(question)])
        for question, answer in zip(questions, answers(the_oracle(), questions), strict=True)
    ]
    for each in compared:
        if not each.placement.device:
            assert any(words in each.answer.error for words in _REFUSALS), str(each)
    differing = [
        each
        for each in compared
        if each.placement.device != each.answer.device and each.placement.device
    ]
    print(f"\ntables and the like: {len(compared) - len(differing)} of {len(compared)} equal")  # noqa: T201
    assert not differing, "\n".join(map(str, differing))


@pytest.mark.parametrize("soft", [True, False])
def test_a_function_is_placed_in_its_caller_s_scope(*, soft: bool) -> None:
    outcome = the_oracle().run(f"{_PROGRAMS}:call", list(SCOPES), soft)
    setting = EagerSetting(
        machine=Machine.local(gpus=1), registry=_registry(), soft=soft, functions={"called"}
    )
    for number, (scope, error) in enumerate(zip(SCOPES, outcome.value, strict=True)):
        placement = place_eager("called", {}, [EagerInput("float", _GPU)], _held()[scope], setting)
        runs = outcome.runs_of(f"called{number}")
        assert bool(error) == (placement.decision is EagerDecision.NONE), (scope, error, placement)
        # It is the default device of what is in the function.
        assert [run.default_device for run in runs] == ([] if error else [placement.device]), scope


def test_what_a_gpu_kernel_has_in_host_memory_is_backed_by_the_cpu() -> None:
    registry = _registry()
    seen: Counter[tuple[str, bool]] = Counter()
    all_host: set[str] = set()
    for each in _swept():
        if each.answer.device != _GPU or not each.answer.outputs:
            continue
        definition = registry.definition(each.question.op)
        assert definition is not None
        attributes = definition.complete(
            {
                **definition.attributes_of_inputs(_types(each.question)),
                **_attributes(each.question, definition),
            }
        )
        kernel = registry.find(each.question.op, GPU, attributes)
        assert kernel is not None
        memory = memory_of(kernel, definition, attributes)
        for output, is_on_host in zip(each.answer.outputs, memory.outputs, strict=True):
            # Of other types TensorFlow returns a copy in the GPU's memory (`_Retval`).
            is_returned = is_on_host and output.dtype in _RETURNED_ON_HOST
            assert (output.backing_device == _CPU) == is_returned, (str(each), output)
            seen[output.dtype, is_on_host] += 1
        if memory.all_host:
            all_host.add(each.question.op)
    print(  # noqa: T201 - the score
        f"\nmemory: {seen.total()} outputs equal, {sum(n for (_, host), n in seen.items() if host)}"
        f" in host memory; computed on the host: {', '.join(sorted(all_host))}"
    )
    # Integers of 32 bits are in host memory or not as the kernel has it, not by their type.
    assert all(seen[of] for of in (("int32", True), ("int32", False), ("int64", True)))
    assert len(all_host) >= 10


@dataclass(frozen=True, slots=True)
class _Variant:
    """A call of an op, as it is held on the CPU or is no more."""

    call: Call
    types: Mapping[str, str]
    places: tuple[str, ...]  # of its inputs, in their order
    scope: str

    def question(self) -> EagerQuestion:
        """Return it as a question."""
        return drawn(self.call, self.types, self.places, self.scope)

    def without(self, blocker: EagerBlocker) -> _Variant | None:
        """Return the call without what holds it; None where it would be no call of this op."""
        if blocker.hold is Hold.REQUEST:
            return replace(self, scope="")
        if blocker.hold is Hold.RESOURCE:
            assert blocker.input is not None
            places = list(self.places)
            places[blocker.input] = "/GPU:0"
            moved = replace(self, places=tuple(places))
            made = _op(moved.question(), _setting()).inputs[blocker.input]
            return moved if made.device == _GPU else None
        if blocker.hold is Hold.ATTRIBUTES:
            return self._of_other_types(blocker.attributes)
        return None

    def _of_other_types(self, attributes: Sequence[str]) -> _Variant | None:
        of_call = choices(self.call, _registry())
        if not of_call.keys() >= set(attributes):
            return None
        for types in product(*(of_call[name] for name in attributes)):
            changed = replace(
                self,
                types={**self.types, **dict(zip(attributes, types, strict=True))},
                places=("/GPU:0",) * len(self.places),
                scope="",
            )
            if place_eager(*_op(changed.question(), _setting()), _setting()).device == _GPU:
                return replace(changed, places=self.places, scope=self.scope)
        return None


def _setting() -> EagerSetting:
    return EagerSetting(machine=Machine.local(gpus=1), registry=_registry())


def _held_on_cpu(calls: Sequence[Call]) -> list[tuple[_Variant, tuple[EagerBlocker, ...]]]:
    """Return those that are on the CPU, with what holds them there."""
    found = []
    for call in calls:
        types = choices(call, _registry())
        places = ("/CPU:0", "/GPU:0") if any(map(_is_resource, call.inputs.values())) else ("",)
        for at, place, scope in product(range(2), places, ("", "/CPU:0")):
            chosen = {name: of[at * len(of) // 2] for name, of in types.items()}
            count = sum(len(i) if isinstance(i, tuple) else 1 for i in call.inputs.values())
            variant = _Variant(call, chosen, (place,) * max(count, 1), scope)
            op = _op(variant.question(), _setting())
            if place_eager(*op, _setting()).device == _CPU:
                blockers = eager_blockers(op, _setting())
                assert blockers.is_complete
                found.append((variant, blockers.found))
    return found


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow, id="all"), 4])
def test_without_what_holds_it_an_op_is_on_the_gpu_and_not_with_any_of_it(step: int) -> None:
    free: list[_Variant] = []
    held: list[_Variant] = []
    stacked = 0
    for variant, blockers in _held_on_cpu(CALLS[::step]):
        for left_out in (None, *blockers):
            changed: _Variant | None = variant
            for blocker in blockers:
                if changed is not None and blocker is not left_out:
                    changed = changed.without(blocker)
            if changed is not None:
                (free if left_out is None else held).append(changed)
        stacked += len(blockers) > 1
    asked = {repr(v): v for v in (*free, *held)}
    found = answers(the_oracle(), [v.question() for v in asked.values()])
    devices = dict(zip(asked, (answer.device for answer in found), strict=True))
    not_free = [v for v in free if devices[repr(v)] != _GPU]
    not_held = [v for v in held if devices[repr(v)] == _GPU]
    print(  # noqa: T201 - the score
        f"\neager counterfactuals: {len(free) - len(not_free)} of {len(free)} on the GPU without"
        f" what holds them, {len(held) - len(not_held)} of {len(held)} not with one of it;"
        f" {stacked} were held in several ways"
    )
    assert not not_free
    assert not not_held
    assert stacked >= 32 / step


def _of(op: str, types: Mapping[str, str], places: Sequence[str]) -> EagerQuestion:
    return drawn(next(call for call in CALLS if call.op == op), types, places, "")


def _is_resource(given_: object) -> bool:
    return isinstance(given_, EagerInputAsked) and given_.is_variable


def _types(question: EagerQuestion) -> list[str]:
    """Return the types of an op's inputs, as the sidecar names them."""
    return [
        "resource" if each.is_variable else SIDECAR_TYPES.get(each.dtype, each.dtype)
        for given_ in question.inputs.values()
        for each in (given_ if isinstance(given_, tuple) else (given_,))
    ]
