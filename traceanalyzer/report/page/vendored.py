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

__all__ = ["MANIFEST", "Package", "VendoredFile", "libraries", "packages", "styles"]

MANIFEST: Final = "manifest.json"
_PACKAGE: Final = "traceanalyzer.report.page"
_BANNER: Final = re.compile(r"\A\s*/\*!.*?\*/\s*", re.DOTALL)


@dataclass(frozen=True)
class VendoredFile:
    """A file of a package.

    Attributes:
        file: Its name in `vendor/`.
        kind: What the page does with it.
        upstream: Its path in the package.
        sha256: Of its bytes, in hexadecimal.
    """

    file: str
    kind: Literal["script", "style", "licence"]
    upstream: str
    sha256: str

    def text(self) -> str:
        """Returns what stands in it."""
        return resources.files(_PACKAGE).joinpath("vendor", self.file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Package:
    """A library.

    Attributes:
        name: Its name in the npm registry.
        version: The version that is here.
        licence: By its SPDX identifier.
        integrity: The checksum of the package in the registry, as the registry writes it.
        variable: The one variable that its script sets.
        files: Its files here.
    """

    name: str
    version: str
    licence: str
    integrity: str
    variable: str
    files: tuple[VendoredFile, ...]

    def text(self, kind: str) -> str:
        """Returns the text of its files of a kind, one after the other."""
        return "\n".join(file.text() for file in self.files if file.kind == kind)


@cache
def packages() -> tuple[Package, ...]:
    """Returns the packages of the manifest."""
    manifest = resources.files(_PACKAGE).joinpath("vendor", MANIFEST).read_text(encoding="utf-8")
    return tuple(
        Package(**{**entry, "files": tuple(VendoredFile(**file) for file in entry["files"])})
        for entry in json.loads(manifest)["packages"]
    )


def libraries() -> str:
    """Returns the scripts, each in a scope of its own that gives out its one variable."""
    return "\n".join(
        f"const {p.variable} = (() => {{\n{_plain(p.text('script'))}\nreturn {p.variable};\n}})();"
        for p in packages()
    )


def styles() -> str:
    """Returns the style sheets."""
    return "\n".join(_plain(p.text("style")) for p in packages())


def _plain(text: str) -> str:
    """Leave out the first comment: it is an address, and the page names its libraries itself."""
    return _BANNER.sub("", text).strip()
