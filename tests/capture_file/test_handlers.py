"""Which handler caught an error, read from the source of the lines that were running."""

import textwrap
from pathlib import Path

import pytest

from traceanalyzer.capture_file.document import Frame
from traceanalyzer.capture_file.source_lines import handler_of

CLASSES = ["NotImplementedError", "RuntimeError", "Exception", "BaseException", "object"]


def line_of_handler(folder: Path, source: str, line: int, code: str = "<module>") -> int | None:
    """Return the handler of a NotImplementedError that is raised at a line."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source))
    found = handler_of([Frame(file=str(program), line=line, code=code, is_user=True)], CLASSES)
    return found and found.line


@pytest.mark.parametrize(
    ("clauses", "line"),
    [
        ("except:", 3),
        ("except ValueError:\n    pass\nexcept RuntimeError as error:", 5),
        ("except (KeyError, RuntimeError):", 3),
        ("except OURS:", 3),
        ("except own.RuntimeError:", 3),
        ("except Exception:", 3),
        ("except* RuntimeError:", 3),
        ("except (KeyError, OSError):", None),
        ("except make():", None),
        ("except unknown:", None),
        ("except own[0]:", None),
    ],
)
def test_a_clause_that_names_the_errors_class_catches_it(
    tmp_path: Path, clauses: str, line: int | None
) -> None:
    head = "import builtins as own; OURS = (ValueError, RuntimeError)"
    program = f"{head}\ntry: fail()\n{clauses}\n    pass\n"
    assert line_of_handler(tmp_path, program, 2) == line


@pytest.mark.parametrize(("raised", "line"), [(7, 8), (12, 13), (14, 17), (16, 17)])
def test_only_the_body_of_a_try_is_guarded_by_it(tmp_path: Path, raised: int, line: int) -> None:
    program = """\
    try:
        try:
            pass
        except RuntimeError:
            pass
        else:
            fail()
    except RuntimeError:
        pass
    try:
        try:
            fail()
        except RuntimeError:
            fail()
        finally:
            fail()
    except RuntimeError:
        pass
    """
    assert line_of_handler(tmp_path, program, raised) == line


@pytest.mark.parametrize(
    ("source", "code"),
    [("def run():\n        fail()", "run"), ("run = lambda: (\n        fail())", "<lambda>")],
)
def test_a_try_around_a_definition_catches_no_error_of_a_call(
    tmp_path: Path, source: str, code: str
) -> None:
    program = f"try:\n    {source}\nexcept RuntimeError:\n    pass\n"
    assert line_of_handler(tmp_path, program, 3, code) is None


def test_the_callers_handler_counts_if_the_function_has_none(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("def run():\n    fail()\ntry: run()\nexcept RuntimeError: pass\n")
    places = (("<stdin>", 1, "f"), (str(program), 2, "run"), (str(program), 3, "<module>"))
    running = [Frame(file=f, line=line, code=code, is_user=True) for f, line, code in places]
    assert handler_of(running[:2], CLASSES) is None
    assert handler_of(running, CLASSES) == Frame(
        file=str(program), line=4, code="<module>", is_user=True
    )
