"""Lists the words that readers stumble over, and identifiers that have a better name.

    python -m tests.architecture.prose [PATH...]  # default: the product and the Markdown files

Searched are comments, docstrings and strings of Python, and the whole text of templates, scripts,
styles, C and data. Identifiers are searched where they are defined. The exit code is 1 if anything
was found.
"""

import ast
import io
import re
import string
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.architecture.toolchain import ROOT

DOCUMENTS: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SUFFIXES: Final = frozenset({".py", ".html", ".js", ".ts", ".css", ".c", ".h", ".toml", ".md"})

# A pattern, and what to write instead.
WORDS: Final = (
    (r"told", "known, recorded, reported"),
    (r"tells (of|apart|that|what|which|whether|how|where|nothing|no)", "shows, records"),
    (r"tell (of|apart)", "show, distinguish"),
    (r"tell nothing|does not tell|do not tell|cannot tell|nothing tells", "does not show; unknown"),
    (r"that which|what of|whatever of", "name the thing"),
    (r"of which (?:is|are|was|were|it|they|there|nothing|something|nobody|no|only|the)\b", "whose"),
    (r"(?<!there\x20)(?:is|are|was|be) none(?! of)", "it is not a ..., there is no ..."),
    (r"bears?\b(?! in mind)|borne|bore", "has, carries, confirms"),
    (r"stands?(?! for| alone| still| out| by)", "is"),
    (r"anew", "again"),
    (r"likewise|(?:so|nor) (?:does|do|is|are) it", "also"),
    (r"kin|akin", "related"),
    (r"whoever|whomever", "the caller, users who"),
    (r"dearest", "most expensive"),
    (r"mend(?:s|ed|ing)?", "fix"),
    (r"fore(?:tell|tells|told|telling)", "predict"),
    # Anything else, who else, or else, ... are fine. \x20 is a space: other spaces match several.
    (
        "".join(
            rf"(?<!{word}\x20)" for word in ("thing", "one", "body", "where", "who", "what", "or")
        )
        + r"else(?=[.;,:)])",
        "otherwise, by default",
    ),
    (r"whence|thence|whereof|whereby|wherein|thereof|therein|therefrom|thereto", "say it"),
    (r"aught|naught|nought|lest|betwixt|amidst|forthwith|heretofore|hitherto", "plain words"),
    (r"as yet|of late|at once\b(?= where)|ere", "yet, recently"),
    (r"makes? out of it|made out of it|is made of it", "say what happens"),
    (r"does no harm|do no harm|takes? (?:the|its|a) mark away", "harmless; clear"),
    (r"needs? no saying|has no (?:word|words) for", "say it plainly"),
)
# Parts of names, between underscores, and whole names of classes and modules.
PARTS: Final = {
    "beliefs": "myths",
    "cure": "fix",
    "dearest": "most_expensive",
    "dispatches": "program_calls",
    "islands": "round_trips",
    "occasions": "transfer_steps",
    "recognises": "match",
    "sidecar": "capture_file",
    "sightings": "op_occurrences",
    "storms": "small_transfers",
    "told": "known",
    "untold": "unknown",
}
WHOLE: Final = {
    "By": "BlockerKind",
    "Case": "PlacementExplanation",
    "Cure": "Fix",
    "Doing": "ThreadState",
    "EagerBlocker": "Blocker",
    "Held": "Blocker",
    "Hold": "Blocker",
    "Lanes": "ThreadActivity",
    "Mark": "CauseMatch",
    "Removal": "BlockerKind",
    "Sightings": "OpOccurrences",
    "Subject": "CpuOp",
    "Way": "Instance",
    "Words": "FindingText",
    "asked": "requested_device",
    "held": "blocked_by",
    "read_backs": "device_to_host_syncs",
    "way": "instance",
}
# Folders of other people's code, and of what is built.
OTHERS: Final = frozenset({"vendor", "static", "__pycache__"})
# Its names are those of `report.json`, which change with the schema.
DOCUMENT: Final = "traceanalyzer/model"

# Without what must not precede a word, and in lower case: then the search is much faster.
_PATTERNS: Final = tuple(
    (re.compile(rf"(?:{pattern.replace(' ', ' +')})(?![\w-])"), better) for pattern, better in WORDS
)
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Most files have none of the names, and need not be parsed.
_NAMED: Final = re.compile(
    rf"(?<![A-Za-z])(?:(?i:{'|'.join(PARTS)})|{'|'.join(WHOLE)})(?![A-Za-z])"
)
_IN_A_WORD: Final = re.compile(r"[\w-]")
_STRINGS: Final = frozenset(
    kind
    for name in ("STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if (kind := getattr(tokenize, name, None)) is not None
)
_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")
_NONE_OF_JINJA: Final = re.compile(r"\bis (not )?none\b(?=[^{}\n]*[%}]\})")
_MARKER: Final = re.compile(r"\\n|[\"'`]{3}|[\"']|(?<= )(?:#:?|//|\*|-->|<!--)(?= )")


def sources(paths: Sequence[Path] = ()) -> list[Path]:
    """Return the files to search: those given or in the given folders, or all of the product."""
    given = paths or [ROOT / "traceanalyzer", *(ROOT / name for name in DOCUMENTS)]
    found = [file for path in given for file in (path.rglob("*") if path.is_dir() else [path])]
    return sorted(
        f
        for f in found
        if f.suffix in SUFFIXES and f.parent.name not in OTHERS and "node_modules" not in f.parts
    )


def complaints_about(file: Path) -> list[str]:
    """Return `file:line: word: what to write instead` for each word and name to be avoided."""
    text = file.read_text(encoding="utf-8")
    name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)
    prose = _prose_of_python(text) if file.suffix == ".py" else _blanked(_NONE_OF_JINJA, text)
    # Of the same length as the text, so that positions are the same, and all on one line.
    flat = _blanked(_MARKER, prose.replace("\n", " "))
    lower = flat.translate(_LOWER)
    found = [
        (text.count("\n", 0, match.start()) + 1, word, better)
        for pattern, better in _PATTERNS
        for match in pattern.finditer(lower)
        if not _IN_A_WORD.match(flat, max(match.start() - 1, 0), match.start())
        if not (word := " ".join(flat[slice(*match.span())].split())).endswith("None")
    ]
    if file.suffix == ".py" and not name.startswith(DOCUMENT):
        found += _names(ast.parse(text)) if _NAMED.search(text) else ()
        found += [(1, file.stem, better) for part, better in PARTS.items() if part == file.stem]
    return [f"{name}:{line}: {word}: {better}" for line, word, better in sorted(found)]


def _prose_of_python(text: str) -> str:
    """Return the text with everything but comments and strings blotted out."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    kept = list(re.sub(r"\S", "\0", text))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _STRINGS or token.type == tokenize.COMMENT:
            begin = starts[token.start[0] - 1] + token.start[1]
            string = token.string
            if token.type != tokenize.COMMENT and "f" in string[:2].lower():
                string = _blanked(_PLACEHOLDER, string)
            kept[begin : begin + len(string)] = string.replace("#", " ", 1)
    return "".join(kept)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: " " * len(match[0]), text)


def _names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and better name of what a module defines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        bare = name.strip("_")
        better = WHOLE.get(bare) or next(
            (PARTS[part] for part in bare.lower().split("_") if part in PARTS), None
        )
        if better is not None:
            yield node.lineno, name, better


def main(arguments: Sequence[str]) -> int:
    """Print what is found; return the exit code."""
    found = [
        line
        for file in sources([Path(argument).resolve() for argument in arguments])
        for line in complaints_about(file)
    ]
    print("\n".join([*found, f"{len(found)} found"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
