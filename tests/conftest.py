"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# Compiling and whatever else the machine does make some examples slow.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A test of gzipped bytes is named after the argument.

    The bytes hold the second they were made in: processes that share the tests among them would
    each know such a test by a name of its own, and pytest-xdist refuses to run any.
    """
    gzipped = isinstance(val, bytes) and val.startswith(b"\x1f\x8b")
    return argname if gzipped else None
