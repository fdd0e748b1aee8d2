"""Errors of the program that pass through our code: their tracebacks are as without it.

What is caught and raised again goes on with the traceback that it has by then, and nothing is added
to that. Before Python 3.11 it goes on with the one that it had when it was caught: there our frames
stay.
"""

from __future__ import annotations

from typing import Optional, Type

__all__ = ["hide_frame", "unseen"]


def hide_frame(error: BaseException) -> None:
    """Take the frame that has caught an error out of its traceback; a bare `raise` is to follow."""
    caught = error.__traceback__
    error.__traceback__ = caught.tb_next if caught is not None else None


class _Unseen:
    """A context that hides the frame in which it stands from errors that leave it."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], *_: object
    ) -> None:
        """End, whatever was raised."""
        if error is not None:
            hide_frame(error)


unseen = _Unseen()
