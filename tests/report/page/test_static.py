"""The committed bundle is that of its sources, and says whose work it holds."""

import hashlib
import json
import re
from pathlib import Path

import traceanalyzer
from tests.report.page.block_types import FILE, types

REPORT = Path(traceanalyzer.__file__).parent / "report"
WEB, STATIC = REPORT / "web", REPORT / "static"
PERMISSIVE = {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Apache-2.0"}


def test_the_bundle_is_that_of_its_sources() -> None:
    names = ["package.json", "build.mjs"]
    names += [f"src/{file.name}" for file in (WEB / "src").iterdir()]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    stale = "the bundle is stale: npm run build, in traceanalyzer/report/web"
    assert (STATIC / "sources.sha256").read_text().strip() == digest.hexdigest(), stale


def test_types_of_blocks_are_those_of_python() -> None:
    stale = "stale: python -m tests.report.page.block_types, then npm run build"
    assert FILE.read_text(encoding="utf-8") == types(), stale


def test_every_bundled_library_has_its_licence() -> None:
    libraries = json.loads((STATIC / "licences.json").read_text(encoding="utf-8"))
    assert {"uplot", "d3-sankey", "d3-hierarchy"} <= {library["name"] for library in libraries}
    for library in libraries:
        assert library["licence"] in PERMISSIVE
        assert "Copyright" in "\n".join(library["text"])


def test_scripts_make_no_code_of_text_and_load_nothing() -> None:
    script = (STATIC / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"\beval\s*\(|new Function|\bimport\s*\(|</script|fetch\(", script)
    assert 'setAttribute("style' not in script
    assert script.count(".innerHTML") == 1  # the drawer's, from blocks that jinja2 escaped
    style = (STATIC / "page.css").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|@font-face|</style", style)


def test_every_package_is_pinned_and_no_file_names_a_registry() -> None:
    assert not (WEB / "package-lock.json").exists()
    for name in ("package.json", ".npmrc"):
        assert "://" not in (WEB / name).read_text(encoding="utf-8")
    packages = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    pinned = {**packages["devDependencies"], **packages["overrides"]}
    versions = [
        v for each in pinned.values() for v in (each.values() if isinstance(each, dict) else [each])
    ]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)
    bundled = json.loads((STATIC / "licences.json").read_text(encoding="utf-8"))
    assert {library["name"]: library["version"] for library in bundled}.items() <= pinned.items()
