"""Ops that TensorFlow's rewrites create, and the program's ops that they replace."""

import tomllib

import pytest

from tests.emulator.oracle import the_oracle
from traceanalyzer.capture_file.document import CaptureFile, Json, SessionConfig
from traceanalyzer.placement.by_registry import RUNTIMES_OWN, Rewritten, original
from traceanalyzer.placement.kernel_tables import read
from traceanalyzer.placement.on_a_gpu import OPTION, pinned_by
from traceanalyzer.placement.registry import load, supported

OPS = {op for version in supported() for op in load(version).ops}
PROGRAMS_OWN = {*tomllib.loads(read("rewrites.toml"))["programs_own"]["ops"]}
HIDDEN = sorted(op for op in OPS if op.startswith("_"))


def test_each_hidden_op_stands_for_others_or_is_known_not_to() -> None:
    for op in HIDDEN:
        rewritten = original(op)
        if op in RUNTIMES_OWN | PROGRAMS_OWN:
            assert rewritten is None, op
        else:
            assert rewritten is not None, op
            assert rewritten.ops or op == "_UnaryOpsComposition", op
            assert {*rewritten.ops} <= OPS - {*HIDDEN}, op


def test_names_only_ops_that_there_are() -> None:
    assert not (RUNTIMES_OWN | PROGRAMS_OWN) - OPS
    assert not RUNTIMES_OWN & PROGRAMS_OWN


def test_what_grappler_makes_stands_for_what_it_took() -> None:
    nodes = the_oracle().run("tests.placement.rewritten_graph:rewritten", gpus=0).value
    assert {op: original(op) for op in nodes if op.startswith("_")} == {
        "_FusedMatMul": Rewritten(ops=("MatMul",), is_complete=False),
        "_TensorToHashBucketFast": Rewritten(ops=("StringToHashBucketFast", "AsString")),
        "_UnaryOpsComposition": Rewritten(ops=(), is_complete=False),
    }


ON: dict[str, Json] = {OPTION: True}
OWN: dict[str, Json] = {OPTION: "ON"}


def capture_file(
    options: dict[str, Json] | None, *configs: tuple[bool, dict[str, Json]]
) -> CaptureFile:
    return CaptureFile(
        tool="0",
        host="h",
        complete=True,
        devices={"optimizer_options": options},
        session_configs=tuple(
            SessionConfig(is_own=own, is_local=True, soft_placement=False, rewrites=rewrites)
            for own, rewrites in configs
        ),
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, None),
        ({}, None),
        ({OPTION: False}, None),
        (ON, "program"),
        ({**ON, "disable_meta_optimizer": True}, None),
    ],
)
def test_of_functions(options: dict[str, Json] | None, expected: str | None) -> None:
    assert pinned_by(capture_file(options), is_of_session=False) == expected
    assert pinned_by(capture_file(options), is_of_session=True) == expected


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([(True, OWN)], "session"),
        ([(True, {**OWN, "disable_meta_optimizer": True})], None),
        ([(True, {"optimizers": ["pin_to_host"]})], "session"),
        ([(True, {**OWN, "optimizers": ["constfold"]})], None),
        ([(True, {})], None),  # in place of what the program set
        ([(False, {})], "program"),
        ([(True, {}), (False, {})], "program"),
    ],
)
def test_of_sessions(configs: list[tuple[bool, dict[str, Json]]], expected: str | None) -> None:
    assert pinned_by(capture_file(ON, *configs), is_of_session=True) == expected
    assert pinned_by(capture_file(ON, *configs), is_of_session=False) == "program"
