"""Formats breaches as text, JSON, JUnit XML, SARIF, or GitHub Actions annotations."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from urllib.parse import quote
from xml.etree import ElementTree as ET

from traceanalyzer.format import counted, printable
from traceanalyzer.version import VERSION

if TYPE_CHECKING:  # it loads numpy, and --help must not wait
    from traceanalyzer.check.breaches import Breach

Format: TypeAlias = Literal["text", "json", "junit", "sarif", "github"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_RULES: Final = {
    "limits.step_time": "The median step takes too long",
    "limits.exposed_time_per_step": "The GPU waits too long for ops on the CPU",
    "limits.cpu_op_share": "CPU ops take too large a share of op time",
    "limits.explained_share": "Too much CPU-op time has no known cause",
    "forbidden.harmful": "A harmful finding",
    "forbidden.causes": "A finding with a forbidden cause",
    "forbidden.cpu_ops": "An op that must not be on the CPU",
    "baseline": "Worse than the baseline",
}
_SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_MOST_FILES: Final = 200_000
_SKIPPED: Final = frozenset({"node_modules", "site-packages", "__pycache__"})
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """The rules that a check applied, the breaches that it found, and its remarks."""

    path: str  # of the profile or report that was checked
    rules: tuple[str, ...]  # that were checked
    breaches: tuple[Breach, ...]
    notes: tuple[str, ...] = ()  # remarks that are no breaches


def located(found: Iterable[Breach], root: Path) -> tuple[Breach, ...]:
    """Make the breaches' file paths relative to `root` if exactly one file there matches.

    Reports omit the author's folders, but SARIF and GitHub need paths within the repository.
    """
    breaches = tuple(found)
    wanted = {each.file for each in breaches if each.file and not (root / each.file).is_file()}
    paths = _paths(wanted, root) if wanted else {}
    return tuple(replace(each, file=paths.get(each.file or "", each.file)) for each in breaches)


def _paths(wanted: set[str], root: Path) -> dict[str, str]:
    """Map each name to the path below `root` that ends with it, if there is only one."""
    fitting: dict[str, list[str]] = {name: [] for name in wanted}
    seen = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
        seen += len(files)
        if seen > _MOST_FILES:
            break
        for file in files:
            path = os.path.relpath(os.path.join(folder, file), root)  # noqa: PTH118
            for name in wanted:
                if f"/{path}".endswith(f"/{name}"):
                    fitting[name].append(path)
    return {name: paths[0] for name, paths in fitting.items() if len(paths) == 1}


def rendered(outcome: Outcome, form: Format) -> str:
    """Return the outcome of a check in one format."""
    return _RENDERERS[form](outcome)


def _text(outcome: Outcome) -> str:
    found, path = outcome.breaches, printable(outcome.path)
    notes = [f"note: {printable(each)}" for each in outcome.notes]
    if not found:
        return "\n".join([*notes, f"{path}: within all limits", ""])
    lines = [f"{_place(each, ': ')}{printable(each.message)} [{_origin(each)}]" for each in found]
    unknown = sum(each.is_unknown for each in found)
    counts = [counted(len(found) - unknown, "breach")] if unknown < len(found) else []
    counts += [f"{counted(unknown, 'limit')} cannot be checked"] if unknown else []
    return "\n".join([*lines, *notes, f"{path}: {', '.join(counts)}", ""])


def _origin(breach: Breach) -> str:
    of_finding = "" if breach.finding_id is None else f", finding {breach.finding_id}"
    return f"{breach.rule}{of_finding}"


def _place(breach: Breach, after: str) -> str:
    if breach.file is None:
        return ""
    return printable(breach.file) + ("" if breach.line is None else f":{breach.line}") + after


def _json(outcome: Outcome) -> str:
    data = {
        "checked": printable(outcome.path),
        "passed": not outcome.breaches,
        "breaches": [asdict(each) for each in outcome.breaches],
        "notes": outcome.notes,
    }
    return json.dumps(data, indent=2) + "\n"


def _junit(outcome: Outcome) -> str:
    """Return JUnit XML: one test case per rule, so that passed rules appear, too."""
    rules, path = outcome.rules, printable(outcome.path)
    of_rule = {rule: [each for each in outcome.breaches if each.rule == rule] for rule in rules}
    failed = sum(map(bool, of_rule.values()))
    counts = {"tests": str(len(rules)), "failures": str(failed), "errors": "0", "skipped": "0"}
    suites = ET.Element("testsuites", name="traceanalyzer check")
    suite = ET.SubElement(suites, "testsuite", {"name": _xml(path), "time": "0", **counts})
    for rule, breached in of_rule.items():
        case = ET.SubElement(suite, "testcase", classname="traceanalyzer", name=rule, time="0")
        if breached:
            lines = [f"{_place(each, ': ')}{each.message}" for each in breached]
            failure = ET.SubElement(case, "failure", message=_xml(lines[0]), type=rule)
            failure.text = _xml("\n".join(lines))
    if outcome.notes:
        ET.SubElement(suite, "system-out").text = _xml("\n".join(outcome.notes))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _sarif(outcome: Outcome) -> str:
    """Return SARIF 2.1.0, whose results point at lines of the user's source."""
    rules = [{"id": rule, "shortDescription": {"text": said}} for rule, said in _RULES.items()]
    driver = {"name": "traceanalyzer", "version": VERSION, "rules": rules}
    notes = [{"level": "note", "message": {"text": each}} for each in outcome.notes]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "properties": {"checked": printable(outcome.path)},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": [_result(each) for each in outcome.breaches],
    }
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _result(breach: Breach) -> dict[str, Any]:
    rule_index = list(_RULES).index(breach.rule)
    result: dict[str, Any] = {
        "ruleId": breach.rule,
        "ruleIndex": rule_index,
        "level": "error",
        "message": {"text": breach.message},
    }
    if breach.file is not None:
        uri = quote(breach.file.encode("utf-8", "replace"))
        location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
        if breach.line is not None:
            location["region"] = {"startLine": max(1, breach.line)}
        result["locations"] = [{"physicalLocation": location}]
    if breach.finding_id is not None:
        result["partialFingerprints"] = {"findingId/v1": breach.finding_id}
    return result


def _github(outcome: Outcome) -> str:
    """Return workflow commands, which GitHub Actions shows at the lines they name."""
    lines = [f"::warning title=traceanalyzer check::{_escaped(n)}\n" for n in outcome.notes]
    for each in outcome.breaches:
        title = "A limit cannot be checked" if each.is_unknown else _RULES[each.rule]
        place = {"file": each.file, "line": each.line, "title": title}
        known = (f"{name}={_property(value)}" for name, value in place.items() if value is not None)
        origin = f" [{_origin(each)}]"
        lines.append(f"::error {','.join(known)}::{_escaped(each.message + origin)}\n")
    return "".join(lines)


def _escaped(text: object) -> str:
    """Escape text as GitHub's runner expects, so that no name can start another command."""
    return str(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


_RENDERERS: Final = {
    "text": _text, "json": _json, "junit": _junit, "sarif": _sarif, "github": _github,
}  # fmt: skip
