"""Which handler will catch an error, read from the source of what is running."""

import json
import linecache
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.capturing.recorder import errors
from traceanalyzer.capturing.recorder.errors import ErrorRecorder, journal_fatal
from traceanalyzer.capturing.recorder.hooks import JournalWriter

# As a function of TensorFlow that is recorded raises.
FAIL = "def fail(error):\n    record('resource_exhausted', error)\n    raise error"


def _records(folder: Path) -> list[dict[str, Any]]:
    path = folder / "journal"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _run(folder: Path, source: str, file: str = "") -> list[dict[str, Any]]:
    """Run a program that calls `fail(error)`, and return the records of its errors."""
    recorder = ErrorRecorder(JournalWriter(str(folder / "journal")))
    names: dict[str, Any] = {"__name__": "__main__", "record": recorder._record}  # noqa: SLF001
    exec(compile(FAIL, errors.__file__, "exec"), names)  # noqa: S102
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source))
    errors._syntax.cache_clear()  # noqa: SLF001
    exec(compile(program.read_text(), file or str(program), "exec"), names)  # noqa: S102
    found = _records(folder)
    assert {record["kind"] for record in found} <= {"error"}
    return found


def _handler_lines(folder: Path, source: str) -> list[int | None]:
    found = [record["handler"] for record in _run(folder, source)]
    assert {handler[0] for handler in found if handler} <= {str(folder / "program.py")}
    return [handler and handler[1] for handler in found]


def test_an_error_is_journalled_with_the_users_frames(tmp_path: Path) -> None:
    (record,) = _run(
        tmp_path,
        """\
        def configure():
            fail(RuntimeError("x" * 5000 + "last"))
        try:
            configure()
        except RuntimeError:
            pass
        """,
    )
    file = str(tmp_path / "program.py")
    message = "x" * 2000 + " ... " + "x" * 996 + "last"
    assert (record["type"], record["message"]) == ("RuntimeError", message)
    # This test is the user's as well: it calls the program.
    assert record["raised"][:2] == [[file, 2, "configure", 1], [file, 4, "<module>", 1]]
    assert record["handler"] == [file, 5, "<module>", [6, 6]]


@pytest.mark.parametrize(
    ("clauses", "line"),
    [
        ("except:", 3),
        ("except ValueError:\n    pass\nexcept RuntimeError as error:", 5),
        ("except (KeyError, RuntimeError):", 3),
        ("except OURS:", 3),
        ("except own.RuntimeError:", 3),
        ("except OURS + (KeyError,):", 3),
        ("except held.E:", 3),
        ("except Exception:", 3),
        pytest.param(
            "except* RuntimeError:",
            3,
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="except* came with 3.11"),
        ),
    ],
)
def test_a_clause_that_names_the_errors_class_catches_it(
    tmp_path: Path, clauses: str, line: int
) -> None:
    head = "import builtins as own; OURS = (ValueError, RuntimeError); "
    head += "held = type('Held', (), {'E': OURS})"
    program = f"{head}\ntry: fail(NotImplementedError())\n{clauses}\n    pass\n"
    assert _handler_lines(tmp_path, program) == [line]


@pytest.mark.parametrize(
    ("clause", "line"),
    [("(KeyError, OSError)", 10), ("make()", None), ("unknown", None), ("own[0]", None)],
)
def test_only_a_clause_that_is_known_not_to_catch_it_is_passed_over(
    tmp_path: Path, clause: str, line: int | None
) -> None:
    program = f"""\
    def make():
        made.append(1)
        return KeyError
    made, own = [], object()
    try:
        try:
            fail(RuntimeError())
        except {clause}:
            pass
    except RuntimeError:
        assert len(made) == {int(clause == "make()")}  # by the program: nothing is run to find out
    except (NameError, TypeError):
        pass
    """
    assert _handler_lines(tmp_path, program) == [line]


@pytest.mark.parametrize(
    ("manager", "line"),
    [
        ("suppress(KeyError), suppress(RuntimeError)", 13),
        ("contextlib.suppress(KeyError)", 15),
        ("open('/dev/null')", 15),
        ("lock", 15),
        ("contextlib.ExitStack()", None),
        ("suppress(*OURS)", None),
        ("tolerant()", None),
        ("Tolerant()", None),
        ("tolerances[0]()", None),
        ("tolerances[1]", None),
        ("functools.partial(tolerant)()", None),
        ("guard()", None),
    ],
)
def test_a_context_manager_may_catch_it_before_a_clause_does(
    tmp_path: Path, manager: str, line: int | None
) -> None:
    program = f"""\
    import contextlib, functools, threading
    from contextlib import suppress
    class Tolerant:
        def __enter__(self): return self
        def __exit__(self, *_): return True
    @contextlib.contextmanager
    def tolerant():
        try: yield
        except RuntimeError: pass
    OURS, lock, tolerances = (RuntimeError,), threading.Lock(), [tolerant, Tolerant()]
    guard = functools.partial(tolerant)
    try:
        with {manager}:
            fail(RuntimeError())
    except RuntimeError:
        pass
    """
    assert _handler_lines(tmp_path, program) == [line]


def test_only_the_body_of_a_try_is_guarded_by_it(tmp_path: Path) -> None:
    program = """\
    try:
        try:
            pass
        except RuntimeError:
            pass
        else:
            fail(RuntimeError())
    except RuntimeError:
        pass
    try:
        try:
            fail(RuntimeError())
        except RuntimeError:
            fail(RuntimeError())
        finally:
            pass
    except RuntimeError:
        pass
    """
    assert _handler_lines(tmp_path, program) == [8, 13, 17]


@pytest.mark.parametrize("file", ["<stdin>", "/absent/generated.py"])
def test_code_without_a_source_has_no_handler(tmp_path: Path, file: str) -> None:
    linecache.clearcache()
    source = "try:\n    fail(RuntimeError())\nexcept RuntimeError:\n    pass\n"
    (record,) = _run(tmp_path, source, file)
    assert record["handler"] is None
    assert record["raised"][0] == [file, 2, "<module>", 1]


@pytest.mark.parametrize(
    "program",
    [
        "from builtins import RuntimeError as E\ntry:\n    fail(RuntimeError())\nexcept E: pass",
        "RuntimeError = RuntimeError\ntry:\n    fail(RuntimeError())\nexcept RuntimeError: pass",
        "try:\n  errors = (RuntimeError,)\n  fail(RuntimeError())\nexcept errors: pass",
    ],
)
def test_a_class_is_found_under_any_name(tmp_path: Path, program: str) -> None:
    assert _handler_lines(tmp_path, program) == [4]


def test_the_source_of_a_cell_is_what_python_has_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = str(tmp_path / "ipykernel_77" / "1234.py")  # no such file exists
    source = "try:\n    fail(RuntimeError())\nexcept RuntimeError:\n    pass\n"
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, cell, (len(source), None, lines, cell))
    (record,) = _run(tmp_path, source, cell)
    assert record["handler"] == [cell, 3, "<module>", [4, 4]]


def test_the_source_of_an_edited_program_is_not_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "edited.py"
    file.write_text("try:\n    fail(RuntimeError())\nexcept ValueError:\n    pass\n")
    source = f"{file.read_text()}except RuntimeError:\n    pass\n"
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, str(file), (len(source), None, lines, str(file)))
    (record,) = _run(tmp_path, source, str(file))
    assert record["handler"] == [str(file), 5, "<module>", [6, 6]]


def test_what_python_warns_of_in_a_program_is_not_repeated(tmp_path: Path) -> None:
    program = 'PATTERN = "\\d"\ntry: fail(RuntimeError())\nexcept RuntimeError: pass\n'
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert _handler_lines(tmp_path, program) == [3]
    assert [str(w.message) for w in told] == [r"invalid escape sequence '\d'"]


def test_the_error_that_ends_a_program_is_journalled_with_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalWriter(str(tmp_path / "journal"))
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    journal_fatal(journal)
    assert _records(tmp_path) == []

    file = str(tmp_path / "program.py")
    try:
        exec(compile("def f():\n    int('x')\nf()", file, "exec"), {})  # noqa: S102
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error)  # as Python does where nobody catches it
    journal_fatal(journal)

    (record,) = _records(tmp_path)
    assert (record["where"], record["type"], record["handler"]) == ("program", "ValueError", None)
    assert record["raised"][:2] == [[file, 2, "f", 1], [file, 3, "<module>", 1]]
