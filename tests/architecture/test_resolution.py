"""The package's lower bounds leave room for every TensorFlow from 2.12 on."""

import os
import re
import subprocess
import sys

import pytest

from tests.architecture.toolchain import ROOT

_NO_REGISTRY = re.compile(
    r"failed to fetch|error sending request|dns error|tcp connect error|timed out", re.IGNORECASE
)


def resolve(*requirements: str, extras: tuple[str, ...] = ()) -> dict[str, tuple[int, ...]]:
    """Resolve the package beside some requirements; return the versions of all that is needed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "-"),
            *("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"),
            *("--quiet", "--no-header", "--no-annotate", "--color", "never"),
            *(argument for extra in extras for argument in ("--extra", extra)),
        ],
        cwd=ROOT,
        env=os.environ | {"UV_HTTP_RETRIES": "1"},
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and _NO_REGISTRY.search(done.stderr):
        pytest.skip("the package registry cannot be reached")
    assert done.returncode == 0, done.stderr
    pins = (line.split("==") for line in done.stdout.splitlines() if "==" in line)
    return {
        name: tuple(int(number) for number in re.findall(r"\d+", version)[:3])
        for name, version in pins
    }


@pytest.mark.slow
def test_resolves_beside_the_oldest_tensorflow() -> None:
    found = resolve("tensorflow==2.12.0")
    assert found["tensorflow"] == (2, 12, 0)
    assert found["numpy"] < (1, 24)
    assert (2, 0) <= found["pandas"] < (3,)


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", ["2.12.*", "2.21.*"])
def test_resolves_with_the_extras_that_bring_tensorflow_and_tensorboard(tensorflow: str) -> None:
    found = resolve(f"tensorflow=={tensorflow}", extras=("capture", "tensorboard"))
    assert "tensorboard-plugin-profile" in found
