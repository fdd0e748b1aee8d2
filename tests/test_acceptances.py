from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from traceanalyzer.acceptances import Acceptance, load_acceptances
from traceanalyzer.errors import AcceptancesError, TraceAnalyzerError

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, content: Any) -> Path:  # noqa: ANN401 - whatever JSON holds
    path = folder / "acceptances.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_acceptances_are_read_in_their_order(tmp_path: Path) -> None:
    entries = [
        {"id": "b2", "reason": "Strings live on the host.", "until": None},
        {"id": "a1", "reason": "After the release.", "until": "2027-01-31"},
        {"id": "c3", "reason": "No end is given."},
    ]
    assert load_acceptances(written(tmp_path, entries)) == (
        Acceptance(id="b2", reason="Strings live on the host."),
        Acceptance(id="a1", reason="After the release.", until=date(2027, 1, 31)),
        Acceptance(id="c3", reason="No end is given."),
    )
    assert load_acceptances(written(tmp_path, [])) == ()


def test_an_acceptance_holds_on_its_last_day_and_no_longer() -> None:
    accepted = Acceptance(id="a1", reason="why", until=date(2027, 1, 31))
    assert not accepted.has_expired(date(2027, 1, 31))
    assert accepted.has_expired(date(2027, 2, 1))
    assert not Acceptance(id="a1", reason="why").has_expired(date(9999, 12, 31))


GOOD = {"id": "a1", "reason": "why", "until": None}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no JSON"),
        ({"id": "a1", "reason": "why"}, "holds no list"),
        (["a1"], "entry 1: not an object"),
        ([GOOD, {"id": "b"}], "entry 2: no reason"),
        ([{**GOOD, "untill": "2027-01-31"}], "unknown key 'untill'"),
        ([{**GOOD, "reason": "  "}], "its reason is not a text, or an empty one"),
        ([{**GOOD, "until": "31.1.2027"}], "until '31.1.2027' is no day"),
        ([{**GOOD, "until": "2027-02-30"}], "is no day"),
        ([{**GOOD, "until": 20270131}], "until 20270131 is no day"),
        ([GOOD, GOOD], "entry 2: 'a1' stands there twice"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path,
    content: Any,  # noqa: ANN401
    said: str,
) -> None:
    with pytest.raises(AcceptancesError) as raised:
        load_acceptances(written(tmp_path, content))
    message = str(raised.value)
    assert said in message
    assert "acceptances.json" in message
    assert "\n" not in message
    assert isinstance(raised.value, TraceAnalyzerError)


def test_a_file_that_is_not_there_or_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(AcceptancesError, match=r"cannot read .*No such file"):
        load_acceptances(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AcceptancesError, match="is no JSON"):
        load_acceptances(tmp_path / "bytes.json")
