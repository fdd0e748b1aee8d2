"""Identifies files by their first bytes: they may have been renamed, compressed or mangled."""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 4096  # enough to tell text from an encoding, and read at once

# The kinds of files that can be read.
GZIP: Final = "gzip"
JSON: Final = "json"
XSPACE: Final = "xspace"
LOCAL_TRACE: Final = "local.trace"

EVENTS_FILE: Final = (
    "TensorBoard's events (metrics), not a profile; give the directory that holds plugins/profile"
)
# Other files that users pass, by a pattern at the beginning, with the message to show.
_OTHERS: Final = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (rb"PK\x03\x04", "a zip archive; unpack it, and give the directory"),
        (rb".{257}ustar", "a tar archive; unpack it, and give the directory"),
        (rb"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first (`zstd -d`)"),
        (rb"\xfd7zXZ\x00", "compressed with xz; decompress it first (`xz -d`)"),
        (rb"BZh", "compressed with bzip2; decompress it first (`bzip2 -d`)"),
        (rb"\x89HDF\r\n", "an HDF5 file, such as saved Keras weights, not a profile"),
        (rb"SQLite format 3\x00", "an SQLite database, e.g. from Nsight Systems, not a profile"),
        (
            rb"version https://git-lfs",
            "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
        ),
        (rb".{0,52}brain\.Event:", EVENTS_FILE),
        (
            rb"\x00*\Z",
            "nothing but zero bytes: the copy or the disk failed; copy it again, or record again",
        ),
        (
            rb"(?i)\s*<(?:!doctype|html|\?xml)",
            "a web page, perhaps from a failed download; download the file itself",
        ),
    )
)
_TEXT: Final = "a text file, not a profile; give a HOST.xplane.pb or a log directory"
_JSON_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*[\"}]|\[)")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # except tab, line ends and escape
_REPLACEMENT: Final = "\ufffd".encode()
# The first field of an XSpace or a local.trace is a message or a string: a tag of wire type 2 and a
# field number of one byte, then a length. Inside a plane, or a map's entry, which are field 1, the
# first field is a number or a string.
_FIRST: Final = re.compile(
    rb"(?:\x0a[\x80-\xff]{0,9}[\x00-\x7f](?:[\x08\x0a\x10\x12\x18\x1a\x20\x22\x28\x2a\x30\x32\x38"
    rb"\x3a\x40\x42\x48\x4a\x50\x52\x58\x5a\x60\x62\x68\x6a\x70\x72\x78\x7a]|\Z)"
    rb"|[\x12\x1a\x22\x2a\x32\x3a\x42\x4a\x52\x5a\x62\x6a\x72\x7a][\x80-\xff]{0,9}[\x00-\x7f])"
)
# A map's entry in local.trace: its second field is a message, a device with a name, not a name as
# in a plane. Both begin with a number, if there is one.
_DEVICE: Final = re.compile(
    rb".[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x80-\xff]{0,4}[\x00-\x7f][\x0a\x10]",
    re.DOTALL,
)


def content_of(head: bytes) -> str | None:
    """Return the format as which a file with these first bytes can be read, or None."""
    if head.startswith(b"\x1f\x8b"):
        return GZIP
    if _is_text(head):
        return JSON if _JSON_START.match(head) else None
    if not _FIRST.match(head) or what_it_is(head):
        return None
    return LOCAL_TRACE if _DEVICE.match(head) else XSPACE


def what_it_is(head: bytes) -> str | None:
    """Describe a file with these first bytes that is not a trace; None if unknown."""
    found = (words for pattern, words in _OTHERS if pattern.match(head))
    return next(found, _TEXT if _is_text(head) else None)


def is_mangled(head: bytes) -> bool:
    """Return whether a program treated the file as text and replaced all invalid bytes.

    The result is valid UTF-8, which no encoding of numbers is, with many U+FFFD.
    """
    return head.count(_REPLACEMENT) > 1 and _is_utf8(head)


def _is_text(head: bytes) -> bool:
    return not _CONTROL.search(head) and _is_utf8(head)


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The head can end in the middle of a character.
        return error.reason == "unexpected end of data"
    return True
