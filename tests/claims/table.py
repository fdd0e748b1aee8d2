"""The table of common claims: `python -m tests.claims.table` writes `docs/common-claims.md`."""

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.compare.reports import findings_of
from traceanalyzer.model import Report
from traceanalyzer.report.assemble import assemble

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs" / "common-claims.md"
_PROGRAM: Final = Path(__file__).with_name("program.py")
_CLAIMS: Final = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf-8"))["claim"]
_HEAD: Final = """# Common claims

What articles claim about TensorFlow and GPUs, and what users ask. Each row has a function of
[program.py](../tests/claims/program.py), which was captured with an emulated GPU, and what
traceanalyzer says about it. `python -m tests.claims.table` makes this table, and a test keeps it
up to date.

| claim or question | true? | program | what traceanalyzer says |
| --- | --- | --- | --- |
"""


def document() -> str:
    """Return the text of the document."""
    reports: dict[int, Report] = {}
    rows = []
    for claim in _CLAIMS:
        gpus = claim.get("gpus", 1)
        only = [] if gpus else [claim["program"]]
        if gpus not in reports:
            run = captured(_PROGRAM, *only, level=3, gpus=gpus).run()
            reports[gpus] = assemble(ta.diagnose(run))
        says = " ".join(dict.fromkeys(_answers(claim, reports[gpus])))
        assert says, claim
        rows.append(f"| {claim['text']} | {claim['is_true']} | `{claim['program']}` | {says} |\n")
    return _HEAD + "".join(rows)


def _answers(claim: dict[str, Any], report: Report) -> Iterator[str]:
    """Yield what a report says about the ops of a claim, and about its myth."""
    lines = _lines_of(claim["program"])
    findings = {op.op_id: f for f in findings_of(report).values() for op in f.ops}
    for type_ in claim.get("ops", ()):
        rows = [
            row
            for row in report.tables.ops.records()
            if row["type"].removeprefix("_Mkl") == type_
            and row["source_line"] in lines
            and row["in_input_pipeline"] == claim.get("in_input_pipeline", False)
        ]
        for row in rows:
            finding = findings.get(row["op_id"])
            where, would = (
                str(row[key]).partition(":")[0].upper()
                for key in ("placement", "predicted_placement")
            )
            if report.on_a_gpu is not None:  # why there is no GPU depends on the machine
                there = f"on a machine with a GPU, it would run on the {would}"
                yield f"{type_} runs on the {where}; {there}."
            elif finding is not None:
                yield f"{finding.title} ({finding.certainty})."
            else:
                yield f"{type_} runs on the {where} ({row['placement_certainty']})."
    for myth in report.myths:
        if myth.id == claim.get("myth"):
            said = myth.answer.partition(": ")[2]  # without figures
            yield said[0].upper() + said[1:]


def _lines_of(function: str) -> range:
    text = _PROGRAM.read_text("utf-8").splitlines()
    start = next(at for at, line in enumerate(text) if line.startswith(f"def {function}("))
    return range(
        start + 1, start + 1 + len(inspect.getblock([f"{line}\n" for line in text[start:]]))
    )


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
