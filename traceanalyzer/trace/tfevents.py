"""Tells the TensorFlow version from the events files that lie beside a profile.

A trace does not say which TensorFlow wrote it. The graph that Keras and `tf.summary` write into
events files does: TensorFlow raises the number of its graph producer every day, and a release keeps
the number of the day it was cut.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.trace.discovery import time_in_name
from traceanalyzer.trace.message import BrokenMessageError, fields
from traceanalyzer.trace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.trace.discovery import RunFiles


# TF_GRAPH_DEF_VERSION of each release's `core/public/version.h`; its patches keep it. Releases 2.1
# and 2.2 share a number, and 1.15 was cut after 2.0.
_PRODUCERS: Final = {
    119: "2.0",
    175: "2.1 or 2.2",
    440: "2.3",
    561: "2.4",
    716: "2.5",
    808: "2.6",
    898: "2.7",
    987: "2.8",
    1087: "2.9",
    1205: "2.10",
    1286: "2.11",
    1395: "2.12",
    1482: "2.13",
    1575: "2.14",
    1645: "2.15",
    1766: "2.16",
    1882: "2.17",
    1994: "2.18",
    2129: "2.19",
    2288: "2.20",
    2474: "2.21",
}
_PRODUCER_OF_1_15: Final = 134

# The graph is among the first records; files of long trainings hold gigabytes of metrics after it.
MAX_RECORDS: Final = 64
MAX_RECORD_BYTES: Final = 128 << 20
MAX_FILES: Final = 16
MAX_ENTRIES: Final = 10_000  # of a directory

_HEADER: Final = struct.Struct("<QI")  # a record's length, and that length's checksum
_CHECKSUM_BYTES: Final = 4
_GRAPH_DEF, _VERSIONS, _PRODUCER = 4, 4, 1  # fields of Event, GraphDef and VersionDef
_EVENTS_FILE: Final = re.compile(r"events\.out\.tfevents\.(\d{1,12})\..*")


@dataclass(frozen=True, kw_only=True)
class TfVersion:
    """The TensorFlow version of a run.

    Attributes:
        value: A release ("2.4"), or what is known of it ("2.1 or 2.2", "between 2.4 and 2.5").
        source: Where that was read.
    """

    value: str
    source: str


@dataclass(frozen=True, kw_only=True)
class _Sighting:
    """A graph's producer, and the events file it was read from."""

    producer: int
    file: Path
    created: int


def tf_version(run: RunFiles) -> TfVersion | None:
    """Return the TensorFlow version in the events files beside the run, or None.

    Where files disagree, as after an upgrade, the one begun nearest to the run's time counts, if
    the run's name contains that time; otherwise all versions found are named.
    """
    recorded = time_in_name(run.path.name)
    files = sorted(
        _events_files(run.path),
        key=lambda f: (abs(f[0] - recorded) if recorded else -f[0], str(f[1])),
    )
    seen = [
        _Sighting(producer=producer, file=file, created=created)
        for created, file in files[:MAX_FILES]
        if (producer := _producer(file)) is not None
    ]
    if not seen:
        return None
    versions = list(dict.fromkeys(version_of_producer(s.producer) for s in seen))
    source = f"GraphDef producer {seen[0].producer} in {printable(seen[0].file.name)}"
    if len(versions) == 1:
        return TfVersion(value=versions[0], source=source)
    if recorded:
        return TfVersion(
            value=versions[0],
            source=f"{source}, the nearest in time of {len(seen)} events files that disagree",
        )
    return TfVersion(
        value=" or ".join(versions),
        source=f"GraphDef producers in {len(seen)} events files that disagree",
    )


def version_of_producer(producer: int) -> str:
    """Return the release whose graphs have this number, or the releases it lies between."""
    if producer in _PRODUCERS:
        return _PRODUCERS[producer]
    if producer == _PRODUCER_OF_1_15:
        return "1.15"
    known = list(_PRODUCERS)
    for low, high in pairwise(known):
        if low < producer < high:
            below, above = _PRODUCERS[low].split()[-1], _PRODUCERS[high].split()[0]
            return f"between {below} and {above}"
    if producer < known[0]:
        return f"before {_PRODUCERS[known[0]]}"
    return f"after {_PRODUCERS[known[-1]]}"


def _events_files(run: Path) -> Iterator[tuple[int, Path]]:
    """Yield time of creation and path of the events files that may be of this run's program."""
    for directory in _directories(run):
        try:
            with os.scandir(directory) as entries:
                for entry in islice(entries, MAX_ENTRIES):
                    match = _EVENTS_FILE.fullmatch(entry.name)
                    # Those that only mark a profile have no graph.
                    if match and not entry.name.endswith(".profile-empty") and entry.is_file():
                        yield int(match[1]), directory / entry.name
        except OSError:
            continue


def _directories(run: Path) -> list[Path]:
    """Return the run's log directory and those that Keras splits it into."""
    run = Path(os.path.abspath(run))  # noqa: PTH100 - links are kept as they are
    log = run.parents[2] if run.parts[-3:-1] == ("plugins", "profile") else run
    roots = [log, log.parent] if log.name in {"train", "validation"} else [log]
    found = [d for root in roots for d in (root, root / "train", root / "validation")]
    return list(dict.fromkeys(found))


def _producer(file: Path) -> int | None:
    """Return the producer of the first graph in an events file."""
    try:
        with file.open("rb") as stream:
            for _ in range(MAX_RECORDS):
                header = stream.read(_HEADER.size)
                if len(header) < _HEADER.size:
                    return None
                length, _ = _HEADER.unpack(header)
                if length > MAX_RECORD_BYTES:
                    return None
                record = stream.read(length + _CHECKSUM_BYTES)[:length]
                if producer := _producer_of_event(memoryview(record)):
                    return producer
    except OSError:
        return None
    return None


def _producer_of_event(event: memoryview) -> int | None:
    message = event
    for wanted in (_GRAPH_DEF, _VERSIONS):
        inner = _field(message, wanted)
        if not isinstance(inner, memoryview):
            return None
        message = inner
    producer = _field(message, _PRODUCER)
    return producer if isinstance(producer, int) else None


def _field(message: memoryview, wanted: int) -> int | memoryview | None:
    try:
        return next((value for number, value, _ in fields(message) if number == wanted), None)
    except BrokenMessageError:
        return None
