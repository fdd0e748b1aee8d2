"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# Compiling and whatever else the machine does make some examples slow.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
