"""What pages hold beside the report: libraries with their licences, and compiled templates."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

from tests.report.examples import gpu_run
from tests.report.markup import read
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.page.vendored import MANIFEST, packages, styles

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


def test_the_page_tells_whose_work_it_holds() -> None:
    method = read(render_page(gpu_run())).one("section", id="method")
    said = method.one("details", class_="licences").text
    for package in packages():
        assert f"{package.name} {package.version} ({package.licence})" in said
        (holder,) = re.findall(r"Copyright \(c\) .*", package.text("licence"))
        assert holder in said
