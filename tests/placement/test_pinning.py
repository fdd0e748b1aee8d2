"""Whether `pin_to_host_optimization` is on, for functions and for sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capture_file.document import CaptureFile, SessionConfig
from traceanalyzer.placement.rewrites import OPTION, pinned_by

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Json

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
