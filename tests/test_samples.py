"""What the tool says of the sample traces: as committed, and as each `case.toml` expects."""

import base64
import difflib
import json
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import traceanalyzer
from tests.samples import CASES, COMMAND, FILES, REPORTS, Case
from traceanalyzer import Run

# Base64 of what zlib wrote, as `traceanalyzer.report.packed` does.
PACKED = re.compile(rb"\beN[\w+/]{40,}={0,2}")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports, made anew."""
    folder = tmp_path_factory.mktemp("reports")
    for case in CASES:
        case.write(folder / case.name)
    return folder


@cache
def run_of(case: Case) -> Run:
    return traceanalyzer.load(case.logs)


def first_difference(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "committed", "made", n=0)
    return "\n".join(line[:200] for line, _ in zip(lines, range(12), strict=False))


def opened(text: bytes) -> bytes:
    """The text with its packed tables opened: not every zlib deflates to the same bytes."""
    return PACKED.sub(
        lambda found: zlib.decompress(base64.b64decode(found[0])).hex("\n", 40).encode(), text
    )


@every_case
@pytest.mark.parametrize("file", FILES)
def test_report_is_the_committed_one(case: Case, file: str, made: Path) -> None:
    committed = REPORTS / case.name / file
    again = f"make it with: {COMMAND}"
    assert committed.is_file(), f"reports/{case.name}/{file} is not there; {again}"
    old, new = map(opened, (committed.read_bytes(), (made / case.name / file).read_bytes()))
    if old != new:
        difference = first_difference(old.decode(), new.decode())
        pytest.fail(f"reports/{case.name}/{file} is out of date; {again}\n{difference}")


@every_case
def test_report_names_no_folder_of_the_machine(case: Case, made: Path) -> None:
    for file in FILES:
        text = (made / case.name / file).read_bytes()
        tables = [zlib.decompress(base64.b64decode(found)) for found in PACKED.findall(text)]
        for part in (text, *tables):
            assert str(case.logs.parent).encode() not in part
            assert str(made).encode() not in part


@every_case
def test_finds_the_expected_causes(case: Case, made: Path) -> None:
    document: dict[str, Any] = json.loads((made / case.name / "report.json").read_text())
    expected = case.expected()
    assert {finding["cause"] for finding in document["findings"]} == set(expected["causes"])
    assert document["run"]["hosts"] == expected["hosts"]
    assert document["run"]["steps"] == len(expected["steps"]["numbers"])


@every_case
def test_finds_the_expected_ops(case: Case) -> None:
    ops = run_of(case).ops
    expected = case.expected()
    eager = ops[ops["is_eager"]]
    graph = ops[~ops["is_eager"]]
    assert set(expected["eager_ops"]) <= set(eager["type"])
    assert set(expected["graph_ops"]) <= set(
        graph["name"].astype(str) + ":" + graph["type"].astype(str)
    )


@every_case
def test_finds_the_expected_steps(case: Case) -> None:
    steps = run_of(case).steps
    expected = case.expected()["steps"]
    assert steps["step"].tolist() == expected["numbers"]
    assert set(steps["name"]) == {expected["marker"]}


@pytest.mark.parametrize("case", [Case("keras_fit")], ids=lambda case: case.name)
def test_finds_the_input_pipeline_and_the_version(case: Case) -> None:
    run, expected = run_of(case), case.expected()
    events = set(run.events["name"].astype(str))
    assert set(expected["datasets"]) <= {name.partition("#")[0] for name in events}
    assert run.ops["in_input_pipeline"].any()
    assert run.version is not None
    assert str(expected["graph_def_producer"]) in run.version.source


@pytest.mark.parametrize("case", [Case("logical_devices")], ids=lambda case: case.name)
def test_finds_the_crossings_between_devices(case: Case) -> None:
    run = run_of(case)
    device = run.ops.set_index("op_id")["device"].astype(str)
    steps = len(run.steps)
    for crossing in case.expected()["crossings"]:
        found = copies_between(run, crossing["from_op"], crossing["to_op"])
        assert len(found) == steps
        assert set(found["direction"]) == {"h2h"}
        assert found["bytes"].isna().all()
        for end, place in (("producer", "from_device"), ("consumer", "to_device")):
            assert device[found[end].iloc[0]].endswith(f"/device:{crossing[place]}")


@pytest.mark.parametrize("case", [Case("recommender")], ids=lambda case: case.name)
def test_finds_the_lines_and_the_devices_that_were_asked_for(case: Case) -> None:
    ops = run_of(case).ops
    assert set(ops["source_file"].dropna()) == {f"/srv/{case.name}/{case.program.name}"}
    lines = case.program.read_text(encoding="utf-8").splitlines()
    names = ops["name"].astype(str) + ":" + ops["type"].astype(str)
    for expected in case.expected()["located"]:
        found = ops[names == expected["op"]]
        at = [lines[line - 1].strip() for line in found["source_line"]]
        assert at.count(expected["line"]) == 1, expected["op"]
        requested = found["requested_device"].astype(str).iloc[at.index(expected["line"])]
        assert requested.rpartition("device:")[2] == expected["requested"] or (
            not expected["requested"] and "device:" not in requested
        )


def copies_between(run: Run, producer: str, consumer: str) -> pd.DataFrame:
    copies = run.transfers
    return copies[(copies["producer_name"] == producer) & (copies["consumer_name"] == consumer)]
