"""What the launcher asks of the recorder, from the file `settings.json` in the work folder."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, NamedTuple


class Settings(NamedTuple):
    """What to record, and where to write it.

    Attributes:
        work: Folder of the journal and of TensorFlow's dumps.
        logdir: Log directory, absolute; traces go to `plugins/profile/RUN/HOST.xplane.pb` in it.
        run: Name of the run.
        host: Name of the host, as trace and capture file are named.
        host_tracer_level: Level asked for, 1 to 3.
        python_tracer_level: 0 or 1.
        device_tracer_level: 0 or 1.
        window: `{"kind": "auto"}`, `{"kind": "steps", "first", "last"}` or
            `{"kind": "time", "after_s", "for_s"}`.
    """

    work: str
    logdir: str
    run: str
    host: str
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    window: Dict[str, Any] = {"kind": "auto"}  # noqa: RUF012 - never changed

    @property
    def graphs(self) -> str:
        """Folder for TensorFlow's dumps of graphs."""
        return os.path.join(self.work, "graphs")

    @property
    def journal(self) -> str:
        """File of the journal."""
        return os.path.join(self.work, "journal.jsonl")


def read_settings(path: str) -> Settings:
    """Read the file that the launcher wrote.

    Raises:
        OSError: It cannot be read.
        ValueError, KeyError: It is not what a launcher of this version writes.
    """
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    return Settings(
        work=found["work"],
        logdir=found["logdir"],
        run=found["run"],
        host=found["host"],
        host_tracer_level=found["host_tracer_level"],
        python_tracer_level=found["python_tracer_level"],
        device_tracer_level=found["device_tracer_level"],
        window=found["window"],
    )
