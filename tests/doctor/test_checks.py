"""What follows from the facts about a machine, by `facts.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from traceanalyzer.doctor.checklist import Checkup, diagnose
from traceanalyzer.doctor.facts import MachineFacts

FACTS = tomllib.loads(Path(__file__).with_name("facts.toml").read_text("utf-8"))
SEEN = {"gpus": ["GPU:0"]}


def merged(base: Any, change: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def diagnosed(change: Mapping[str, Any], answer: Mapping[str, Any]) -> Checkup:
    facts = merged({**FACTS["sound"], "answer": answer}, change)
    return diagnose(msgspec.convert(facts, MachineFacts, strict=False))


@pytest.mark.parametrize("fault", FACTS["fault"], ids=lambda f: f.get("first") or f["warns"])
def test_each_fault_is_named_with_its_command(fault: Mapping[str, Any]) -> None:
    if "first" in fault:
        diagnosis = diagnosed(fault["facts"], {"gpus": []})
        assert not diagnosis.usable
        named = diagnosis.obstacles[0]
        assert named.id == fault["first"]
    else:
        diagnosis = diagnosed(fault["facts"], SEEN)
        assert diagnosis.usable
        (named,) = (c for c in diagnosis.checks if c.id == fault["warns"])
        assert named.status == "warning"
    assert fault["command"] in named.command


@pytest.mark.parametrize("value", ["0", "0,7", " 0", "GPU-0a1b", "GPU-0a", "MIG-1", "00", "+0"])
def test_a_value_that_names_a_gpu_hides_none(value: str) -> None:
    variables = {"variables": {"CUDA_VISIBLE_DEVICES": value}}
    diagnosis = diagnosed({"installation": variables}, SEEN)
    assert "hidden_by_env" not in {check.id for check in diagnosis.checks}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("tf.config.set_visible_devices(gpus[:1], 'GPU')", "script_may_hide_gpu"),
        ("    tf.config.set_visible_devices([], 'GPU')", "script_may_hide_gpu"),
        ("if not gpus: tf.config.set_visible_devices([], 'GPU')", "script_may_hide_gpu"),
        ("tf.config.set_visible_devices([], 'GPU')", "script_hides_gpu"),
    ],
)
def test_a_script_without_gpus_here_may_have_one_elsewhere(line: str, named: str) -> None:
    chosen = {"kind": "set_visible_devices", "value": "[]", "place": ["/a.py", 3], "line": line}
    script = {"limits": [chosen], "gpus_to_choose_from": 0, "gpus": []}
    checks = diagnosed({"script": script}, {"gpus": []}).checks
    (check,) = (check for check in checks if check.group == "script")
    assert (check.id, bool(check.fix)) == (named, True)
