"""Advice from a trace alone: no proof is claimed, and every place says the same."""

import re
from collections.abc import Iterator

import pytest

import traceanalyzer as ta
from tests.traces import (
    call,
    executor,
    gpu,
    host,
    kernel,
    line,
    op,
    step,
    stream,
    us,
    write,
    xspace,
)
from traceanalyzer.changes import changes_of
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model import blocks as b
from traceanalyzer.report.op_details import ops_that_match
from traceanalyzer.report.text import plain

# A table of rows on the CPU, its update, and what its optimizer computes beside it.
ON_CPU = {
    "model/rows/embedding_lookup": "ResourceGather",
    "SGDW/Cast_2": "Cast",
    "SGDW/Identity_1": "Identity",
    "SGDW/PolynomialDecay/Pow": "Pow",
    "SGDW/SGDW/update/Shape": "Shape",
    "SGDW/SGDW/update/Mul": "Mul",
    "SGDW/SGDW/update/ResourceScatterAdd": "ResourceScatterAdd",
}


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    steps, kernels = [], []
    for k in range(8):
        at = 4_000 * k
        ops = [op(n, t, us(at + 50 + 40 * i, 30)) for i, (n, t) in enumerate(ON_CPU.items())]
        runs = executor(us(at + 30, 1_900))(*ops)
        steps.append(step(k, us(at, 2_000))(call("__inference_step_5", us(at + 10, 1_950))(runs)))
        kernels.append(kernel("gemm", us(at + 900, 700), "model/out/MatMul:MatMul"))
    planes = (host(line("python")(*steps)), gpu(0)(stream(7)(*kernels)))
    folder = tmp_path_factory.mktemp("bare")
    return ta.diagnose(ta.load(write(folder, xspace(*planes))))


def texts(blocks: tuple[b.Block, ...]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, b.Note):
            yield plain(block.text)
        elif isinstance(block, b.Fold):
            yield from texts(block.blocks)


def test_all_ops_belong_to_the_change_of_their_variable(diagnosis: Diagnosis) -> None:
    (change,) = (each for each in changes_of(diagnosis) if each.op_ids)

    assert len(change.op_ids) == len(ON_CPU)
    assert "model/rows" in change.title
    assert "tf.device" not in change.title


@pytest.mark.parametrize("name", ON_CPU)
def test_an_op_has_the_fix_of_its_change_and_no_proof(diagnosis: Diagnosis, name: str) -> None:
    (change,) = (each for each in changes_of(diagnosis) if each.op_ids)
    ((found,), _) = ops_that_match(diagnosis, re.compile(f"^{name}$"))

    said = list(texts(found.here))
    fixes = [each.replace("`", "") for each in said if each.startswith("Fix")]
    title = change.title.replace("`", "")
    assert fixes
    assert all(fix.startswith(f"Fix: {title}") for fix in fixes)
    assert not any("placer" in each for each in said)


def test_what_stays_in_host_memory_after_the_fix_is_named(diagnosis: Diagnosis) -> None:
    (change,) = (each for each in changes_of(diagnosis) if each.op_ids)

    assert "Shape" in change.why
    assert "stay in host memory" in change.why
