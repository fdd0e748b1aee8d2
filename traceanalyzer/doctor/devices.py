"""Checks the environment variables that hide GPUs, and the GPUs that remain visible."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from traceanalyzer.doctor.check import Check, found
from traceanalyzer.doctor.facts import CudaGpu, MachineFacts
from traceanalyzer.doctor.knowledge import misfits, table
from traceanalyzer.format import counted, listed, size_text

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_MINIMUM: Final = "TF_MIN_GPU_MULTIPROCESSOR_COUNT"
_DEFAULT_MINIMUM: Final = 8  # kDefaultMinGPUMultiprocessorCount (gpu_device.cc)
_ENOUGH: Final = 0.1  # share of a GPU's memory


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
    for entry in misfits(installed.version, has):
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
        if gpu.free_bytes is not None and gpu.total_bytes:
            if gpu.free_bytes >= _ENOUGH * gpu.total_bytes:
                continue
            pids = listed([str(pid) for pid in gpu.processes])
            yield found(
                "memory_taken",
                index=gpu.index,
                free=size_text(gpu.free_bytes),
                total=size_text(gpu.total_bytes),
                others=f" (used by PID {pids})" if pids else "",
            )
