"""Where the traces recorded by others lie, for tests that are skipped where they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus of recorded traces (../shared/corpus) is not here"
)
