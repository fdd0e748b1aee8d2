"""Checks the Python interpreter, its TensorFlow, and the CUDA libraries that TensorFlow opens."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from traceanalyzer.doctor.check import Check, found, table
from traceanalyzer.doctor.facts import Installation, Library, MachineFacts, numbers
from traceanalyzer.format import listed

_NO_AVX: Final = ", since the processor lacks AVX, which TensorFlow's packages require"
_PART: Final = "tensorflow-cpu-aws"  # of `tensorflow`, on ARM
_ABSENT: Final = "cannot open shared object file: No such file"
_CUDNN: Final = re.compile(r"(nvidia-cudnn-cu\d+)[^;]*?>=\s*([\d.]+)")
_WINDOWS_LAST: Final = (2, 10)  # the last version that supports GPUs on Windows itself
_ADMINS_ONLY: Final = "RmProfilingAdminOnly: 1"


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
        errors = table("versions")["import_error"]
        known = next((each for each in errors if re.search(each["pattern"], log)), None)
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
    packages = [each for each in installed.distributions if each.name != _PART]
    if len(packages) > 1:
        names = listed([f"{each.name} {each.version}" for each in packages])
        words = " ".join(each.name for each in packages)
        several = found("several_tensorflows", names=names, packages=words, installed=installed)
        yield several if installed.cuda else replace(several, status="obstacle")
    old = (each for each in packages if each.name in {"tensorflow-gpu", "tensorflow_gpu"})
    for each in old:
        yield found("tensorflow_gpu_package", version=each.version, installed=installed)


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


def check_libraries(facts: MachineFacts) -> Iterator[Check]:
    """Check the libraries that TensorFlow needs to list GPUs."""
    needed = [each for each in facts.libraries if not _is_cupti(each)]
    failed = [each for each in needed if each.error is not None]
    unknown = [each.name for each in needed if each.path is None and each.error is None]
    if unknown:
        yield found("libraries_not_checked", names=listed(unknown))
    absent = [e for e in failed if f"{e.name}: {_ABSENT}" in (e.error or "")]
    for library in failed:
        if library not in absent:
            yield found("library_broken", library=library, installed=facts.installation)
    elsewhere = [each for each in absent if _same(each)]
    if len(elsewhere) == len(absent) and absent:
        yield _not_searched(elsewhere)
    elif absent:
        yield _absent(facts.installation, absent)
    if needed and not failed and not unknown:
        where = sorted({_where(facts.installation, each) for each in needed})
        names = listed([each.name for each in needed])
        yield found("libraries_load", count=len(needed), where=listed(where), names=names)
    yield from _replaced(facts.installation, needed)
    yield from _cudnn(facts.installation, needed)


def check_profiling(facts: MachineFacts) -> Iterator[Check]:
    """Check that the profiler can record GPU kernels."""
    cupti = next(filter(_is_cupti, facts.libraries), None)
    if cupti is None or (cupti.path is None and cupti.error is None):
        return
    if cupti.error is not None:
        yield found("no_cupti", library=cupti, installed=facts.installation)
        return
    limited = _ADMINS_ONLY in (facts.machine.parameters or "")
    limits = "; hardware counters, which TensorFlow does not use, are for administrators only"
    how = f"{cupti.path}; RmProfilingAdminOnly in /proc/driver/nvidia/params"
    yield found("profiling", limits=limits if limited else "", how=how)


def _is_cupti(library: Library) -> bool:
    return library.name.startswith("libcupti")


def _same(library: Library) -> list[str]:
    return [path for path in library.others if PurePath(path).name == library.name]


def _not_searched(libraries: Sequence[Library]) -> Check:
    paths = [_same(each)[0] for each in libraries]
    folders = dict.fromkeys(str(PurePath(path).parent) for path in paths)
    return found(
        "library_not_searched",
        names=listed([each.name for each in libraries]),
        found=listed(paths),
        folders=":".join(folders),
    )


def _absent(installed: Installation, absent: Sequence[Library]) -> Check:
    names = listed([each.name for each in absent])
    others = listed(sorted({path for each in absent for path in each.others}))
    if any(not _same(each) and each.others for each in absent):
        return found("library_other_version", names=names, others=others, installed=installed)
    extra = next((each.cuda_wheels for each in installed.distributions), ())
    wanted = [re.split(r"[^\w.-]", requirement)[0] for requirement in extra]
    lacking = [name for name in wanted if name.replace("_", "-") not in installed.wheels]
    said = "; no package of TensorFlow's `and-cuda` extra is installed" if lacking else ""
    if lacking and len(lacking) < len(wanted):
        said = f"; not installed from TensorFlow's `and-cuda` extra: {listed(lacking)}"
    fields = {"count": len(absent), "error": absent[0].error, "wheels": said}
    return found("library_missing", names=names, installed=installed, **fields)


def _where(installed: Installation, library: Library) -> str:
    path = library.path or ""
    if _is_below(path, installed.ld_library_path.split(":")):
        return "from LD_LIBRARY_PATH"
    if _is_below(path, installed.search) and "/nvidia/" in path:
        return "from NVIDIA's Python packages"
    return "from the system"


def _is_below(path: str, folders: Sequence[str]) -> bool:
    real = os.path.realpath(PurePath(path).parent)
    return any(folder and os.path.realpath(folder) == real for folder in folders)


def _replaced(installed: Installation, libraries: Sequence[Library]) -> Iterator[Check]:
    given = [e for e in libraries if e.path and _where(installed, e) == "from LD_LIBRARY_PATH"]
    replaced = [e for e in given if any(_is_below(other, installed.search) for other in _same(e))]
    if replaced:
        names = listed([each.name for each in replaced])
        yield found("library_replaced", names=names, path=replaced[0].path)


def _cudnn(installed: Installation, libraries: Sequence[Library]) -> Iterator[Check]:
    """Check that cuDNN has at least the major and minor version that TensorFlow requires."""
    library = next((e for e in libraries if e.name.startswith("libcudnn") and e.version), None)
    extra = (text for each in installed.distributions for text in each.cuda_wheels)
    wanted = next(filter(None, map(_CUDNN.match, extra)), None)
    if library is None or library.version is None or wanted is None:
        return
    number = library.version  # 8907 is 8.9.7, 90300 is 9.3.0
    has = (number // 10_000, number // 100 % 100)
    if number < 90_000:  # noqa: PLR2004 - before cuDNN 9
        has = (number // 1000, number // 100 % 10)
    if has < numbers(wanted[2])[:2]:
        yield found(
            "cudnn_too_old",
            has=f"{has[0]}.{has[1]}",
            needs=".".join(map(str, numbers(wanted[2])[:2])),
            path=library.path,
            requirement=f"{wanted[1]}>={wanted[2]}",
            installed=installed,
        )
