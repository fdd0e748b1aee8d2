"""Runs a script with edited files: FILE SCRIPT [ARGUMENTS], or FILE -m MODULE [ARGUMENTS].

FILE is a JSON object that maps the real path of each edited file to its text. `__file__`,
`sys.path`, and `sys.argv` are the same as without the edits.
"""

from __future__ import annotations

import json
import linecache
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

_load, _read = SourceFileLoader.get_code, linecache.updatecache
_run_module: Any = runpy._run_module_as_main  # type: ignore[attr-defined]  # as `python -m` does


def _use(edited: dict[str, str]) -> None:
    """Make imports and `linecache`, which AutoGraph reads, use the edited texts."""

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        path = loader.get_filename(name)
        text = edited.get(os.path.realpath(path))
        return _load(loader, name) if text is None else _code(text, path)

    def updatecache(filename: str, module_globals: dict[str, Any] | None = None) -> list[str]:
        text = edited.get(os.path.realpath(filename))
        if text is None:
            return _read(filename, module_globals)
        lines = text.splitlines(keepends=True)
        linecache.cache[filename] = (len(text), None, lines, filename)
        return lines

    SourceFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]
    linecache.updatecache = updatecache


def _code(text: str | bytes, path: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)


def _run(script: str, edited: dict[str, str]) -> None:
    path = os.path.abspath(script)
    if os.path.isdir(path):
        sys.path[0] = path
        _run_module("__main__", alter_argv=False)
        return
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    main: Any = ModuleType("__main__")
    sys.modules["__main__"] = main
    main.__file__, main.__loader__ = path, SourceFileLoader("__main__", path)
    text = edited.get(os.path.realpath(path))
    code = _code(main.__loader__.get_data(path) if text is None else text, path)
    exec(code, main.__dict__)  # noqa: S102 - the user's script


def _main() -> None:
    _, file, script, *arguments = sys.argv
    with open(file, encoding="utf-8") as opened:
        edited = json.load(opened)
    _use(edited)
    if script == "-m":
        sys.argv[:] = arguments
        sys.path[0] = os.getcwd()
        _run_module(arguments[0])
    else:
        sys.argv[:] = [script, *arguments]
        _run(script, edited)


_this = sys.modules["__main__"]  # kept: its functions are used until the script ends
_main()
