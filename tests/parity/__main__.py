"""Shows whether a change of the code changes the meaning of reports.

    python -m tests.parity record FOLDER [CAPTURES...]  # before the change, and after it
    python -m tests.parity BASE NEW                     # print the differences of two folders

It records the documents of all samples, of the corpus, and of all log directories in folders of
captures, such as those that `python -m tests.twin --table` keeps. `reasons.toml` lists the
differences that are wanted. If there are others, the exit code is 1.
"""

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.parity.documents import record
from tests.parity.meaning import Difference, differences, facts

__all__ = ["compare", "main"]

_REASONS = Path(__file__).with_name("reasons.toml")
_SHOWN = 20  # differences of a document


def compare(base: Path, new: Path) -> Iterator[tuple[str, list[Difference]]]:
    """Yield the name and differences of each document in either folder."""
    for name in sorted({file.name for folder in (base, new) for file in folder.glob("*.json")}):
        both = [_facts(folder / name) for folder in (base, new)]
        yield name.removesuffix(".json"), differences(*both)


def _facts(file: Path) -> dict[str, object]:
    return facts(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def main(arguments: Sequence[str]) -> int:
    """Record, or compare and print; return the exit code."""
    if arguments[:1] == ["record"]:
        destination, *captures = map(Path, arguments[1:])
        for name in record(destination, captures):
            print(name)
        return 0
    base, new = map(Path, arguments)
    reasons = tomllib.loads(_REASONS.read_text(encoding="utf-8")).get("reason", [])
    wanted: Counter[str] = Counter()
    left = 0
    for name, found in compare(base, new):
        unexplained = []
        for each in found:
            where = f"{name}/{each.path}"
            because = next((r["because"] for r in reasons if re.search(r["where"], where)), None)
            if because is None:
                unexplained.append(each)
            else:
                wanted[because] += 1
        left += len(unexplained)
        for each in unexplained[:_SHOWN]:
            print(f"{name}: {each.path}: {each.base!r} -> {each.new!r}")
        if len(unexplained) > _SHOWN:
            print(f"{name}: and {len(unexplained) - _SHOWN:,} more")
    for because, count in wanted.items():
        print(f"{count:,} wanted: {because}")
    print(f"{left:,} differences without a reason")
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
