"""Reads TensorFlow's version and recorded graphs from the events files beside a profile.

A trace does not record the TensorFlow version, but a graph in an events file has a producer number.
TensorFlow increments this number every day, and each release has a fixed number.
"""

import os
import re
import struct
from bisect import bisect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from traceanalyzer.format import printable
from traceanalyzer.trace.discovery import RunFiles, time_in_name
from traceanalyzer.trace.message import BrokenMessageError, Message, as_bytes

# TF_GRAPH_DEF_VERSION in each release's `core/public/version.h`; patch releases keep it. Releases
# 2.1 and 2.2 share a number.
_PRODUCERS: Final = {
    119: "2.0", 175: "2.1 or 2.2", 440: "2.3", 561: "2.4", 716: "2.5", 808: "2.6", 898: "2.7",
    987: "2.8", 1087: "2.9", 1205: "2.10", 1286: "2.11", 1395: "2.12", 1482: "2.13", 1575: "2.14",
    1645: "2.15", 1766: "2.16", 1882: "2.17", 1994: "2.18", 2129: "2.19", 2288: "2.20",
    2474: "2.21",
}  # fmt: skip
_PRODUCER_OF_1_15: Final = 134  # cut after 2.0

# The graph is among the first records; gigabytes of metrics can follow it in a long training.
MAX_RECORDS: Final = 64
MAX_RECORD_BYTES: Final = 128 << 20  # of all records of a file that are read
MAX_FILES: Final = 16
MAX_GRAPH_RECORDS: Final = 32  # of a file
MAX_SCANNED: Final = 200_000  # records of a file
_SMALLEST_GRAPH_BYTES: Final = 300  # records of metrics are smaller, and skipped
MAX_ENTRIES: Final = 10_000  # of a directory

_HEADER: Final = struct.Struct("<QI")  # a record's length, and that length's checksum
_CHECKSUM_BYTES: Final = 4
_GRAPH_DEF, _VERSIONS, _PRODUCER = 4, 4, 1  # fields of Event, GraphDef and VersionDef
# Fields of Event, Summary, Summary.Value, SummaryMetadata, its PluginData, and TensorProto.
_SUMMARY, _VALUE, _METADATA, _PLUGIN_DATA, _PLUGIN_NAME = 5, 1, 9, 1, 1
_TENSOR, _STRING_VAL = 8, 8
_RUN_METADATA_GRAPH: Final = "graph_run_metadata_graph"
_EVENTS_FILE: Final = re.compile(r"events\.out\.tfevents\.(\d{1,12})\..*")


@dataclass(frozen=True, kw_only=True)
class VersionSighting:
    """The TensorFlow version of a run."""

    value: str  #: a release, `2.4`, or what is known: `2.1 or 2.2`, `between 2.4 and 2.5`
    source: str  #: where it was read


def tf_version(run: RunFiles) -> VersionSighting | None:
    """Return the TensorFlow version in the events file nearest in time to a run, or None.

    If the run's name has no time and files disagree, return all versions.
    """
    found = [(producer, file) for file in _nearest_files(run) if (producer := _producer(file))]
    if not found:
        return None
    producer, file = found[0]
    versions = list(dict.fromkeys(version_of_producer(producer) for producer, _ in found))
    if len(versions) > 1 and not time_in_name(run.path.name):
        source = f"GraphDef producers in {len(found)} events files that disagree"
        return VersionSighting(value=" or ".join(versions), source=source)
    source = f"GraphDef producer {producer} in {printable(file.name)}"
    return VersionSighting(value=versions[0], source=source)


def _nearest_files(run: RunFiles) -> list[Path]:
    """Return the events files beside a run, nearest to the time in its name (if any) first."""
    recorded = time_in_name(run.path.name)
    files = sorted(
        _events_files(run.path),
        key=lambda f: (abs(f[0] - recorded) if recorded else -f[0], str(f[1])),
    )
    return [file for _, file in files[:MAX_FILES]]


def version_of_producer(producer: int) -> str:
    """Return the release whose graphs have this producer number, or the two nearest releases."""
    if producer in _PRODUCERS:
        return _PRODUCERS[producer]
    if producer == _PRODUCER_OF_1_15:
        return "1.15"
    releases, at = [*_PRODUCERS.values()], bisect([*_PRODUCERS], producer)
    if 0 < at < len(releases):
        return f"between {releases[at - 1].split()[-1]} and {releases[at].split()[0]}"
    return f"after {releases[-1]}" if at else f"before {releases[0]}"


def _events_files(run: Path) -> Iterator[tuple[int, Path]]:
    """Yield the time and path of each events file that the run's program may have written."""
    run = Path(os.path.abspath(run))  # noqa: PTH100 - links are kept as they are
    log = run.parents[2] if run.parts[-3:-1] == ("plugins", "profile") else run
    roots = [log, log.parent] if log.name in {"train", "validation"} else [log]
    # Keras splits a log directory.
    for folder in dict.fromkeys(r / part for r in roots for part in ("", "train", "validation")):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                match = _EVENTS_FILE.fullmatch(entry.name)
                # Files that only mark a profile have no graph.
                if match and not entry.name.endswith(".profile-empty") and entry.is_file():
                    yield int(match[1]), folder / entry.name


def _producer(file: Path) -> int | None:
    with suppress(BrokenMessageError):
        for record in islice(_records(file), MAX_RECORDS):
            graph = Message(record).message(_GRAPH_DEF)
            if producer := graph.message(_VERSIONS).number(_PRODUCER):
                return producer
    return None


def recorded_graphs(run: RunFiles) -> Iterator[tuple[Path, memoryview, bool]]:
    """Yield the file and bytes of each graph in the events files beside a run, nearest file first.

    Each comes with a flag: True for a RunMetadata (`run_metadata_graph`,
    python/ops/summary_ops_v2.py), False for a GraphDef.
    """
    for file in _nearest_files(run):
        with suppress(BrokenMessageError):
            for record in islice(_records(file, _SMALLEST_GRAPH_BYTES), MAX_GRAPH_RECORDS):
                event = Message(record)
                for graph in event.every(_GRAPH_DEF):
                    yield file, as_bytes(graph), False
                for value in event.message(_SUMMARY).every(_VALUE):
                    plugin = Message(value).message(_METADATA).message(_PLUGIN_DATA)
                    if plugin.text(_PLUGIN_NAME) == _RUN_METADATA_GRAPH:
                        for data in Message(value).message(_TENSOR).every(_STRING_VAL):
                            yield file, as_bytes(data), True


def _records(file: Path, least_bytes: int = 1) -> Iterator[bytes]:
    """Yield an events file's records of at least `least_bytes`, up to a limit.

    The last record of a file that is being written can be incomplete.
    """
    left_bytes = MAX_RECORD_BYTES
    with suppress(OSError), file.open("rb") as stream:
        for _ in range(MAX_SCANNED):
            header = stream.read(_HEADER.size)
            length = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else 0
            left_bytes -= length if length >= least_bytes else 0
            if not length or left_bytes < 0:
                return
            if length < least_bytes:
                stream.seek(length + _CHECKSUM_BYTES, os.SEEK_CUR)
                continue
            record = stream.read(length + _CHECKSUM_BYTES)
            if len(record) < length:
                return
            yield record[:length]
