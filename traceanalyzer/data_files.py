"""Reads the package's data files."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def text(path: str) -> str:
    """Return the text of a file, such as `placement/data/kernels.txt`."""
    return (files("traceanalyzer") / path).read_text("utf-8")


@cache
def toml(path: str) -> dict[str, Any]:
    """Return the content of a TOML file, such as `changes/data/checks.toml`."""
    return tomllib.loads(text(path))


def names(folder: str) -> frozenset[str]:
    """Return the names of the files in a folder, without suffixes."""
    found = (files("traceanalyzer") / folder).iterdir()
    return frozenset(each.name.partition(".")[0] for each in found if each.is_file())
