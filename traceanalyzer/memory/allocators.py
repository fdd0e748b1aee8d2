"""Whose memory an allocator hands out, by its name."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

AllocatorKind: TypeAlias = Literal["device", "pinned_host", "host", "unknown"]

# `GPUProcessState::GetGPUAllocator` (gpu_process_state.cc) and XLA's (gpu_helpers.cc).
_GPU: Final = re.compile(r"GPU_(?:collectivememory_)?(\d+)_bfc")
# Of a device, without TensorFlow's number of it: `PluggableDeviceProcessState`
# (pluggable_device_process_state.cc), `GpuCudaMallocAsyncAllocator` (which has CUDA's number), and
# those that tell the number of a TPU alone.
_DEVICE: Final = re.compile(r"PluggableDevice_\d+_bfc|gpu_async_\d+|cuda_malloc_async|device -?\d+")
# `gpu_host_bfc`, `cuda_host_bfc` in TensorFlow 1, `pluggable_device_host_bfc`, XLA's
# `xla_gpu_host_bfc`: memory of the host that the system may not move, so that devices can copy it.
_PINNED: Final = re.compile(r"\w*_host_bfc")
# `cpu`, `mklcpu`, `bfc_cpu_allocator_for_gpu` (process_state.cc).
_HOST: Final = re.compile(r"cpu\w*|mkl_?cpu|\w*_cpu_\w+")


def allocator_kind(name: str) -> AllocatorKind:
    """Tell what kind of memory an allocator hands out."""
    if _GPU.fullmatch(name) or _DEVICE.fullmatch(name):
        return "device"
    if _PINNED.fullmatch(name):
        return "pinned_host"
    return "host" if _HOST.fullmatch(name) else "unknown"


def allocator_device(name: str) -> str | None:
    """Return the device whose memory it is, `/device:GPU:0`, or None where the name tells none."""
    gpu = _GPU.fullmatch(name)
    return None if gpu is None else f"/device:GPU:{gpu[1]}"
