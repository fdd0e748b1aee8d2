"""What the launcher requests of the recorder, from the file `settings.json` in the work folder."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple


class Settings(NamedTuple):
    """What to record, and where to write it."""

    work: str  # folder of the journal and of TensorFlow's dumps
    logdir: str  # absolute; traces go to `plugins/profile/RUN/HOST.xplane.pb` in it
    run: str
    host: str
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    # `{"kind": "auto"}`, `{"kind": "whole"}`, `{"kind": "steps", "first", "last"}` or
    # `{"kind": "time", "after_s", "for_s"}`
    window: dict[str, Any] = {"kind": "auto"}  # noqa: RUF012 - never changed

    @property
    def graphs(self) -> str:
        """Folder for TensorFlow's dumps of graphs."""
        return os.path.join(self.work, "graphs")

    @property
    def journal(self) -> str:
        """File of the journal."""
        return os.path.join(self.work, "journal.jsonl")


def read_settings(path: str) -> Settings:
    """Read the file that the launcher wrote."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    return Settings(**{name: found[name] for name in Settings._fields})
