from __future__ import annotations

import hashlib
import marshal
from typing import TYPE_CHECKING

import pytest
from jinja2 import DictLoader, Environment

from traceanalyzer.report.page.render import environment
from traceanalyzer.report.page.template_cache import TemplateCache, cache_folder

if TYPE_CHECKING:
    from pathlib import Path


def rendered(folder: Path, source: str = "{{ 1 + x }}") -> str:
    made = Environment(
        loader=DictLoader({"a": source}), autoescape=True, bytecode_cache=TemplateCache(folder)
    )
    return made.get_template("a").render(x=2)


def put(file: Path, code: bytes) -> None:
    """Puts other code in the place of what is kept, as if it belonged there."""
    checksum = file.read_bytes().split(b" ", 1)[0]
    file.write_bytes(checksum + b" " + hashlib.sha256(code).hexdigest().encode() + b"\n" + code)


def kept(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def other_code(source: str) -> bytes:
    return marshal.dumps(
        compile(Environment(autoescape=True).compile(source, raw=True), "a", "exec")
    )


def test_what_was_compiled_is_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "templates"
    assert rendered(folder) == "3"
    put(kept(folder), other_code("kept"))
    assert rendered(folder) == "kept"


def test_another_template_of_that_name_is_compiled_anew(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert rendered(folder) == "3"
    assert rendered(folder, "{{ x }}") == "2"


@pytest.mark.parametrize("damage", [b"", b"\n", b"\xff\xfe", b"{}", marshal.dumps([1])])
def test_what_is_damaged_is_compiled_anew(tmp_path: Path, damage: bytes) -> None:
    folder = tmp_path / "cache"
    rendered(folder)
    kept(folder).write_bytes(damage)
    assert rendered(folder) == "3"
    put(kept(folder), damage)
    assert rendered(folder) == "3"
    rendered(folder)
    file = kept(folder)
    file.write_bytes(file.read_bytes()[:-1])
    assert rendered(folder) == "3"


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    rendered(folder)
    put(kept(folder), other_code("theirs"))
    folder.chmod(0o777)
    assert rendered(folder) == "3"


def test_nowhere_to_keep_it_is_no_error(tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    assert rendered(nowhere / "cache") == "3"


def test_it_lies_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder("a")
    assert folder is not None
    assert folder.parent == tmp_path / "traceanalyzer"
    assert folder != cache_folder("b")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = cache_folder("a")
    assert found is not None
    assert found.is_relative_to(tmp_path / "home" / ".cache")


def test_the_page_is_made_with_it() -> None:
    assert isinstance(environment().bytecode_cache, TemplateCache)
