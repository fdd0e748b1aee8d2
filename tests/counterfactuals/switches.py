"""Switches in a program, each of which turns off one reason why an op is on the CPU."""

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Switches:
    """A variant of a program."""

    target: str
    off: frozenset[str]

    def has(self, switch: str) -> bool:
        """Return whether something is left as it is."""
        return switch not in self.off

    def choose(self, switch: str, holding: _T, otherwise: _T) -> _T:
        """Return the one or the other."""
        return holding if self.has(switch) else otherwise

    def beside(self, switch: str, tensor: Any) -> AbstractContextManager[None]:  # noqa: ANN401
        """Return the scope in which ops are colocated with a tensor's."""
        import tensorflow as tf  # noqa: PLC0415 - the process that asks has none

        scope: AbstractContextManager[None] = nullcontext()
        return tf.compat.v1.colocate_with(tensor) if self.has(switch) else scope


def run_all(variants: Sequence[tuple[str, str, frozenset[str]]]) -> list[str]:
    """Run variants of programs; return the error that each ended with, or ""."""
    errors = []
    for program, target, off in variants:
        module, _, name = program.partition(":")
        run = getattr(importlib.import_module(f"tests.counterfactuals.{module}"), name)
        try:
            run(Switches(target, off))
            errors.append("")
        except Exception as raised:  # noqa: BLE001 - TensorFlow's refusal is an answer
            errors.append(f"{type(raised).__name__}: {raised}")
    return errors
