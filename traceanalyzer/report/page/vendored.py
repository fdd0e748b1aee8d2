"""What the page holds of others' work: minified libraries, with their licences and checksums.

The files in `vendor/` are as their authors published them; `manifest.json` beside them says where
each comes from. The repository's own command refreshes both.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, Literal

MANIFEST: Final = "manifest.json"
_PACKAGE: Final = "traceanalyzer.report.page"
_BANNER: Final = re.compile(r"\A\s*/\*!.*?\*/\s*", re.DOTALL)


@dataclass(frozen=True)
class VendoredFile:
    """A file of a package."""

    file: str  # its name in `vendor/`
    kind: Literal["script", "style", "licence"]
    upstream: str  # its path in the package
    sha256: str

    def text(self) -> str:
        """Return the content of the file."""
        return resources.files(_PACKAGE).joinpath("vendor", self.file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Package:
    """A library."""

    name: str  # in the npm registry
    version: str
    licence: str  # SPDX identifier
    integrity: str  # the registry's checksum of the package
    variable: str  # the one global that its script sets
    files: tuple[VendoredFile, ...]

    def text(self, kind: str) -> str:
        """Return the text of its files of a kind, one after the other."""
        return "\n".join(file.text() for file in self.files if file.kind == kind)


@cache
def packages() -> tuple[Package, ...]:
    """Return the packages of the manifest."""
    manifest = resources.files(_PACKAGE).joinpath("vendor", MANIFEST).read_text(encoding="utf-8")
    return tuple(
        Package(**{**entry, "files": tuple(VendoredFile(**file) for file in entry["files"])})
        for entry in json.loads(manifest)["packages"]
    )


def libraries() -> str:
    """Return the scripts, each in its own scope that exposes one variable."""
    return "\n".join(
        f"const {p.variable} = (() => {{\n{_plain(p.text('script'))}\nreturn {p.variable};\n}})();"
        for p in packages()
    )


def styles() -> str:
    """Return the style sheets."""
    return "\n".join(_plain(p.text("style")) for p in packages())


def _plain(text: str) -> str:
    """Leave out the first comment: it is an address, and the page names its libraries itself."""
    return _BANNER.sub("", text).strip()
