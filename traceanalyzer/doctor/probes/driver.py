"""Queries NVIDIA's libraries: first NVML, as nvidia-smi does, then the CUDA driver."""

import ctypes

_PROCESSES = 64


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def _nvml():
    lib = ctypes.CDLL("libnvidia-ml.so.1")
    code = lib.nvmlInit_v2()
    report(nvml_code=code)
    text, number = ctypes.create_string_buffer(96), ctypes.c_uint()
    if lib.nvmlSystemGetDriverVersion(text, 96) == 0:
        report(nvml_version=text.value.decode("ascii", "replace"))
    if code or lib.nvmlDeviceGetCount_v2(ctypes.byref(number)):
        return
    gpus = []
    for index in range(min(number.value, 64)):
        handle, memory = ctypes.c_void_p(), _Memory()
        if lib.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            continue
        gpu = {"index": index}
        if lib.nvmlDeviceGetUUID(handle, text, 96) == 0:
            gpu["uuid"] = text.value.decode("ascii", "replace")
        if lib.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
            gpu.update(total_bytes=memory.total, free_bytes=memory.free)
        running, number = (_Process * _PROCESSES)(), ctypes.c_uint(_PROCESSES)
        ask = lib.nvmlDeviceGetComputeRunningProcesses_v3
        if ask(handle, ctypes.byref(number), running) == 0:
            gpu["processes"] = [process.pid for process in running[: number.value]]
        gpus.append(gpu)
    report(nvml_gpus=gpus)


def _loaded_from(name):
    for line in (open("/proc/self/maps").read()).splitlines():
        path = line.partition("/")[2]
        if os.path.basename(path).startswith(name):
            return os.path.realpath("/" + path)
    return None


def _cuda():
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        report(cuda_error=str(error))
        return
    report(cuda_library=_loaded_from("libcuda.so"))
    begin("cuInit")
    code, number = lib.cuInit(0), ctypes.c_int()
    report(cuda_code=code)
    if lib.cuDriverGetVersion(ctypes.byref(number)) == 0:
        report(cuda_version=number.value)
    if code or lib.cuDeviceGetCount(ctypes.byref(number)):
        return
    gpus = []
    for index in range(number.value):
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        name = ctypes.create_string_buffer(256)
        lib.cuDeviceGet(ctypes.byref(device), index)
        lib.cuDeviceGetName(name, 256, device)
        gpu = {"name": name.value.decode("utf-8", "replace")}
        for key, attribute in (("major", 75), ("minor", 76), ("multiprocessors", 16)):
            lib.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
            gpu[key] = number.value
        if lib.cuDeviceGetUuid(uuid, device) == 0:
            text = bytes(uuid).hex()
            parts = text[:8], text[8:12], text[12:16], text[16:20], text[20:]
            gpu["uuid"] = "GPU-" + "-".join(parts)
        gpus.append(gpu)
    report(cuda_gpus=gpus)


begin("asking NVML")
try:
    _nvml()
except (OSError, AttributeError) as error:  # no library, or an older one
    report(nvml_error=str(error))
begin("loading libcuda.so.1")
_cuda()
