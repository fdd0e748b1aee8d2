from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from importlib import resources
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.examples import EXAMPLES, HOSTILE, cpu_only_run, gpu_run
from traceanalyzer.errors import TraceFormatError
from traceanalyzer.model import Cost, DeviceInfo, Table
from traceanalyzer.report import document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traceanalyzer import model

SCHEMA = json.loads(
    resources.files("traceanalyzer.report").joinpath("schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def as_read(report: model.Report) -> Any:  # noqa: ANN401
    return json.loads(document.dumps(report))


@pytest.fixture(params=sorted(EXAMPLES))
def report(request: pytest.FixtureRequest) -> model.Report:
    return EXAMPLES[request.param]()


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_examples_are_valid(report: model.Report) -> None:
    VALIDATOR.validate(as_read(report))


def test_round_trip(report: model.Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    document.write(report, path)
    again = document.load(path)
    assert again == report
    assert document.dumps(again) == document.dumps(report)


texts = st.text('ab"\\/\n \u00b5\u20ac')
scalars = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9)
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)


@given(values)
def test_is_laid_out_as_the_standard_library_would(value: Any) -> None:  # noqa: ANN401
    report = SimpleNamespace(as_json=lambda: value)
    expected = json.dumps(value, ensure_ascii=False, indent=2)
    assert document.dumps(cast("model.Report", report)) == f"{expected}\n"


def test_keys_stand_in_the_contracts_order() -> None:
    keys = list(as_read(gpu_run()))
    assert keys == [
        "schema_version",
        "tool",
        "run",
        "health",
        "summary",
        "findings",
        "unexplained",
        "rules",
        "on_a_gpu",
        "steps",
        "timeline",
        "scopes",
        "critical_path",
        "copy_graph",
        "islands",
        "islands_total",
        "memory",
        "input_pipeline",
        "beliefs",
        "trace",
        "tables",
    ]


def set_at(plain: Any, path: str, value: object) -> None:  # noqa: ANN401
    *parents, last = path.split(".")
    for key in parents:
        plain = plain[int(key) if key.isdigit() else key]
    plain[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 2),
        ("summary.verdict", ""),
        ("summary.explained_share", 1.2),
        ("summary.extra", 1),
        ("findings.0.certainty", "sure"),
        ("findings.0.harm", "bad"),
        ("findings.0.evidence", []),
        ("findings.0.evidence.1.where", {"file": "a.py", "line": 1, "plane": "x"}),
        ("findings.0.cost.copy_bytes", 1.5),
        ("findings.0.ops.0.op_id", None),
        ("unexplained.ops.0.cost", None),
        ("rules.0.status", "skipped"),
        ("health.0.severity", "fatal"),
        ("steps.source", "guessed"),
        ("copy_graph.edges.0.direction", "up"),
        ("tables.ops.total_rows", -1),
        ("tables.ops.rows.0", "row"),
    ],
)
def test_schema_refuses_what_the_contract_does_not_allow(path: str, value: object) -> None:
    plain = as_read(gpu_run())
    set_at(plain, path, value)
    assert not VALIDATOR.is_valid(plain)


def test_schema_allows_later_keys_at_the_top_only() -> None:
    plain = as_read(gpu_run())
    plain["of_a_later_version"] = {"bins": []}
    VALIDATOR.validate(plain)


def test_a_missing_key_is_refused() -> None:
    for key in SCHEMA["required"]:
        plain = as_read(gpu_run())
        del plain[key]
        assert not VALIDATOR.is_valid(plain)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def assert_alike(record: Any, schema: dict[str, Any]) -> None:  # noqa: ANN401
    schema = resolved(schema)
    if "anyOf" in schema:
        names = [field.name for field in fields(record)]
        branches = [resolved(branch) for branch in schema["anyOf"]]
        schema = next(b for b in branches if list(b.get("properties", ())) == names)
    assert list(schema["properties"]) == [field.name for field in fields(record)]
    for field in fields(record):
        value = getattr(record, field.name)
        part = schema["properties"][field.name]
        if is_dataclass(value):
            assert_alike(value, part)
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            items = resolved(part)["items"]
            for item in value:
                assert_alike(item, items)


def test_schema_and_records_name_the_same_fields() -> None:
    assert_alike(gpu_run(), SCHEMA)
    assert_alike(cpu_only_run(), SCHEMA)


def test_figures_are_rounded_as_the_records_are_built() -> None:
    cost = Cost(
        host_us=np.float64(1.00049), copy_us=-0.0, copy_bytes=12.0, exposed_us_per_step=np.nan
    )
    assert cost.as_json() == {
        "host_us": 1.0,
        "copy_us": 0.0,
        "copy_bytes": 12,
        "exposed_us_per_step": None,
        "host_us_per_step": None,
    }
    assert isinstance(cost.copy_bytes, int)
    assert str(cost.copy_us) == "0.0"
    assert DeviceInfo(name="g", kind="gpu", busy_share=1 / 3).busy_share == 0.333333


def test_cells_of_pandas_become_plain() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a", None],
            "bytes": [1024.0, np.nan],
            "count": np.array([3, 4], dtype="int64"),
            "total_us": [0.12345, np.inf],
            "when": [pd.NaT, pd.NA],
            "is_eager": [np.True_, False],
        }
    )
    table = Table(
        columns=tuple(frame.columns),
        rows=tuple(frame.itertuples(index=False, name=None)),
        total_rows=np.int64(2),
    )
    assert table.rows == (
        ("a", 1024, 3, 0.123, None, True),
        (None, None, 4, None, None, False),
    )
    assert json.dumps(table.as_json())
    assert table.records()[0]["bytes"] == 1024


def test_a_row_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Table(columns=("a", "b"), rows=((1,),), total_rows=1)


def test_text_is_inert_in_a_terminal() -> None:
    text = document.dumps(EXAMPLES["hostile"]())
    assert text.encode("utf-8")
    assert not any(character in text for character in "\x00\x1b\x9b\u2028\u202e\u200b\ud800")
    assert json.loads(text)["summary"]["verdict"] == HOSTILE


def test_unknown_is_null() -> None:
    plain = as_read(EXAMPLES["empty"]())
    assert plain["summary"]["explained_share"] is None
    assert plain["run"]["duration_us"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a report"),
        ("[]", "schema_version is None"),
        ('{"schema_version": 2}', "schema_version is 2"),
        ('{"schema_version": 1}', "report lacks findings, health"),
        ("{" * 100_000, "not a report"),
        ("[" * 100_000, "not a report"),
    ],
)
def test_what_is_no_report_is_one_line_of_error(text: str, said: str) -> None:
    with pytest.raises(TraceFormatError, match=r"r\.json: not a report") as caught:
        document.loads(text, source="r.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("findings.0.certainty", "sure", "report.findings[0].certainty should be one of certain"),
        ("summary.cpu_ops", "5", "report.summary.cpu_ops should be int"),
        ("summary.cpu_ops", True, "report.summary.cpu_ops should be int"),
        ("run.hosts", "h", "report.run.hosts should be a list"),
        ("run", 3, "report.run should be an object"),
        ("findings.0.evidence.1.where", {"x": 1}, "should be TraceWhere or SourceWhere"),
        ("findings.0.sub_reason", 4, "report.findings[0].sub_reason should be str or null"),
        ("tables.steps.rows.0", [1], "report.tables.steps"),
        ("tables.steps.rows.0.0", {}, "report.tables.steps.rows[0][0] should be str or int"),
    ],
)
def test_the_place_of_a_wrong_value_is_named(path: str, value: object, said: str) -> None:
    plain = as_read(gpu_run())
    set_at(plain, path, value)
    with pytest.raises(TraceFormatError) as caught:
        document.loads(json.dumps(plain))
    assert said in str(caught.value)


def test_keys_of_later_versions_are_passed_over() -> None:
    plain = as_read(gpu_run())
    plain["of_a_later_version"] = {}
    plain["findings"][0]["effort"] = "small"
    assert document.loads(json.dumps(plain)) == gpu_run()


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceFormatError, match="not UTF-8"):
        document.load(path)


@pytest.mark.parametrize("build", EXAMPLES.values(), ids=EXAMPLES)
def test_text_is_stable(build: Callable[[], model.Report]) -> None:
    assert document.dumps(build()) == document.dumps(build())


def test_records_are_frozen() -> None:
    run = gpu_run()
    with pytest.raises(AttributeError):
        run.schema_version = 2  # type: ignore[misc]
    assert replace(run, health=[]).health == ()
