"""Describes how a captured program was run, and how much of the run was recorded."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, Session
from traceanalyzer.format import duration_text
from traceanalyzer.units import NS_PER_S, PS_PER_S

_LITTLE_S, _LITTLE_SHARE = 2.0, 0.2  # of the time after the import of TensorFlow
_MANY, _FEW = 0.1, 0.25  # of the CPUs: taken by other processes, and idle


@dataclass(frozen=True, kw_only=True)
class RecordedPart:
    """The part of a program's run that was recorded."""

    recorded_s: float  #: duration of the recording
    program_s: float | None  #: duration of the program; None if it was killed
    is_nearly_all: bool  #: whether hardly any of its time with TensorFlow is missing

    def __str__(self) -> str:
        """Return `12 s of 50 s`, or `12 s` if the program's duration is unknown."""
        of = "" if self.program_s is None else f" of {duration_text(self.program_s * PS_PER_S)}"
        return f"{duration_text(self.recorded_s * PS_PER_S)}{of}"


def recorded_part(capture_file: CaptureFile, session: int | None) -> RecordedPart | None:
    """Return how much of the run a session recorded; None if the session's end is unknown."""
    found = None if session is None else capture_file.sessions[session]
    if found is None or found.stop_ns is None:
        return None
    recorded_s = (found.stop_ns - found.start_ns) / NS_PER_S
    program_s, is_nearly_all = None, True
    environment, devices = capture_file.environment or {}, capture_file.devices or {}
    match (environment.get("started_ns"), environment.get("attached_ns"), devices.get("ended_ns")):
        case int(start), int(ready), int(end) if start <= ready <= found.start_ns <= end:
            program_s, used_s = (end - start) / NS_PER_S, (end - ready) / NS_PER_S
            is_nearly_all = used_s - recorded_s <= max(_LITTLE_S, _LITTLE_SHARE * used_s)
    return RecordedPart(recorded_s=recorded_s, program_s=program_s, is_nearly_all=is_nearly_all)


def were_cpus_taken(session: Session) -> bool:
    """Return whether the program had to wait for CPUs that other processes used."""
    others, idle = session.others_share, session.idle_share
    return others is not None and idle is not None and others > _MANY and idle < _FEW


# --- Its command line -----------------------------------------------------------------------------
#
# Reports are shared, so secrets and the author's folders are removed. Secrets are recognized by the
# names of arguments, and by the form of well-known services' keys.

MASK: Final = "***"
_MOST: Final = 200  # words
_LONGEST: Final = 300  # characters of a word
_CUT: Final = "..."

# `--api-key`, `HF_TOKEN`, `db.password`; not `--tokenizer`, `--keys`.
_TELLING: Final = (
    r"(?i:token|password|passwd|passphrase|pwd|secrets?|credentials?|key|auth|bearer|cookie)"
    r"(?![a-z])"
)
_NAMED: Final = re.compile(
    rf"""(?P<name>[\w.-]*{_TELLING}[\w.-]*["']?\s*[:=]\s*["']?)[^\s"',;&}}]+"""
)
_NEXT: Final = re.compile(rf"--?[\w.-]*{_TELLING}[\w.-]*")  # an option whose value is the next word
_IN_URL: Final = re.compile(r"(?P<scheme>://)[^/\s@]+@")
# Of Hugging Face, GitHub, OpenAI and others, Slack, AWS; JSON web tokens; long random text.
_KEYS: Final = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|ASIA|eyJ)[\w.=-]{8,}"
    r"|\b(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{32,}"
)
_SEPARATORS: Final = re.compile(r"""([\s=,;:"'()\[\]{}]+)""")


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line, with secrets masked and very long words shortened."""
    found: list[str] = []
    is_secret = False
    for whole in words[:_MOST]:
        word = whole if len(whole) <= _LONGEST else whole[:_LONGEST] + _CUT
        is_secret = is_secret and not word.startswith("-")
        found.append(MASK if is_secret else _masked(word))
        is_secret = not is_secret and _NEXT.fullmatch(word) is not None
    return (*found, _CUT) if len(words) > _MOST else tuple(found)


def shown_command(words: Sequence[str]) -> str:
    """Return a command line for display, without secrets or the author's folders.

    Paths relative to the program's working directory are kept.
    """
    parts = (map(_last_part, _SEPARATORS.split(word)) for word in without_secrets(words))
    return " ".join(_quoted("".join(part)) for part in parts)


def _masked(word: str) -> str:
    word = _IN_URL.sub(rf"\g<scheme>{MASK}@", word)
    word = _NAMED.sub(rf"\g<name>{MASK}", word)
    return _KEYS.sub(MASK, word)


def _quoted(word: str) -> str:
    """Quote a word for the shell if needed. A mask needs no quotes, because users replace it."""
    filled_in = word.replace(MASK, "x")
    return word if shlex.quote(filled_in) == filled_in else shlex.quote(word)


def _last_part(text: str) -> str:
    path = text.replace("\\", "/")
    parts = [part for part in path.split("/") if part]
    names = [part for part in parts[:-1] if part != ".."]
    is_elsewhere = path.startswith(("/", "~")) or (".." in parts and bool(names))
    return parts[-1] if is_elsewhere and parts else text
