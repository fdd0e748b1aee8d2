"""The table of common claims is what traceanalyzer says today."""

import pytest

from tests.claims.table import DOCUMENT, document


@pytest.mark.slow  # captures the programs on an emulated GPU
def test_the_table_of_common_claims_is_up_to_date() -> None:
    assert document() == DOCUMENT.read_text(encoding="utf-8")
