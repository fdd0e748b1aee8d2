"""The source satisfies its linters and its type checker; their output is the failure message."""

import pytest

from tests.architecture.toolchain import LINT_IMPORTS, complaints


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("-m", "ruff", "check", "."), id="ruff check"),
        pytest.param(("-m", "ruff", "format", "--check", "."), id="ruff format"),
        pytest.param(("-m", "mypy"), id="mypy", marks=pytest.mark.slow),
        pytest.param(LINT_IMPORTS, id="lint-imports"),
    ],
)
def test_has_nothing_to_complain_of(arguments: tuple[str, ...]) -> None:
    found = complaints(*arguments)
    assert not found, found
