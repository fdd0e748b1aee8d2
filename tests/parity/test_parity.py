"""The comparison of documents sees what a reader would, and nothing else."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.parity.__main__ import main
from tests.parity.meaning import differences, facts
from tests.samples import REPORTS


@pytest.fixture
def document() -> Any:  # noqa: ANN401 - JSON
    return json.loads((REPORTS / "recommender" / "report.json").read_text(encoding="utf-8"))


def changed(document: Any, change: Callable[[Any], object]) -> list[str]:  # noqa: ANN401
    other = copy.deepcopy(document)
    change(other)
    return [each.path for each in differences(facts(document), facts(other))]


def test_other_words_in_another_order_mean_the_same(document: Any) -> None:  # noqa: ANN401
    def change(other: Any) -> None:  # noqa: ANN401
        other["summary"]["verdict"] = "Other words."
        other["findings"][0]["title"] = "Others"
        other["rules"].reverse()

    assert changed(document, change) == []


def test_another_certainty_does_not(document: Any) -> None:  # noqa: ANN401
    (path,) = changed(document, lambda other: other["findings"][0].update(certainty="possible"))
    assert path.startswith("findings/")
    assert path.endswith("/certainty")


def test_an_op_that_is_gone_is_one_difference(document: Any) -> None:  # noqa: ANN401
    rows = document["tables"]["ops"]["rows"]
    (path,) = changed(document, lambda other: other["tables"]["ops"]["rows"].pop())
    assert path.startswith(f"tables/ops/{rows[-1][0]}")


def test_the_exit_code_tells(document: Any, tmp_path: Path) -> None:  # noqa: ANN401
    for folder, steps in (("base", 1), ("same", 1), ("other", 2)):
        (tmp_path / folder).mkdir()
        document["run"]["steps"] = steps
        (tmp_path / folder / "a.json").write_text(json.dumps(document), encoding="utf-8")

    assert main([str(tmp_path / "base"), str(tmp_path / "same")]) == 0
    assert main([str(tmp_path / "base"), str(tmp_path / "other")]) == 1
