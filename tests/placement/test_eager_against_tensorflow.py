"""Devices of eager ops, compared with TensorFlow's own eager runtime with emulated GPUs."""

from collections import Counter
from functools import lru_cache
from itertools import cycle
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.emulator.eager import EagerInput as EagerInputAsked
from tests.emulator.eager import EagerQuestion, answers
from tests.emulator.oracle import the_oracle
from tests.placement.eager_asking import (
    CALLS,
    CPU,
    GPU,
    PROGRAMS,
    REFUSALS,
    SCOPES,
    Compared,
    attributes_of,
    choices,
    compared_all,
    differing,
    drawn,
    held_scopes,
    is_resource,
    questions_of,
    registry_of_oracle,
    sweep,
    types_of,
)
from traceanalyzer.capture_file.document import Json
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import GPU as GPU_TYPE
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.eager import (
    EagerInput,
    EagerOp,
    EagerSetting,
    place_eager,
)
from traceanalyzer.placement.kernel_types import all_on_host
from traceanalyzer.placement.registry import ALWAYS_ON_HOST

# Host memory backs an eager tensor of these types, where the kernel has it there. Of an op that is
# computed on the host and returns another type (BroadcastArgs of int64) nothing shows.
_RETURNED_ON_HOST: Final = frozenset({"int32", "string", "resource"})
_DRAWN: Final = 20  # questions in an example: a process answers them all


@lru_cache
def _swept() -> tuple[Compared, ...]:
    return tuple(compared_all(sweep(most=16)))


@pytest.mark.slow
def test_each_op_runs_where_tensorflow_runs_it_in_all_its_types() -> None:
    compared = _swept()
    assert not differing(compared)
    decisions = {each.placement.decided_by for each in compared if each.placement.device}
    assert decisions == {BlockerKind.RESOURCE, BlockerKind.REQUEST, BlockerKind.PRIORITY}


@pytest.mark.slow
@settings(
    max_examples=6,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink takes a process a try
)
@given(questions=st.data())
def test_any_op_runs_where_tensorflow_runs_it(questions: st.DataObject) -> None:
    drawn_ones = [questions.draw(questions_of()) for _ in range(_DRAWN)]
    assert not differing(compared_all(drawn_ones))


def test_an_op_goes_where_its_resource_is_whatever_the_scope() -> None:
    calls = [call for call in CALLS if any(is_resource(given) for given in call.inputs.values())]
    questions = [
        drawn(
            call,
            {n: of[0] for n, of in choices(call, registry_of_oracle()).items()},
            [place],
            scope,
        )
        for call in calls
        for place in ("/CPU:0", "/GPU:0")
        for scope in ("", "/CPU:0", "/GPU:0")
    ]
    compared = compared_all(questions)
    assert not differing(compared)
    assert {each.placement.decided_by for each in compared} == {BlockerKind.RESOURCE}
    assert {each.answer.device for each in compared} == {CPU, GPU}


@pytest.mark.slow
def test_a_machine_with_two_gpus() -> None:
    scopes = ("", "/GPU:0", "/GPU:1", "/GPU:2", "/device:GPU:*", "/CPU:0", "/CPU:1")
    questions = [
        drawn(
            call,
            {n: of[0] for n, of in choices(call, registry_of_oracle()).items()},
            [place],
            scope,
        )
        for call, scope, place in zip(
            CALLS, cycle(scopes), cycle(["/GPU:1", "/CPU:0", "/GPU:0", ""]), strict=False
        )
    ]
    compared = compared_all(questions, gpus=2)
    assert not differing(compared)
    assert {each.answer.device[-5:] for each in compared} == {"CPU:0", "GPU:0", "GPU:1"}


@pytest.mark.slow
def test_small_integers_on_the_cpu_pin_ops_where_the_environment_says_so() -> None:
    scopes, places = cycle(("", "/CPU:0", "/GPU:0", "/GPU:7")), cycle(("/CPU:0", "/GPU:0", ""))
    questions = []
    for call in CALLS:
        types = choices(call, registry_of_oracle())
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
    compared = compared_all(questions, pins_small=True)
    assert not differing(compared)
    pinned = [each for each in compared if each.placement.decided_by is BlockerKind.SMALL_INPUTS]
    assert len(pinned) >= 20
    assert [each.answer.device for each in compared[-4:]] == [CPU, CPU, GPU, GPU]


# Program, the op that it ends with, its inputs' types, attributes; its resource is on the CPU.
_ON_RESOURCES: Final[tuple[tuple[str, str, tuple[str, ...], dict[str, Json]], ...]] = (
    ("find", "LookupTableFindV2", ("resource", "string", "int64"), {}),
    ("table_size", "LookupTableSizeV2", ("resource",), {}),
    ("next_element", "IteratorGetNext", ("resource",), {"output_types": ["int64"]}),
    ("take", "TakeDataset", ("variant", "int64"), {"output_types": ["int64"]}),
    ("push", "TensorListPushBack", ("variant", "float"), {"element_dtype": "float"}),
    ("uniform", "StatefulUniform", ("resource", "int64", "int32"), {"dtype": "float"}),
)


@pytest.mark.slow
def test_ops_on_tables_iterators_datasets_lists_and_generators() -> None:
    questions = [
        EagerQuestion(op=f"{PROGRAMS}:{program}", scope=scope, soft_placement=soft)
        for program, *_ in _ON_RESOURCES
        for scope in SCOPES
        if scope not in {"/job:elsewhere", "/task:1/GPU:0"}  # no scope within such a one is met
        for soft in (True, False)
    ]
    expected = {}
    for question in questions:
        program = question.op.rpartition(":")[2]
        op, types, attributes = next(rest for name, *rest in _ON_RESOURCES if name == program)
        inputs = [EagerInput(t, CPU if t == "resource" else "") for t in types]
        expected[repr(question)] = place_eager(
            EagerOp(op, attributes, inputs, held_scopes()[question.scope]),
            EagerSetting(
                machine=Machine.local(gpus=1),
                registry=registry_of_oracle(),
                soft=question.soft_placement,
            ),
        )
    compared = [
        Compared(question, answer, expected[repr(question)])
        for question, answer in zip(questions, answers(the_oracle(), questions), strict=True)
    ]
    for each in compared:
        if not each.placement.device:
            assert any(words in each.answer.error for words in REFUSALS), str(each)
    differing = [
        each
        for each in compared
        if each.placement.device != each.answer.device and each.placement.device
    ]
    assert not differing, "\n".join(map(str, differing))


@pytest.mark.parametrize("soft", [True, False])
def test_a_function_is_placed_in_its_caller_s_scope(*, soft: bool) -> None:
    outcome = the_oracle().run(f"{PROGRAMS}:call", list(SCOPES), soft)
    setting = EagerSetting(
        machine=Machine.local(gpus=1),
        registry=registry_of_oracle(),
        soft=soft,
        functions={"called"},
    )
    for number, (scope, error) in enumerate(zip(SCOPES, outcome.value, strict=True)):
        called = EagerOp("called", {}, [EagerInput("float", GPU)], held_scopes()[scope])
        placement = place_eager(called, setting)
        runs = outcome.runs_of(f"called{number}")
        assert bool(error) is not bool(placement.device), (scope, error, placement)
        # It is the default device of what is in the function.
        assert [run.default_device for run in runs] == ([] if error else [placement.device]), scope


@pytest.mark.slow
def test_what_a_gpu_kernel_has_in_host_memory_is_backed_by_the_cpu() -> None:
    registry = registry_of_oracle()
    seen: Counter[tuple[str, bool]] = Counter()
    all_host: set[str] = set()
    for each in _swept():
        if each.answer.device != GPU or not each.answer.outputs:
            continue
        definition = registry.definition(each.question.op)
        assert definition is not None
        attributes = definition.complete(
            {
                **definition.attributes_of_inputs(types_of(each.question)),
                **attributes_of(each.question, definition),
            }
        )
        kernel = registry.find(each.question.op, GPU_TYPE, attributes)
        assert kernel is not None
        on_host = [
            argument.name in kernel.host_memory_args or dtype in ALWAYS_ON_HOST
            for argument in definition.outputs
            for dtype in definition.types_of(argument, attributes)
        ]
        for output, is_on_host in zip(each.answer.outputs, on_host, strict=True):
            # Of other types TensorFlow returns a copy in the GPU's memory (`_Retval`).
            is_returned = is_on_host and output.dtype in _RETURNED_ON_HOST
            assert (output.backing_device == CPU) == is_returned, (str(each), output)
            seen[output.dtype, is_on_host] += 1
        if all_on_host(kernel, definition, attributes):
            all_host.add(each.question.op)
    # Integers of 32 bits are in host memory or not as the kernel has it, not by their type.
    assert all(seen[of] for of in (("int32", True), ("int32", False), ("int64", True)))
    assert len(all_host) >= 10
