"""Programs that the placer replay is scored on: none was at hand when its rules were written.

Each is a small model or tool as a user writes it: a file with a `main`, run as a script, of a few
seconds, that draws the same numbers at every run. They were written, and run under TensorFlow,
before the replay saw any of them; the rules owe nothing to them. A fault that they show is mended
in the rules, never here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["FAST", "WORKLOADS", "Workload", "named"]

_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Workload:
    """One program.

    Attributes:
        name: The file's stem.
        gpus: On how many GPUs it is placed.
        stops: What an emulated GPU cannot compute, by the op's type: there the program ends with
            an error, once TensorFlow has placed the function in question. "" for nothing.
    """

    name: str
    gpus: int = 1
    stops: str = ""

    @property
    def path(self) -> Path:
        """Its file."""
        return _FOLDER / f"{self.name}.py"


_PARTICULAR: Final = {
    "mirrored_gpus": Workload("mirrored_gpus", gpus=2),
    "towers_on_two_gpus": Workload("towers_on_two_gpus", gpus=2),
    "recurrent_as_it_comes": Workload("recurrent_as_it_comes", stops="CudnnRNNV3"),
}
_NAMES: Final = sorted(path.stem for path in _FOLDER.glob("*.py") if path != Path(__file__))

WORKLOADS: Final = tuple(_PARTICULAR.get(name, Workload(name)) for name in _NAMES)
"""All of them, by name."""

FAST: Final = ("colocation_v1",)
"""Names of those that every test run places."""


def named(name: str) -> Workload:
    """Return the workload of that name.

    Raises:
        LookupError: There is none.
    """
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    raise LookupError(name)
