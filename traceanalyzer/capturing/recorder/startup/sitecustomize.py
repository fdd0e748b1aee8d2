"""Starts the recorder in the interpreter that will run the user's script.

`traceanalyzer capture` puts this folder at the front of PYTHONPATH, and Python imports
`sitecustomize` before it runs the script. The script's `__main__`, arguments, tracebacks, and exit
code stay the same. This module restores the user's environment and path, runs the user's own
`sitecustomize`, if there is one, and starts the recorder.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def _restore_environment(here: str) -> str | None:
    first, separator, rest = os.environ.get("PYTHONPATH", "").partition(os.pathsep)
    if first == here:
        if separator:
            os.environ["PYTHONPATH"] = rest
        else:
            del os.environ["PYTHONPATH"]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    return os.environ.pop("TRACEANALYZER_CAPTURE", None)


def _import_the_users_own() -> None:
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401 - the next one on the path
    except ImportError as error:
        # `site` removes the module from `sys.modules` again after this one has run.
        sys.modules["sitecustomize"] = ours
        if error.name != "sitecustomize":
            raise


def _start_recorder(settings: str) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    name = "_traceanalyzer_recorder"
    spec = spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        return
    package = module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    from _traceanalyzer_recorder.program import prepare

    prepare(settings)


def _main() -> None:
    settings = _restore_environment(os.path.dirname(__file__))
    try:
        _import_the_users_own()
    finally:
        if settings:
            with suppress(Exception):  # the launcher sees an empty journal
                _start_recorder(settings)


_main()
