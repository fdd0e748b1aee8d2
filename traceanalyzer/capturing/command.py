"""What is to be run: the interpreter, its options, the script or module, the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SETTINGS_VARIABLE: Final = "TRACEANALYZER_CAPTURE"

# Holds the `sitecustomize` that starts the recorder; the recorder itself is never imported here.
STARTUP: Final = Path(__file__).resolve().parent / "recorder" / "startup"

_WITH_VALUE: Final = "WX"  # options that take the rest of the word, or the next one, as their value
_WITHOUT_VALUE: Final = "bBdhiOPqRsuvVx?"
_ISOLATING: Final = {  # options of the interpreter that keep the recorder out
    "I": "isolates the interpreter",
    "E": "makes the interpreter ignore PYTHONPATH",
    "S": "keeps the interpreter from importing sitecustomize",
}
_OF_THIS_START: Final = "IEPsS"  # how this program was to be started, not the script


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the user wants to run."""

    interpreter: tuple[str, ...]
    target: str
    is_module: bool
    arguments: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The command line, as without the capture."""
        return [*self.interpreter, *self.words_of_script]

    @property
    def words_of_script(self) -> list[str]:
        """What follows the interpreter and its options."""
        target = ["-m", self.target] if self.is_module else [self.target]
        return [*target, *self.arguments]

    @property
    def sources(self) -> tuple[Path, ...]:
        """Where its code may lie; for a module, below the working directory only."""
        if self.is_module:
            path = self.target.replace(".", "/")
            return Path(f"{path}.py"), Path(path, "__main__.py")
        return Path(self.target), Path(self.target) / "__main__.py"

    def check(self) -> None:
        """Refuse early what the interpreter could only refuse as well."""
        if self.is_module or self.target == "-":
            return
        script = Path(self.target)
        try:
            mode = script.stat().st_mode
        except OSError as error:
            reason = (error.strerror or "it cannot be read").lower()
            msg = f"{script}: {reason}; name a Python script, or a module with -m"
            raise TraceAnalyzerError(msg) from None
        if stat.S_ISDIR(mode) and not (script / "__main__.py").exists():
            msg = f"{script}: this is a folder without __main__.py; name a Python script"
            raise TraceAnalyzerError(msg)


def interpreter(command: str | None) -> tuple[str, ...]:
    """Return the words that start the interpreter; by default this one, with its own options."""
    if command is None:
        return (sys.executable, *_own_options(sys.orig_argv[1:]))
    try:
        words = [command] if Path(command).is_file() else shlex.split(command)
    except ValueError as error:
        msg = f"--python {command}: {str(error).lower()}"
        raise TraceAnalyzerError(msg) from None
    if not words:
        msg = "--python: name an interpreter, or leave the option out"
        raise TraceAnalyzerError(msg)
    found = shutil.which(words[0])
    if found is None:
        path = Path(words[0])
        reason = "this cannot be executed" if path.exists() else "there is no such interpreter"
        msg = f"--python {words[0]}: {reason}; name the python of the script's environment"
        raise TraceAnalyzerError(msg)
    return (found, *words[1:])


def _own_options(words: Sequence[str]) -> list[str]:
    """Return the interpreter options at the front of a command line that the script shares."""
    options = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--check-hash-based-pycs"):
            options += [word] if "=" in word else [word, next(rest, "default")]
            continue
        if not word.startswith("-") or word.startswith("--") or len(word) == 1:
            break
        kept = ""
        for index, letter in enumerate(word[1:], 1):
            if letter in _WITH_VALUE:
                value = word[index + 1 :] or next(rest, "")
                options += [f"-{letter}{value}"]
                break
            if letter in "mc":
                return options + ([f"-{kept}"] if kept else [])
            kept += "" if letter in _OF_THIS_START else letter
        if kept:
            options.append(f"-{kept}")
    return options


def obstacle(words: Sequence[str]) -> str | None:
    """Return what keeps the recorder out of an interpreter, as part of a sentence, or None."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word.startswith("--"):
            continue
        for index, letter in enumerate(word[1:], 1):
            if letter in _ISOLATING:
                return f"-{letter} {_ISOLATING[letter]}"
            if letter in _WITH_VALUE:
                if not word[index + 1 :]:
                    next(rest, None)
                break
            if letter not in _WITHOUT_VALUE:
                break  # no interpreter option: the word belongs to a command around it
    return None


def environment(variables: Mapping[str, str], settings: Path) -> dict[str, str]:
    """Return the environment in which the interpreter starts the recorder, which puts it back."""
    path = variables.get("PYTHONPATH")
    return {
        **variables,
        "PYTHONPATH": f"{STARTUP}{os.pathsep}{path}" if path else str(STARTUP),
        SETTINGS_VARIABLE: str(settings),
    }
