"""Checks the GPU, its driver, the variables that hide GPUs, and the GPUs that remain visible."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from traceanalyzer.doctor.check import Check, found, table
from traceanalyzer.doctor.facts import NVIDIA, CudaGpu, MachineFacts, numbers
from traceanalyzer.format import counted, listed, size_text

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_AMD: Final = "0x1002"
_FOREIGN_DRIVERS: Final = ("nouveau", "vfio-pci")
_NEEDED: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_VERSION_MISMATCH: Final = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
_MINIMUM: Final = "TF_MIN_GPU_MULTIPROCESSOR_COUNT"
_DEFAULT_MINIMUM: Final = 8  # kDefaultMinGPUMultiprocessorCount (gpu_device.cc)
_ENOUGH: Final = 0.1  # share of a GPU's memory


def check_gpu(facts: MachineFacts) -> Iterator[Check]:
    """Check that there is a GPU."""
    machine, driver = facts.machine, facts.driver
    nvidia = [gpu for gpu in machine.pci if gpu.vendor == NVIDIA]
    names = [gpu.name for gpu in driver.cuda_gpus]
    if names or driver.nvml_gpus:
        count = max(len(names), len(driver.nvml_gpus))
        gpus = listed(names) if names else f"NVIDIA GPUs: {count}"
        yield found("gpu_on_bus", gpus=gpus, where="NVIDIA's driver lists it")
    elif machine.wsl:
        if any(node.name == "/dev/dxg" for node in machine.nodes):
            yield found("gpu_on_bus", gpus="Windows shares a GPU", where="/dev/dxg")
        else:
            yield found("no_wsl_gpu")
    elif nvidia or machine.tegra:
        ids = [f"{gpu.address} ({gpu.vendor}:{gpu.device})" for gpu in nvidia]
        where = "/sys/bus/pci/devices" if nvidia else "/dev/nvhost-gpu"
        yield found("gpu_on_bus", gpus=f"NVIDIA GPU {listed(ids)}".rstrip(), where=where)
        bound = next((gpu for gpu in nvidia if gpu.driver in _FOREIGN_DRIVERS), None)
        if bound is not None and len(nvidia) == 1:
            yield found("bound_elsewhere", gpu=bound)
    elif "machine" not in facts.failures:
        amd = next((gpu for gpu in machine.pci if gpu.vendor == _AMD), None)
        if amd is not None and (facts.installation.build or {}).get("is_rocm_build") is not True:
            yield found("other_gpu", gpu=amd, installed=facts.installation)
        elif amd is None:
            others = [f"{gpu.vendor}:{gpu.device}" for gpu in machine.pci]
            yield found("no_gpu", seen=f", only {listed(others)}" if others else "")


def check_driver(facts: MachineFacts) -> Iterator[Check]:
    """Check the driver: its kernel module, device files, and libraries."""
    machine, driver = facts.machine, facts.driver
    failure = facts.failures.get("driver")
    has_gpu = facts.has_gpu or (machine.wsl and bool(machine.nodes))
    if not has_gpu and "machine" not in facts.failures:
        yield found("driver_not_checked")
        return
    if driver.cuda_code == 0 and failure is None:
        version = facts.module_version or driver.nvml_version
        said, library = f" {version}" if version else "", driver.cuda_library or "libcuda.so.1"
        cuda = _dotted(driver.cuda_version)
        yield found("driver_works", version=said, cuda=cuda, library=library)
        yield from _too_old(facts)
        return
    yield from _way_to_it(facts)
    if failure is not None:
        yield found("driver_does_not_respond", failure=failure)
    yield from _mismatch(facts)
    if driver.cuda_error is not None:
        yield from _not_found(facts)
    elif driver.cuda_code:
        yield _init_failed(facts, driver.cuda_code)
    yield from _too_old(facts)


def _way_to_it(facts: MachineFacts) -> Iterator[Check]:
    """Check the driver's kernel module and device files."""
    machine = facts.machine
    if machine.wsl or machine.tegra or "machine" in facts.failures:
        return
    names = {node.name for node in machine.nodes}
    if machine.module is None:
        if machine.container:
            yield found("driver_not_loaded_on_host", container=machine.container)
        elif not any(gpu.driver in _FOREIGN_DRIVERS for gpu in machine.pci):
            yield found("driver_not_loaded")
        return
    has_card = any(name.removeprefix("/dev/nvidia").isdigit() for name in names)
    if machine.container and not has_card:
        value = facts.installation.variables.get("NVIDIA_VISIBLE_DEVICES")
        said = "" if value is None else f"; NVIDIA_VISIBLE_DEVICES is {value!r}"
        yield found("container_without_gpu", container=machine.container, variable=said)
        return
    missing = [name for name in _NEEDED if name not in names]
    missing += [] if has_card else ["/dev/nvidia0"]
    if missing:
        yield found("no_device_files", missing=listed(missing))
    denied = [node for node in machine.nodes if not node.usable]
    if denied:
        group = denied[0].group or "video"
        yield found("device_files_denied", denied=listed([n.name for n in denied]), group=group)


def _mismatch(facts: MachineFacts) -> Iterator[Check]:
    module, library = facts.module_version, facts.driver.nvml_version
    code, differ = facts.driver.nvml_code, bool(module and library and module != library)
    if differ or code == _VERSION_MISMATCH:
        evidence = f"/proc/driver/nvidia/version; NVML returned {code}"
        versions = {"module": module or "unknown", "library": f" ({library})" if library else ""}
        yield found("driver_mismatch", evidence=evidence, **versions)


def _not_found(facts: MachineFacts) -> Iterator[Check]:
    capabilities = facts.installation.variables.get("NVIDIA_DRIVER_CAPABILITIES", "")
    advice = "Install NVIDIA's driver, with libraries of the same version as its kernel module"
    command = "sudo ubuntu-drivers install"
    if facts.machine.wsl:
        advice = "Add the Windows driver to the loader's search path"
        command = "echo /usr/lib/wsl/lib | sudo tee /etc/ld.so.conf.d/wsl.conf && sudo ldconfig"
    elif facts.machine.container:
        advice = "Start the container with access to the driver's compute libraries"
        if capabilities:
            advice += f"; NVIDIA_DRIVER_CAPABILITIES is {capabilities!r}"
        command = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."
    error = facts.driver.cuda_error
    yield found("driver_not_found", error=error, advice=advice, command=command)


def _init_failed(facts: MachineFacts, code: int) -> Check:
    known = table("cuda_errors").get(str(code), {})
    advice = known.get("fix", "Look up the error in NVIDIA's docs, and read the kernel log")
    return found(
        "cuda_init_failed",
        why=known.get("why", "the driver reports an error"),
        name=f"{known.get('name', 'error')} ({code})",
        library=facts.driver.cuda_library or "libcuda.so.1",
        advice=advice,
        command=known.get("command", "sudo dmesg | grep -iE 'nvrm|xid'"),
    )


def _too_old(facts: MachineFacts) -> Iterator[Check]:
    """Check that the driver supports the major version of CUDA that TensorFlow was built for."""
    needs, has = facts.installation.cuda, facts.driver.cuda_version
    if needs is None:
        return
    oldest = table("versions")["oldest_driver"].get(str(needs[0]))
    version = numbers(facts.module_version or "")
    driver = f"driver {oldest}" if oldest else f"the driver for CUDA {needs[0]}"
    fields = {"needs": needs[0], "oldest": driver}
    if has is not None and has // 1000 < needs[0]:
        supported = f"CUDA {_dotted(has)}"
        yield found("driver_too_old", has=supported, how="cuDriverGetVersion()", **fields)
    elif has is None and oldest and version and version < numbers(oldest):
        said = f"/proc/driver/nvidia/version: {facts.module_version}"
        yield found("driver_too_old", has="an older CUDA version", how=said, **fields)


def _dotted(cuda: int | None) -> str:
    return "of an unknown version" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"


def check_variables(facts: MachineFacts) -> Iterator[Check]:
    """Check the environment variables that affect GPUs."""
    set_ = facts.installation.variables
    value = set_.get(VISIBLE)
    gpus = facts.driver.cuda_gpus
    visible, why = visible_gpus(value, gpus)
    if value is not None and why:
        yield found("hidden_by_env", value=value, why=why)
    elif gpus and len(visible) < len(gpus):
        yield found("partly_hidden_by_env", value=value, visible=len(visible), count=len(gpus))
    if value is None:
        yield found("variables_ok", value="is not set")
    elif not why:
        yield found("variables_ok", value=f"is {value!r}")
    for name, entry in table("variables").items():
        if name in set_ and "text" in entry:
            yield found("variable_set", name=name, value=set_[name], meaning=entry["text"])


def visible_gpus(value: str | None, gpus: Sequence[CudaGpu]) -> tuple[tuple[CudaGpu, ...], str]:
    """Return the GPUs that a `CUDA_VISIBLE_DEVICES` value leaves visible; if none, also the reason.

    CUDA uses the list up to the first entry that is neither a GPU's number nor its UUID. If the
    GPUs are unknown, only a value that cannot name any GPU counts as hiding them.
    """
    if value is None:
        return tuple(gpus), ""
    if not value.strip():
        return (), "an empty value hides all GPUs"
    kept: list[CudaGpu] = []
    for entry in (each.strip() for each in value.split(",")):
        number = re.match(r"\+?\d+", entry)  # as strtol, which ignores the rest
        if entry.startswith("MIG-") or (not gpus and (number or entry.startswith("GPU-"))):
            return tuple(gpus), ""
        if number and int(number[0]) < len(gpus):
            kept.append(gpus[int(number[0])])
        elif entry.startswith("GPU-") and (same := [g for g in gpus if g.uuid.startswith(entry)]):
            kept.append(same[0])
        else:
            break
    if kept:
        return tuple(kept), ""
    if not gpus:
        return (), f"{value.split(',')[0]!r} is neither the number nor the UUID of a GPU"
    last = f" (this machine has {counted(len(gpus), 'GPU')}, numbered from 0)"
    return (), f"{value.split(',')[0].strip()!r} names no GPU{last}"


def check_devices(facts: MachineFacts) -> Iterator[Check]:
    """Check that TensorFlow can use the visible GPUs."""
    driver, set_ = facts.driver, facts.installation.variables
    visible, _ = visible_gpus(set_.get(VISIBLE), driver.cuda_gpus)
    for gpu in visible:
        rejected = [*_capability(facts, gpu), *_multiprocessors(facts, gpu, visible)]
        yield from rejected
        if not any(each.status == "obstacle" for each in rejected):
            same = (n for n in driver.nvml_gpus if gpu.uuid and n.uuid == gpu.uuid)
            total = next((nvml.total_bytes for nvml in same if nvml.total_bytes), None)
            memory = "memory size unknown" if total is None else size_text(total)
            yield found("gpu_usable", gpu=gpu, memory=memory)
    yield from _shared(facts)


def _capability(facts: MachineFacts, gpu: CudaGpu) -> Iterator[Check]:
    """Check that TensorFlow was built for a GPU's compute capability.

    Machine code (sm_70) runs on GPUs with the same major version and the same or a higher minor
    version. PTX (compute_90) is compiled for any newer GPU.
    """
    installed = facts.installation
    built = (installed.build or {}).get("cuda_compute_capabilities")
    listed_ = [text for text in built if isinstance(text, str)] if isinstance(built, list) else []
    known = [(text.startswith("sm_"), _version(text)) for text in listed_]
    if not known:
        return
    has, least = (gpu.major, gpu.minor), min(version for _, version in known)
    names = listed(listed_)
    if has < least:
        needs = f"{least[0]}.{least[1]}"
        yield found("capability_too_low", gpu=gpu, needs=needs, built=names, installed=installed)
        return
    if not any(is_code and v[0] == has[0] and v <= has for is_code, v in known):
        cuda, driver = installed.cuda or (0, 0), facts.driver.cuda_version or 0
        is_old = driver < cuda[0] * 1000 + cuda[1] * 10
        cannot = ", but this driver is too old for that" if is_old else ""
        yield found("compiled_at_start", gpu=gpu, cannot=cannot, built=names)
    version = numbers(installed.version)[:2]
    for entry in table("versions")["misfit"]:
        is_version = numbers(entry["first"]) <= version <= numbers(entry["last"])
        if is_version and has >= numbers(entry["capability"]):
            yield found("known_misfit", gpu=gpu, entry=entry, installed=installed)


def _version(text: str) -> tuple[int, int]:
    """Parse a compute capability such as `sm_75` or `compute_90`."""
    digits = re.sub(r"\D", "", text)
    return int(digits[:-1] or 0), int(digits[-1:] or 0)


def _multiprocessors(
    facts: MachineFacts, gpu: CudaGpu, visible: Sequence[CudaGpu]
) -> Iterator[Check]:
    """Check that a GPU has enough multiprocessors (`GetMinGPUMultiprocessorCount`)."""
    value = facts.installation.variables.get(_MINIMUM, "")
    needs = min(_DEFAULT_MINIMUM, max(each.multiprocessors for each in visible))
    how = "the default: 8, or the multiprocessor count of the largest GPU if that is lower"
    if value.strip().isdigit():
        needs, how = int(value), f"{_MINIMUM}={value!r}"
    if gpu.multiprocessors < needs:
        yield found("too_few_multiprocessors", gpu=gpu, needs=needs, how=how)


def _shared(facts: MachineFacts) -> Iterator[Check]:
    for gpu in facts.driver.nvml_gpus:
        free, total = gpu.free_bytes, gpu.total_bytes
        if free is not None and total and free < _ENOUGH * total:
            pids = listed([str(pid) for pid in gpu.processes])
            others = f" (used by PID {pids})" if pids else ""
            sizes = {"free": size_text(free), "total": size_text(total)}
            yield found("memory_taken", index=gpu.index, others=others, **sizes)
