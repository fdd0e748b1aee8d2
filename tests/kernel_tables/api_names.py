"""Writes which functions of TensorFlow create each op: `python -m tests.kernel_tables.api_names`.

A function counts if its module calls the op's generated function in it, directly or through other
functions of the module. The sources of the installed TensorFlow are read, not run.
"""

import ast
import importlib.util
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_FILE: Final = Path("traceanalyzer/causes/data/api_names.txt")
_HELPERS: Final = ("_apply_op_helper",)


def main() -> None:
    """Write the table."""
    found: dict[str, set[str]] = defaultdict(set)
    folder = _python_of_tensorflow() / "ops"
    generated = {
        (file.stem, function.name): op
        for file in sorted(folder.rglob("gen_*.py"))
        for function in _functions(file).values()
        if (op := _op_of(function)) is not None
    }
    for file in sorted(folder.rglob("*.py")):
        functions = _functions(file)
        for function in functions.values():
            names = {name.rpartition(".")[2] for name in _exported(function)}
            if file.stem.startswith("gen_"):
                ops = {op} if (op := generated.get((file.stem, function.name))) else set()
            else:
                ops = set(_created(function, functions, generated, frozenset({function.name})))
            for op in ops if names else ():
                found[op] |= names
    lines = [f"{op} {' '.join(sorted(names))}\n" for op, names in sorted(found.items())]
    _FILE.write_text("".join(lines), encoding="utf-8")


def _python_of_tensorflow() -> Path:
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        message = "TensorFlow is not installed"
        raise SystemExit(message)
    return Path(spec.submodule_search_locations[0]) / "python"


def _functions(file: Path) -> Mapping[str, ast.FunctionDef]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}


def _op_of(function: ast.FunctionDef) -> str | None:
    """Return the op that a generated function creates."""
    for node in ast.walk(function):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if is_call and node.func.attr in _HELPERS and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
            return str(node.args[0].value)  # type: ignore[attr-defined]
    return None


def _exported(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the public names of a function."""
    for each in function.decorator_list:
        called = each.func if isinstance(each, ast.Call) else None
        if (
            isinstance(each, ast.Call)
            and getattr(called, "id", getattr(called, "attr", "")) == "tf_export"
        ):
            yield from (str(a.value) for a in each.args if isinstance(a, ast.Constant))
            for keyword in each.keywords:
                names = keyword.value.elts if isinstance(keyword.value, ast.List) else ()
                yield from (str(a.value) for a in names if isinstance(a, ast.Constant))


def _created(
    function: ast.FunctionDef,
    functions: Mapping[str, ast.FunctionDef],
    generated: Mapping[tuple[str, str], str],
    seen: frozenset[str],
) -> Iterator[str]:
    """Yield the ops that a function creates."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            op = generated.get((node.value.id, node.attr))
            if op is not None:
                yield op
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = functions.get(node.func.id)
            if called is not None and called.name not in seen:
                yield from _created(called, functions, generated, seen | {called.name})


if __name__ == "__main__":
    main()
