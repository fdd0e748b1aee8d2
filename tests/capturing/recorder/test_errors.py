"""Which handler will catch an error, read from the source of what is running."""

from __future__ import annotations

import linecache
import sys
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from traceanalyzer.capturing.recorder import errors
from traceanalyzer.capturing.recorder.errors import ErrorRecorder, journal_fatal

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]


class Journal:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failures: list[BaseException] = []

    def write(self, kind: str, **fields: Any) -> None:  # noqa: ANN401
        self.records.append({"kind": kind, **fields})

    def note(self, id: str, severity: str, message: str) -> None:  # noqa: A002
        self.records.append({"kind": "note", "id": id, "severity": severity, "message": message})

    def failed(self, what: str, error: BaseException) -> None:
        del what
        self.failures.append(error)


@pytest.fixture
def journal() -> Journal:
    return Journal()


def _run(folder: Path, journal: Journal, program: str) -> list[Record]:
    """Run a program in which `fail(error)` raises as a recorded function of TensorFlow does."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    return _run_file(str(path), path.read_text(), journal)


def _run_file(file: str, source: str, journal: Journal) -> list[Record]:
    recorder = ErrorRecorder(journal)  # type: ignore[arg-type]

    def fail(error: BaseException) -> None:
        raise error

    names = {"__name__": "__main__", "fail": recorder._watched(fail, "set_memory_growth")}  # noqa: SLF001
    errors._tries.cache_clear()  # noqa: SLF001
    exec(compile(source, file, "exec"), names)  # noqa: S102
    assert journal.failures == []
    return journal.records


def _handlers(folder: Path, journal: Journal, program: str) -> list[tuple[int, str] | None]:
    """Return the line of the `except`, and the code it stands in, of each error."""
    found = _run(folder, journal, program)
    assert {r["handler"][0] for r in found if r["handler"]} <= {str(folder / "program.py")}
    return [(r["handler"][1], r["handler"][2]) if r["handler"] else None for r in found]


def test_an_error_is_journalled_with_the_users_frames(tmp_path: Path, journal: Journal) -> None:
    (record,) = _run(
        tmp_path,
        journal,
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
    assert record["where"] == "tf.config"
    assert record["call"] == "set_memory_growth"
    assert (record["type"], record["message"]) == (
        "RuntimeError",
        "x" * 2000 + " ... " + "x" * 996 + "last",
    )
    # This test is the user's as well: it calls the program.
    assert record["raised"][:2] == [(file, 2, "configure", 1), (file, 4, "<module>", 1)]
    assert record["handler"] == (file, 5, "<module>")


@pytest.mark.parametrize(
    ("clauses", "line"),
    [
        ("except:", 3),
        ("except ValueError:\n    pass\nexcept RuntimeError as error:", 5),
        ("except (KeyError, RuntimeError):", 3),
        ("except OURS:", 3),
        ("except own.RuntimeError:", 3),
        ("except Exception:", 3),
        pytest.param(
            "except* RuntimeError:",
            3,
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="except* came with 3.11"),
        ),
    ],
)
def test_a_clause_that_names_the_errors_class_catches_it(
    tmp_path: Path, journal: Journal, clauses: str, line: int
) -> None:
    head = "import builtins as own; OURS = (ValueError, RuntimeError)"
    program = f"{head}\ntry: fail(NotImplementedError())\n{clauses}\n    pass\n"
    assert _handlers(tmp_path, journal, program) == [(line, "<module>")]


@pytest.mark.parametrize("clause", ["(KeyError, OSError)", "make()", "unknown", "own[0]"])
def test_a_clause_that_does_not_catch_it_is_passed_over(
    tmp_path: Path, journal: Journal, clause: str
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
    assert _handlers(tmp_path, journal, program) == [(10, "<module>")]


def test_only_the_body_of_a_try_is_guarded_by_it(tmp_path: Path, journal: Journal) -> None:
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
    try:
        try:
            pass
        except RuntimeError:
            pass
        finally:
            fail(RuntimeError())
    except RuntimeError:
        pass
    """
    found = _handlers(tmp_path, journal, program)
    assert [at and at[0] for at in found] == [8, 13, 17, 26]


@pytest.mark.parametrize("file", ["<stdin>", "/absent/generated.py"])
def test_code_without_a_source_has_no_handler(journal: Journal, file: str) -> None:
    linecache.clearcache()
    source = "try:\n    fail(RuntimeError())\nexcept RuntimeError:\n    pass\n"
    (record,) = _run_file(file, source, journal)
    assert record["handler"] is None
    assert record["raised"][0] == (file, 2, "<module>", 1)


def test_what_python_warns_of_in_a_program_is_not_repeated(
    tmp_path: Path, journal: Journal
) -> None:
    program = """\
        PATTERN = "\\d"
        try:
            fail(RuntimeError())
        except RuntimeError:
            pass
        """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert _handlers(tmp_path, journal, program) == [(4, "<module>")]
    assert [str(w.message) for w in told] == [r"invalid escape sequence '\d'"]


def test_the_error_that_ends_a_program_is_journalled_with_its_lines(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    journal_fatal(journal)  # type: ignore[arg-type]
    assert journal.records == []

    file = str(tmp_path / "program.py")
    try:
        exec(compile("def f():\n    int('x')\nf()", file, "exec"), {})  # noqa: S102
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error)  # as Python does where nobody catches it
    journal_fatal(journal)  # type: ignore[arg-type]

    (record,) = journal.records
    assert (record["where"], record["type"]) == ("program", "ValueError")
    assert record["raised"][:2] == [(file, 2, "f", 1), (file, 3, "<module>", 1)]
