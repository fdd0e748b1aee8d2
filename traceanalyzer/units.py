"""Conversion factors for time units. Tables use picoseconds; reports use microseconds."""

from typing import Final

PS_PER_US: Final = 1_000_000
PS_PER_S: Final = 1_000_000_000_000
NS_PER_S: Final = 1_000_000_000
NS_PER_US: Final = 1_000


def us(time_ps: float | None) -> float | None:
    """Convert picoseconds to microseconds; None stays None."""
    return None if time_ps is None else time_ps / PS_PER_US
