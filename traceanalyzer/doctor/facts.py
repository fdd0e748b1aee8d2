"""The facts about a machine and its TensorFlow installation, as reported by the probes."""

import re
import shlex
from collections.abc import Mapping
from typing import Final

import msgspec

NVIDIA: Final = "0x10de"


class PciGpu(msgspec.Struct, frozen=True):
    """A display controller on the PCI bus."""

    address: str
    vendor: str
    device: str
    driver: str | None = None  #: the kernel's driver that it is bound to


class Node(msgspec.Struct, frozen=True):
    """A device file of the driver."""

    name: str
    usable: bool  #: whether we may read and write it
    group: str = ""


class OperatingSystem(msgspec.Struct, frozen=True):
    """The facts that the operating system's kernel reports."""

    pci: tuple[PciGpu, ...] = ()
    nodes: tuple[Node, ...] = ()
    container: str | None = None  #: what shows that this is a container
    wsl: bool = False
    tegra: bool = False
    module: str | None = None  #: /proc/driver/nvidia/version
    parameters: str | None = None  #: /proc/driver/nvidia/params


class NvmlGpu(msgspec.Struct, frozen=True):
    """A GPU as reported by NVML."""

    index: int
    uuid: str = ""
    total_bytes: int | None = None
    free_bytes: int | None = None
    processes: tuple[int, ...] = ()


class CudaGpu(msgspec.Struct, frozen=True):
    """A GPU as reported by CUDA, regardless of `CUDA_VISIBLE_DEVICES`."""

    name: str
    major: int
    minor: int
    multiprocessors: int
    uuid: str = ""

    @property
    def capability(self) -> str:
        """The compute capability, such as "8.6"."""
        return f"{self.major}.{self.minor}"


class Driver(msgspec.Struct, frozen=True):
    """The answers of the driver's libraries, NVML and CUDA; None means no answer."""

    nvml_code: int | None = None
    nvml_error: str | None = None
    nvml_version: str | None = None
    nvml_gpus: tuple[NvmlGpu, ...] = ()
    cuda_error: str | None = None  #: why libcuda.so.1 does not load
    cuda_library: str | None = None
    cuda_code: int | None = None  #: of cuInit
    cuda_version: int | None = None  #: 12040 is 12.4
    cuda_gpus: tuple[CudaGpu, ...] = ()


class Distribution(msgspec.Struct, frozen=True):
    """An installed package that contains TensorFlow."""

    name: str
    version: str
    cuda_wheels: tuple[str, ...] = ()  #: the requirements of its extra `and-cuda`


class Installation(msgspec.Struct, frozen=True):
    """The Python interpreter and its TensorFlow installation."""

    executable: str = "python"
    python: str = ""
    system: str = "Linux"
    machine: str = "x86_64"
    variables: Mapping[str, str] = {}
    ld_library_path: str = ""
    distributions: tuple[Distribution, ...] = ()
    wheels: Mapping[str, str] = {}  #: versions of nvidia-* packages
    origin: str | None = None  #: the file or folder that `import tensorflow` would load
    build: Mapping[str, str | bool | list[str]] | None = None  #: of tf.sysconfig.get_build_info()
    search: tuple[str, ...] = ()  #: folders in which TensorFlow itself looks for libraries

    @property
    def site(self) -> str:
        """The site-packages folder that contains TensorFlow; "" if unknown."""
        return self.origin.rpartition("/tensorflow/")[0] if self.origin else ""

    @property
    def command(self) -> str:
        """The interpreter, quoted for a shell."""
        return shlex.quote(self.executable)

    @property
    def pip(self) -> str:
        """The command that runs pip for the interpreter."""
        return f"{self.command} -m pip"

    @property
    def package(self) -> str:
        """The name of the installed TensorFlow package."""
        return self.distributions[0].name if self.distributions else "TensorFlow"

    @property
    def version(self) -> str:
        """The version of TensorFlow; "" if unknown."""
        return self.distributions[0].version if self.distributions else ""

    @property
    def cuda(self) -> tuple[int, int] | None:
        """The version of CUDA that TensorFlow was built for; None if built without CUDA."""
        if not self.build or self.build.get("is_cuda_build") is not True:
            return None
        major, minor, *_ = (*numbers(str(self.build.get("cuda_version", ""))), 0, 0)
        return major, minor


class Library(msgspec.Struct, frozen=True):
    """A library that TensorFlow loads."""

    name: str
    path: str | None = None
    version: int | None = None
    error: str | None = None
    others: tuple[str, ...] = ()  #: other versions of it, and files where TensorFlow does not look


class Answer(msgspec.Struct, frozen=True):
    """TensorFlow's answer: its version, the GPUs that it lists, and its log."""

    version: str | None = None
    gpus: tuple[str, ...] | None = None  #: None if it did not answer
    import_error: str | None = None
    at: str = ""
    log: tuple[str, ...] = ()


class Limit(msgspec.Struct, frozen=True):
    """A line of a script that affects which GPUs TensorFlow uses."""

    kind: str
    value: str
    place: tuple[str, int] | None = None
    line: str = ""  #: its text


class Script(msgspec.Struct, frozen=True):
    """A script's limits on the visible GPUs, set before TensorFlow created its devices."""

    limits: tuple[Limit, ...] = ()
    may_hide: tuple[int, ...] = ()  #: lines of the script with a name that can hide GPUs
    gpus_to_choose_from: int | None = None
    gpus: tuple[str, ...] | None = None  #: None if the devices were not made
    ended: str | None = None  #: how, if that was before


class ProbeFailure(msgspec.Struct, frozen=True):
    """The failure of a probe that crashed or was stopped."""

    step: str
    text: str  #: "did not end within 5 s", "crashed (SIGSEGV)"


class MachineFacts(msgspec.Struct, frozen=True):
    """Everything the probes found."""

    machine: OperatingSystem = OperatingSystem()
    driver: Driver = Driver()
    installation: Installation = Installation()
    libraries: tuple[Library, ...] = ()
    answer: Answer | None = None
    script: Script | None = None
    failures: Mapping[str, ProbeFailure] = {}  #: by probe or library

    @property
    def has_gpu(self) -> bool:
        """Whether any probe found an NVIDIA GPU."""
        on_bus = any(gpu.vendor == NVIDIA for gpu in self.machine.pci) or self.machine.tegra
        return on_bus or bool(self.driver.cuda_gpus or self.driver.nvml_gpus)

    @property
    def module_version(self) -> str | None:
        """The version of NVIDIA's kernel module; None if unknown."""
        words = (self.machine.module or "").split()
        return next((word for word in words if len(numbers(word)) > 1 and "." in word), None)


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 16, 0) for 2.16.0rc1."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
