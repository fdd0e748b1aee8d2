"""Changes for ops that a bare trace does not explain, and for a missing GPU."""

from dataclasses import replace

import traceanalyzer as ta
from tests.causes.examples import Example
from tests.samples import CASES
from traceanalyzer.changes import Change, changes_of
from traceanalyzer.trace.tfevents import VersionSighting

_LOOKUP = [
    {"name": "tower/items/embedding_lookup", "type": "ResourceGather", "host_self_ps": 9_000_000},
    {"name": "tower/items/embedding_lookup/Identity", "type": "Identity"},
    {"name": "tower/items/strided_slice", "type": "StridedSlice"},
    {"name": "gradient_tape/tower/items/Reshape", "type": "Reshape"},
    {"name": "Adagrad/Adagrad/update/Unique", "type": "Unique"},
    {"name": "Adagrad/Adagrad/update/ResourceScatterAdd", "type": "ResourceScatterAdd"},
]


def changes(*ops: dict[str, object], version: str = "2.4") -> list[Change]:
    """The changes for ops of a bare trace beside a GPU."""
    run = Example(title="", ops=ops).run()
    run = replace(run, version=VersionSighting(value=version, source="trace"))
    return list(changes_of(ta.diagnose(run)))


def test_a_variable_with_its_update_and_its_layer_is_one_change() -> None:
    """The update is in another name scope, which does not name the variable."""
    found, record = changes(*_LOOKUP)

    assert (found.kind, record.kind) == ("edit", "record")
    assert found.title == "Create the variable of `tower/items` on the GPU"
    assert found.certainty == "likely"
    assert len(found.op_ids) == len(_LOOKUP)


def test_two_variables_are_two_changes() -> None:
    users = {"name": "tower/users/embedding_lookup", "type": "ResourceGather"}

    found = [c for c in changes(*_LOOKUP[:3], users) if c.kind == "edit"]

    assert sorted(len(change.op_ids) for change in found) == [1, 3]


def test_many_unexplained_parts_are_a_few_changes() -> None:
    """A page with thousands of them would take minutes and say nothing."""
    ops = [{"name": f"net/layer_{k}/Relu", "type": "Relu"} for k in range(2_000)]

    found = [c for c in changes(*ops) if c.kind == "find_cause"]

    assert len(found) == 21
    assert sum(len(change.op_ids) for change in found) == len(ops)


def test_a_trace_without_a_gpu_has_a_checklist_and_then_a_capture() -> None:
    logs = next(case.logs for case in CASES if case.name == "keras_fit")

    gpu, record, *_ = changes_of(ta.diagnose(ta.load(logs)))

    assert (gpu.kind, record.kind) == ("gpu", "record")
    checks = [each.check for each in gpu.candidates]
    assert checks[0] == "traceanalyzer doctor"
    assert checks[-1] == "nvidia-smi"
    assert "traceanalyzer capture" in record.instead


def test_a_captured_trace_without_a_gpu_predicts_changes() -> None:
    logs = next(case.logs for case in CASES if case.name == "recommender")

    *others, gpu = changes_of(ta.diagnose(ta.load(logs)))

    predicted = [each for each in others if each.is_prediction]
    assert gpu.kind == "gpu"
    assert all(name in gpu.title for name in ("here", "CUDA_VISIBLE_DEVICES", "driver"))
    assert "tf.py_function" in next(each.line_text for each in others if not each.edits)
    assert "Create `asked` as int64" in {each.title for each in predicted}
    assert all(each.saving.kind in {"proxy", "none"} for each in predicted)
    assert not any(each.kind == "record" for each in others)
