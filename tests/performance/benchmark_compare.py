"""How often two captures of one program are told apart.

Run as `python -m tests.performance.benchmark_compare`. Prints the changes that `compare` sees
between twenty pairs of captures of one program, one after the other on an emulated GPU. At most one
may be seen (95 %).
"""

import tempfile
from pathlib import Path

from tests.compare.test_compare import PROGRAM, captured
from traceanalyzer.compare.differences import compare

PAIRS = 20


def main() -> None:
    """Capture and compare; print one line for each pair."""
    seen = 0
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(PAIRS):
            runs = [captured(PROGRAM, Path(folder, f"{pair}-{side}")) for side in "ab"]
            found = compare(*runs)
            change = found.step_time
            assert change is not None
            others = {each.kind for each in found.differences}
            seen += change.is_seen or bool(others)
            print(f"{change.new_us / change.base_us - 1:+.1%}: {change} {sorted(others)}")
    print(f"{PAIRS - seen} of {PAIRS} without a difference")


if __name__ == "__main__":
    main()
