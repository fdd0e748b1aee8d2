"""Checks the Python interpreter and its TensorFlow installation."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from traceanalyzer.doctor.check import Check, found
from traceanalyzer.doctor.facts import Installation, MachineFacts, numbers
from traceanalyzer.doctor.knowledge import import_error, table
from traceanalyzer.format import listed

_NO_AVX: Final = ", since the processor lacks AVX, which TensorFlow's packages require"
_WINDOWS_LAST: Final = (2, 10)  # the last version that supports GPUs on Windows itself
_PARTS: Final = frozenset({"tensorflow-intel", "tensorflow-cpu-aws"})  # of `tensorflow` elsewhere


def check_installation(facts: MachineFacts) -> Iterator[Check]:
    """Check the installed packages and what TensorFlow was built for."""
    installed, failure = facts.installation, facts.failures.get("installation")
    if failure is not None and installed.build is None:
        yield found("probe_failed", probe="TensorFlow", failure=failure)
        return
    if not installed.origin:
        yield _missing(installed)
        return
    yield from _packages(installed)
    if installed.build is None:
        yield found("shadowed", installed=installed)
    elif installed.build.get("is_rocm_build") is True:
        yield found("rocm_build", installed=installed)
    elif installed.cuda is None:
        yield _cpu_only(installed)
    else:
        yield found("tensorflow_installed", installed=installed)


def check_import(facts: MachineFacts) -> Iterator[Check]:
    """Check that TensorFlow can be imported."""
    answer, installed = facts.answer, facts.installation
    if answer is None or not installed.origin:
        return
    failure = facts.failures.get("tensorflow")
    reinstall = f"{installed.pip} install --force-reinstall 'tensorflow[and-cuda]'"
    if answer.import_error is not None:
        log = "\n".join((answer.import_error, *answer.log))
        known = import_error(log)
        command = reinstall
        if known is not None:
            python, version = installed.command, installed.version
            command = known["command"].format(python=python, version=version)
        yield found(
            "import_fails",
            why="" if known is None else f": {known['why']}",
            error=f"{answer.import_error} (at {answer.at})",
            advice="Install it again" if known is None else "Install compatible versions",
            command=command,
        )
    elif failure is not None and "crashed" in failure.text and answer.gpus is None:
        said = f"; its last message: {answer.log[-1]}" if answer.log else ""
        yield found(
            "import_fails",
            why=f": the process crashes{_NO_AVX if 'SIGILL' in failure.text else ''}",
            error=f"{failure.step} {failure.text}{said}",
            advice="Reinstall TensorFlow in a new environment",
            command=reinstall,
        )


def _missing(installed: Installation) -> Check:
    known = table("versions")["python"]
    if (*numbers(installed.python), 0, 0)[1] > known["last"]:
        return found("python_not_supported", installed=installed, known=known)
    return found("no_tensorflow", installed=installed)


def _packages(installed: Installation) -> Iterator[Check]:
    packages = [each for each in installed.distributions if each.name not in _PARTS]
    if len(packages) > 1:
        names = [f"{each.name} {each.version}" for each in packages]
        several = found(
            "several_tensorflows",
            names=listed(names),
            packages=" ".join(each.name for each in packages),
            installed=installed,
        )
        yield several if installed.cuda else replace(several, status="obstacle")
    old = next(
        (each for each in packages if each.name in {"tensorflow-gpu", "tensorflow_gpu"}), None
    )
    if old is not None:
        yield found("tensorflow_gpu_package", version=old.version, installed=installed)


def _cpu_only(installed: Installation) -> Check:
    advice, run = "Install the build that supports GPUs", installed.pip
    command = f"{run} uninstall -y {installed.package} && {run} install 'tensorflow[and-cuda]'"
    if installed.system == "Darwin":
        advice = "Use Apple's plugin for Apple GPUs; on macOS, TensorFlow cannot use NVIDIA GPUs"
        command = f"{run} install tensorflow-metal"
    elif installed.system == "Windows" and numbers(installed.version)[:2] > _WINDOWS_LAST:
        advice = "Use WSL: TensorFlow 2.11 and newer do not support GPUs on native Windows"
        command = "wsl --install  # then, in WSL: pip install 'tensorflow[and-cuda]'"
    elif installed.machine in {"aarch64", "arm64"}:
        advice = "Use NVIDIA's container: PyPI's packages for ARM do not support GPUs"
        command = "docker run --gpus all -it nvcr.io/nvidia/tensorflow:25.02-tf2-py3"
    return found("cpu_only_build", installed=installed, advice=advice, command=command)
