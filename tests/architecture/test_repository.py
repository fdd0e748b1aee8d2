"""What is in the repository and what is in the wheel, and what must not be."""

import gzip
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest

import hatch_build
from tests.architecture.toolchain import ROOT
from traceanalyzer.version import VERSION

LARGEST = 1_500_000  # bytes; git keeps every version for ever

MOST_LINES = 400  # of a module; a longer one has more than one job

# Folders that are somebody's own machine, and where packages came from on it. Not after a word: ops
# have names with slashes.
MACHINE = re.compile(r"(?<![\w.*<>{}-])/(?:work|root|tmp|home|Users|opt|mnt)/")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian|index-url|find-links"
)

# Files that name such folders on purpose.
DELIBERATE = {
    "tests/architecture/test_repository.py": "the patterns themselves",
}


@cache
def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - wherever it is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this is not a clone of the repository")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


@cache
def texts() -> dict[str, str]:
    found = {}
    for name in tracked():
        content = (ROOT / name).read_bytes()
        if b"\0" not in content:
            try:
                found[name] = content.decode()
            except UnicodeDecodeError:
                continue
    return found


@cache
def packed_texts() -> dict[str, str]:
    """The JSON that lies here compressed, a string of it a line."""
    contents = {
        name: gzip.decompress((ROOT / name).read_bytes())
        for name in tracked()
        if name.endswith(".json.gz")
    }
    return {name: content.decode().replace('"', "\n") for name, content in contents.items()}


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in (texts() | packed_texts()).items()
        if name not in DELIBERATE
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_names_no_folder_of_a_machine() -> None:
    assert not lines_with(MACHINE)


def test_a_recorded_capture_file_is_looked_into() -> None:
    capture_files = [text for name, text in packed_texts().items() if ".placement." in name]
    assert capture_files
    assert all("\n/srv/recommender/program.py\n" in text for text in capture_files)


def test_names_no_registry() -> None:
    assert not lines_with(REGISTRY)


def test_nothing_installs_by_name() -> None:
    """Somebody else's package has our import name on PyPI, and ours is not there yet."""
    project = tomllib.loads(texts()["pyproject.toml"])["project"]
    verbs = "install|add|download|wheel|tool run"
    command = rf"\b(?:uvx|(?:pip3?|pipx|uv|poetry|conda|mamba)\b.{{0,40}}?\b(?:{verbs}))\b"
    others = r"(?:\s+[^\s`;|&]+){0,12}?\s+"
    name = rf"['\"]?(?:traceanalyzer|{project['name']})(?:\[|[=<>~!@]|['\"\s]|$)"
    install = re.compile(command + others + name)
    assert install.search("RUN pip3 install -U 'traceanalyzer[capture]>=0.1' tensorflow")
    assert install.search(f"uvx {project['name']} report logs")
    assert not install.search("pip install wheels/traceanalyzer-0.1.whl")
    assert not lines_with(install)


def test_is_light() -> None:
    assert not [name for name in tracked() if (ROOT / name).stat().st_size > LARGEST]


def test_top_level_is_what_it_should_be() -> None:
    assert {name.partition("/")[0] for name in tracked()} <= {
        ".ci",
        ".gitignore",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.md",
        "constraints.txt",
        "docs",
        "findings",
        "hatch_build.py",
        "pyproject.toml",
        "reports",
        "sample_traces",
        "tests",
        "traceanalyzer",
    }


def test_changelog_tells_of_the_version() -> None:
    assert f"## [{VERSION}]" in texts()["CHANGELOG.md"]


def test_constraints_are_exact_and_come_from_nowhere() -> None:
    first, *lines = texts()["constraints.txt"].splitlines()
    assert first.startswith("# uv pip compile pyproject.toml ")
    pin = re.compile(r"[a-z0-9._-]+==[\w.+!]+(?: ; .+)?")
    assert not [line for line in lines if not pin.fullmatch(line)]


def test_constraints_cover_every_requirement() -> None:
    project = tomllib.loads(texts()["pyproject.toml"])["project"]
    extras = project["optional-dependencies"]
    wanted = {
        re.split(r"[^\w.-]", requirement)[0]
        for requirement in (*project["dependencies"], *extras["test"], *extras["tensorboard"])
    }
    pinned = {line.partition("==")[0] for line in texts()["constraints.txt"].splitlines()}
    assert wanted <= pinned


# ---------------------------------------------------------------------------- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not hatch_build.has_compiler():
        pytest.skip("there is no C compiler, and outside of pip's builds no ziglang")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [file] = folder.glob("*.whl")
    return file


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_wheel_is_for_any_python_on_this_kind_of_machine(wheel: Path) -> None:
    assert wheel.name.startswith("tf_traceanalyzer-")
    assert wheel.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")


def test_wheel_brings_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        assert "traceanalyzer = traceanalyzer.cli:main" in archive.read(name).decode()


def test_wheel_holds_the_package_whole(wheel: Path) -> None:
    package = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "traceanalyzer").rglob("*")
        if file.is_file() and not {"__pycache__", "web"} & set(file.parts[len(ROOT.parts) :])
    }
    names = names_in(wheel)
    assert {name for name in names if ".dist-info/" not in name} == package
    assert "traceanalyzer/native/libtraceanalyzer.so" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_no_module_is_long() -> None:
    modules = [name for name in tracked() if re.fullmatch(r"traceanalyzer/.*\.py", name)]
    lines = {name: len((ROOT / name).read_text("utf-8").splitlines()) for name in modules}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_no_test_module_imports_tensorflow() -> None:
    """Each process that collects the tests would take seconds to import it; the oracle's has it."""
    importing = re.compile(r"^(?:from|import) (?:tensorflow|keras)\b")
    for name, text in texts().items():
        if re.fullmatch(r"tests/(?:.*/)?test_\w+\.py", name):
            code = text.partition('"""')[2].partition('"""')[2].partition('"""')[0]
            assert not [line for line in code.splitlines() if importing.match(line)], name
