"""Machines with faults: folders for /sys, /proc, and /dev, stub libraries, a fake TensorFlow."""

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from traceanalyzer.doctor.checklist import Checkup
from traceanalyzer.doctor.examine import Examination, examine

BREAKAGES = tomllib.loads(Path(__file__).with_name("breakages.toml").read_text("utf-8"))
LIBRARIES = (
    *("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11"),
    *("libcusolver.so.11", "libcusparse.so.12", "libcudnn.so.9", "libcupti.so.12"),
)
_METADATA = """Name: tensorflow
Version: 2.21.0
Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"
"""
_VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.03  Tue Oct 1 2024\n"
_DRIVER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int number(const char *name, int other) {
  return getenv(name) ? atoi(getenv(name)) : other;
}
int cuInit(int f) {
  if (number("STUB_HANG", 0)) sleep(60);
  if (number("STUB_CRASH", 0)) *(volatile int *)0 = 1;
  return number("STUB_CUINIT", 0);
}
int cuDriverGetVersion(int *v) { *v = number("STUB_CUDA", 12080); return 0; }
int cuDeviceGetCount(int *n) { *n = number("STUB_GPUS", 1); return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "NVIDIA Stub", n); return 0; }
int cuDeviceGetUuid(unsigned char *u, int d) { memset(u, d + 1, 16); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
  *v = a == 75 ? number("STUB_MAJOR", 8) : a == 76 ? 0 : number("STUB_PROCESSORS", 100);
  return 0;
}
int nvmlInit_v2(void) { return number("STUB_NVML", 0); }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "560.35.03", n); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)8; return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) { strncpy(s, "GPU-stub", n); return 0; }
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *m) {
  m[0] = 80000000000ull; m[1] = number("STUB_FREE_GB", 79) * 1000000000ull; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, void *p) { *n = 0; return 0; }
"""
_LIBRARY = """
#include <unistd.h>
unsigned long cudnnGetVersion(void) { return 90300; }
__attribute__((constructor)) static void load(void) { %s }
"""
_TENSORFLOW = """
import os, sys
class config:
    @staticmethod
    def list_physical_devices(kind=None):
        class Gpu: name = "/physical_device:GPU:0"
        return [Gpu] if os.environ.get("FAKE_GPUS", "1") == "1" else []
"""
_BUILD = """
build_info = {"is_cuda_build": True, "is_rocm_build": False, "cuda_version": "12.5.1",
    "cudnn_version": "9", "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "compute_90"]}
"""


def compiled(code: str, file: Path, *options: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    words = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(file), *options]
    subprocess.run(words, input=code.encode(), check=True)
    return file


def stubs(folder: Path) -> Path:
    compiled(_DRIVER, folder / "libcuda.so.1")
    for name, action in (
        ("good", ""),
        ("hangs", "sleep(60);"),
        ("crashes", "*(volatile int *)0 = 1;"),
    ):
        compiled(_LIBRARY % action, folder / name)
    found = ("cuda", "cudnn")
    runpath = ":".join(f"$ORIGIN/../nvidia/{each}/lib" for each in found)
    compiled("int x;", folder / "framework", f"-Wl,-rpath,{runpath}", "-Wl,--enable-new-dtags")
    return folder


@dataclass(frozen=True)
class Simulated:
    folder: Path
    stubs: Path
    variables: dict[str, str] = field(default_factory=dict)
    interpreter: tuple[str, ...] = (sys.executable, "-S")

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def site(self) -> Path:
        return self.folder / "site"

    def made(self) -> Self:
        self.write("root/sys/bus/pci/devices/0000:65:00.0/class", "0x030200\n")
        self.write("root/sys/bus/pci/devices/0000:65:00.0/vendor", "0x10de\n")
        self.write("root/proc/driver/nvidia/version", _VERSION)
        self.write("root/proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            self.write(f"root/dev/{name}")
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            self.link("libcuda.so.1", self.folder / "driver" / name)
        self.write("site/tensorflow/__init__.py", _TENSORFLOW)
        self.write("site/tensorflow/python/platform/build_info.py", _BUILD)
        self.link("framework", self.site / "tensorflow" / "libtensorflow_framework.so.2")
        self.write("site/tensorflow-2.21.0.dist-info/METADATA", _METADATA)
        for name in LIBRARIES:
            part = "cudnn" if "cudnn" in name else "cuda"
            self.link("good", self.site / "nvidia" / part / "lib" / name)
        return self

    def write(self, path: str, text: str = "") -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, stub: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        shutil.copy(self.stubs / stub, file)

    def remove(self, path: str) -> None:
        file = self.folder / path
        shutil.rmtree(file) if file.is_dir() else file.unlink()

    def broken(self, what: str) -> Self:
        breakage = BREAKAGES[what]
        for path in breakage.get("remove", ()):
            self.remove(path)
        for path, text in breakage.get("write", {}).items():
            self.write(path, text)
        for path, stub in breakage.get("stub", {}).items():
            self.link(stub, self.folder / path)
        for path, target in breakage.get("link", {}).items():
            (self.folder / path).symlink_to(target)
        return self.with_variables(FAKE_GPUS="0", **breakage.get("variables", {}))

    def with_variables(self, **variables: str) -> Self:
        return replace(self, variables={**self.variables, **variables})

    def examined(self, **limits: float) -> Checkup:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.site),
            "LD_LIBRARY_PATH": str(self.folder / "driver"),
            **self.variables,
        }
        return examine(
            Examination(
                interpreter=self.interpreter,
                variables=environment,
                root=str(self.root),
                **limits,  # type: ignore[arg-type]
            )
        )
