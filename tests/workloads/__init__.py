"""Programs that the placer replay is scored on, written before the replay was run on any of them.

Each is a small model or tool as a user writes it: a script of a few seconds that draws the same
numbers at every run. A fault that one shows is fixed in the replay, never here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Workload:
    """One program."""

    name: str  #: the file's stem
    gpus: int = 1
    #: The op type that an emulated GPU cannot compute: once TensorFlow has placed its function, the
    #: program ends with an error. "" for none.
    stops: str = ""

    @property
    def path(self) -> Path:
        """The program's file."""
        return _FOLDER / f"{self.name}.py"


_GPUS: Final = {"mirrored_gpus": 2, "towers_on_two_gpus": 2}
_STOPS: Final = {"recurrent_as_it_comes": "CudnnRNNV3"}

WORKLOADS: Final = tuple(
    Workload(path.stem, _GPUS.get(path.stem, 1), _STOPS.get(path.stem, ""))
    for path in sorted(_FOLDER.glob("[!_]*.py"))
)
#: The names of those that every test run places.
FAST: Final = ("colocation_v1",)
