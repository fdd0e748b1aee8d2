"""The libraries in the page are those that the manifest names, and may be passed on."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from importlib import resources
from typing import TYPE_CHECKING, Any

import click
import pytest

from tests import vendored as command
from tests.report.examples import gpu_run
from tests.report.markup import read
from traceanalyzer.report.page import assets, render_page
from traceanalyzer.report.page.vendored import MANIFEST, libraries, packages, styles

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = resources.files("traceanalyzer.report.page").joinpath("vendor")
# Licences that ask for no more than their text beside the copy.
PERMISSIVE = {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Apache-2.0"}


def test_every_file_is_what_the_manifest_says() -> None:
    files = [file for package in packages() for file in package.files]
    assert files
    for file in files:
        data = FOLDER.joinpath(file.file).read_bytes()
        assert hashlib.sha256(data).hexdigest() == file.sha256, file.file


def test_nothing_is_there_that_the_manifest_does_not_name() -> None:
    named = {file.file for package in packages() for file in package.files}
    assert {entry.name for entry in FOLDER.iterdir()} == named | {MANIFEST}


def test_every_package_has_its_licence_and_a_checksum() -> None:
    for package in packages():
        assert package.licence in PERMISSIVE
        assert "Copyright" in package.text("licence")
        assert package.integrity.startswith("sha512-")
        assert re.fullmatch(r"\d+\.\d+\.\d+", package.version)


def test_no_library_makes_code_of_text_or_style_of_markup() -> None:
    for package in packages():
        script = package.text("script")
        assert script
        assert not re.search(r"\beval\s*\(|new Function|Function\(|import\s*\(", script)
        assert 'setAttribute("style' not in script
        assert not re.search(r"createElement\(.(script|style)", script)
    assert not re.search(r"url\(|@import|@font-face", styles())


def test_a_library_sets_no_variable_outside_its_scope() -> None:
    for package in packages():
        assert f"const {package.variable} = (() => {{" in libraries()
        assert f"return {package.variable};\n}})();" in libraries()
    assert assets.script().startswith('(() => {\n"use strict";\nconst ')


def test_the_page_tells_whose_work_it_holds() -> None:
    method = read(render_page(gpu_run())).one("section", id="method")
    said = method.one("details", class_="licences").text
    for package in packages():
        assert f"{package.name} {package.version} ({package.licence})" in said
        (holder,) = re.findall(r"Copyright \(c\) .*", package.text("licence"))
        assert holder in said


# --- the command that refreshes them ---------------------------------------------------------


def package_of(**files: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name.replace('__', '.')}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


def entry(**changed: str) -> dict[str, Any]:
    file = {"file": "a.js", "kind": "script", "upstream": "a.js", "sha256": ""}
    told = {"name": "a", "version": "1.0.0", "licence": "MIT", "integrity": "", "files": [file]}
    return told | changed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    return tmp_path


def test_a_package_is_written_with_its_checksums(folder: Path) -> None:
    archive = package_of(a__js="let a;\n", package__json=json.dumps({"license": "MIT"}))
    made = command.refreshed(entry(), version="1.0.1", archive=archive)
    assert made["version"] == "1.0.1"
    assert made["integrity"] == command.integrity(archive)
    assert made["files"][0]["sha256"] == hashlib.sha256(b"let a;\n").hexdigest()
    assert (folder / "a.js").read_text(encoding="utf-8") == "let a;\n"


def test_a_version_that_has_changed_is_refused(folder: Path) -> None:
    archive = package_of(a__js="let b;\n", package__json=json.dumps({"license": "MIT"}))
    with pytest.raises(click.ClickException, match="is not what it was"):
        command.refreshed(entry(integrity="sha512-x"), version="1.0.0", archive=archive)
    assert not list(folder.iterdir())


def test_another_licence_is_refused(folder: Path) -> None:
    archive = package_of(a__js="let a;\n", package__json=json.dumps({"license": "GPL-3.0"}))
    with pytest.raises(click.ClickException, match="not MIT"):
        command.refreshed(entry(), version="1.0.1", archive=archive)
    assert not list(folder.iterdir())
