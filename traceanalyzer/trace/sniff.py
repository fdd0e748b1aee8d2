"""Tells from a file's first bytes what it is, since names lie: renamed, compressed, mangled."""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 4096  # enough to tell text from an encoding, and read at once

# What a file can be and still be read.
GZIP: Final = "gzip"
JSON: Final = "json"
XSPACE: Final = "xspace"
LOCAL_TRACE: Final = "local.trace"

EVENTS_FILE: Final = (
    "TensorBoard's events (metrics), not a profile; give the directory that holds plugins/profile"
)
# What else users hand over, by how it begins; and what to tell them.
_OTHERS: Final = (
    (b"PK\x03\x04", "a zip archive; unpack it, and give the directory"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first (`zstd -d`)"),
    (b"\xfd7zXZ\x00", "compressed with xz; decompress it first (`xz -d`)"),
    (b"BZh", "compressed with bzip2; decompress it first (`bzip2 -d`)"),
    (b"\x89HDF\r\n", "an HDF5 file, such as saved Keras weights, not a profile"),
    (b"SQLite format 3\x00", "an SQLite database, such as one of Nsight Systems, not a profile"),
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
    ),
)
_JSON_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*[\"}]|\[)")
_HTML_START: Final = re.compile(rb"\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # but tab, line ends, escape
_REPLACEMENT: Final = "\ufffd".encode()
_TAR_MAGIC: Final = slice(257, 262)
# A message's number, if it has one, then the tag and length of its second field.
_ENTRY: Final = re.compile(rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x80-\xff]{0,4}[\x00-\x7f]")
_LENGTH: Final = 2  # wire type of messages and strings
_VARINT: Final = 0
_LAST_FIELD: Final = 15  # a field number that fits the tag's one byte; the formats use far fewer


def content_of(head: bytes) -> str | None:
    """Return what a file that begins so can be read as, or None."""
    if head.startswith(b"\x1f\x8b"):
        return GZIP
    if _is_text(head):
        return JSON if _JSON_START.match(head) else None
    begin = _first_message(head)
    if begin is None or what_it_is(head):
        return None
    return LOCAL_TRACE if _is_device_entry(head, begin) else XSPACE


def what_it_is(head: bytes) -> str | None:
    """Return in words what a file is that begins so but is no trace, or None if unknown."""
    for magic, words in _OTHERS:
        if head.startswith(magic):
            return words
    if head[_TAR_MAGIC] == b"ustar":
        return "a tar archive; unpack it, and give the directory"
    if b"brain.Event:" in head[:64]:
        return EVENTS_FILE
    if not head.strip(b"\x00"):
        return "nothing but zero bytes: the copy or the disk failed; copy it again, or record again"
    return _what_text(head) if _is_text(head) else None


def is_mangled(head: bytes) -> bool:
    """Return whether a program took the file for text and replaced every byte it did not know.

    What is left is sound UTF-8, which no encoding of numbers is, with U+FFFD all over it.
    """
    return head.count(_REPLACEMENT) > 1 and _is_utf8(head)


def _what_text(head: bytes) -> str:
    if _HTML_START.match(head):
        return "a web page, perhaps that of a failed download; fetch the file itself"
    return "a text file, not a profile; give a HOST.xplane.pb or a log directory"


def _is_text(head: bytes) -> bool:
    return not _CONTROL.search(head) and _is_utf8(head)


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The head may end within a character.
        return error.reason == "unexpected end of data"
    return True


def _first_message(head: bytes) -> int | None:
    """Return where the content of the first field begins, if that is a message or a string."""
    if len(head) < 2 or head[0] & 7 != _LENGTH or not 1 <= head[0] >> 3 <= _LAST_FIELD:  # noqa: PLR2004 - a tag and a length
        return None
    begin = next((i + 1 for i in range(1, min(len(head), 11)) if head[i] < 0x80), None)  # noqa: PLR2004 - a varint ends
    if begin is None:
        return None
    if head[0] >> 3 == 1 and begin < len(head):
        # Inside is a plane or a map entry: its first field is a number or a string.
        tag = head[begin]
        if tag & 7 not in {_VARINT, _LENGTH} or not 1 <= tag >> 3 <= _LAST_FIELD:
            return None
    return begin


def _is_device_entry(head: bytes, begin: int) -> bool:
    """Tell a map entry of local.trace from a plane: its second field is a message, not a name.

    Both begin with a number; then a plane has its name, and the entry a device that has one.
    """
    match = _ENTRY.match(head, begin)
    return match is not None and head[match.end() : match.end() + 1] in {b"\x0a", b"\x10"}
