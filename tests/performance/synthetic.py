"""A trace of any length, of the shape that TensorFlow 2.21 writes on a machine with two GPUs.

No recorded trace is long enough to measure with. This one has what makes reading costly: ops on
four threads, launches, kernels with their details, allocations, copies both ways, Python calls;
about five thousand events a step, a quarter of a megabyte.
"""

import random
from typing import Any, Final

from tests.xspace_proto import XSpace

__all__ = ["synthetic_trace"]

_GPUS: Final = 2
_OPS: Final = 1200
_THREADS: Final = 4
_KERNEL_NAMES: Final = 300
_PYTHON_CALLS: Final = 300

_TYPES: Final = (
    *("MatMul", "Conv2D", "BiasAdd", "Relu", "AddV2", "Mul", "FusedBatchNormV3", "Sum", "Cast"),
    *("Reshape", "ConcatV2", "ResourceApplyAdam", "GatherV2", "Softmax", "AssignAddVariableOp"),
    *("Unique", "Where", "StringJoin"),
)
_ON_THE_HOST: Final = {"Unique", "Where", "StringJoin"}
_SIGNED: Final = {"_c", "_p", "correlation_id"}  # the rest of the numbers is written unsigned

_US: Final = 1_000_000  # in picoseconds
_GPU: Final = {
    "clock_rate": 1_980_000,
    "core_count": 132,
    "memory_bandwidth": 4_800_000_000_000,
    "memory_size": 150_000_000_000,
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
}


class _Plane:
    """A plane, its lines, and the ids of its names."""

    def __init__(self, space: Any, name: str, number: int) -> None:  # noqa: ANN401 - protobuf
        self.plane = space.planes.add(name=name, id=number)
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}

    def line(self, number: int, name: str) -> Any:  # noqa: ANN401 - protobuf
        return self.plane.lines.add(id=number, display_id=number, name=name, timestamp_ns=33_090)

    def event_id(self, name: str) -> int:
        if name not in self.events:
            self.events[name] = key = len(self.events) + 1
            self.plane.event_metadata[key].id = key
            self.plane.event_metadata[key].name = name
            if ":" in name:
                self.plane.event_metadata[key].display_name = name.rpartition(":")[2]
        return self.events[name]

    def stat_id(self, name: str) -> int:
        if name not in self.stats:
            self.stats[name] = key = len(self.stats) + 1
            self.plane.stat_metadata[key].id = key
            self.plane.stat_metadata[key].name = name
        return self.stats[name]

    def add(
        self,
        line: Any,  # noqa: ANN401 - protobuf
        name: str,
        start: int,
        duration: int,
        **stats: float | str,
    ) -> None:
        event = line.events.add(
            metadata_id=self.event_id(name), offset_ps=start, duration_ps=duration
        )
        for key, value in stats.items():
            self.set(event, key, value)

    def set(self, owner: Any, key: str, value: float | str) -> None:  # noqa: ANN401 - protobuf
        if isinstance(value, str):
            owner.stats.add(metadata_id=self.stat_id(key), ref_value=self.stat_id(value))
        elif isinstance(value, float):
            owner.stats.add(metadata_id=self.stat_id(key), double_value=value)
        elif value < 0 or key in _SIGNED:
            owner.stats.add(metadata_id=self.stat_id(key), int64_value=value)
        else:
            owner.stats.add(metadata_id=self.stat_id(key), uint64_value=value)


class _Writer:
    """Writes step after step; the clocks go on from one to the next."""

    def __init__(self) -> None:
        self.random = random.Random(7)  # noqa: S311 - the same trace each time
        self.space = XSpace(hostnames=["host0"])
        self.host = _Plane(self.space, "/host:CPU", 1)
        self.python = self.host.line(1001, "python")
        self.threads = [self.host.line(2000 + i, f"tf_Compute/{2000 + i}") for i in range(_THREADS)]
        self.gpus = [_Plane(self.space, f"/device:GPU:{i}", 100 + i) for i in range(_GPUS)]
        self.streams = [
            (
                gpu.line(13, "Stream #13(Compute)"),
                gpu.line(15, "Stream #15(MemcpyH2D)"),
                gpu.line(16, "Stream #16(MemcpyD2H)"),
            )
            for gpu in self.gpus
        ]
        for gpu in self.gpus:
            for key, value in _GPU.items():
                gpu.set(gpu.plane, key, value)
        self.ops = [self.op(i) for i in range(_OPS)]
        self.kernels = [
            f"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4_{i}>"
            "(T1::Params)"
            if i % 5 == 0
            else "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::"
            f"TensorAssignOp<Eigen::TensorMap<Eigen::Tensor<float,1,1,int>,16>,scalar_op_{i}>>>"
            for i in range(_KERNEL_NAMES)
        ]
        self.correlation = 1
        self.now = 1000 * _US

    def op(self, number: int) -> tuple[str, str]:
        kind = _TYPES[min(int(self.random.expovariate(0.2)), len(_TYPES) - 1)]
        return f"model/block_{number // 40}/layer_{number % 40}/{kind}_{number}", kind

    def step(self, number: int) -> None:
        """Write one step of training."""
        begin = self.now
        thread_times = [begin + 60 * _US + i * 1000 for i in range(_THREADS)]
        gpu_times = [begin + 90 * _US] * _GPUS
        run = {"id": -(10**18) - number}
        for thread, time in zip(self.threads, thread_times, strict=True):
            self.host.add(
                thread,
                "ExecutorState::Process",
                time - 2 * _US,
                _US * 3 // 2,
                **run,
                iter_num=0,
                _ct=2,
                _c=10**15 + number,
            )
        for i in range(_OPS):
            self.execute(i, number, thread_times, gpu_times)
        end = max(*thread_times, *gpu_times)
        self.host.add(self.python, "train", begin, end - begin, step_num=number, _r=1)
        self.host.add(self.python, "EagerKernelExecute", begin + 10 * _US, end - begin - 20 * _US)
        self.host.add(
            self.python,
            "FunctionRun",
            begin + 20 * _US,
            30 * _US,
            **run,
            _r=1,
            _pt=2,
            _p=10**15 + number,
        )
        for i in range(_PYTHON_CALLS):
            start = begin + 20 * _US + i * _US // 20
            self.host.add(self.python, f"$model.py:{i} call_{i % 50}", start, _US // 25)
        self.now = end + 50 * _US

    def execute(self, i: int, step: int, thread_times: list[int], gpu_times: list[int]) -> None:
        """Write one op, and what it does on its GPU if it has a kernel there."""
        (name, kind), thread, device = self.ops[i], self.threads[i % _THREADS], i % _GPUS
        duration = self.random.randint(3 * _US, 30 * _US)
        start = thread_times[i % _THREADS]
        thread_times[i % _THREADS] += duration + _US // 2
        self.host.add(thread, f"{name}:{kind}", start, duration)
        if kind in _ON_THE_HOST:
            return
        for launch in range(2 if i % 3 == 0 else 1):
            self.host.add(
                thread,
                "cuLaunchKernel",
                start + _US + launch * _US * 2 // 5,
                _US * 3 // 10,
                correlation_id=self.correlation,
                context_id="$$1",
                device_id=device,
            )
            kernel_duration = self.random.randint(2 * _US, 80 * _US)
            kernel_start = max(gpu_times[device], start + 2 * _US)
            gpu_times[device] = kernel_start + kernel_duration + 1000
            self.kernel(i, launch, kernel_start, kernel_duration)
        if i % 4 == 0:
            self.allocate(i, step, start, duration)
        if i % 50 == 0:
            self.copy(i, start + 3 * _US)

    def kernel(self, i: int, launch: int, start: int, duration: int) -> None:
        name, kind = self.ops[i]
        self.gpus[i % _GPUS].add(
            self.streams[i % _GPUS][0],
            self.kernels[(i * 7 + launch) % _KERNEL_NAMES],
            start,
            duration,
            context_id="$$1",
            correlation_id=self.correlation,
            kernel_details=(
                f"regs:{32 + i % 96} static_shared:0 dynamic_shared:{i % 5 * 4096} "
                f"grid:{1 + i * 13 % 997},1,1 block:256,1,1 occ_pct:{i % 16 * 6}"
            ),
            theoretical_occupancy_pct=50.0,
            occupancy_min_grid_size=264,
            occupancy_suggested_block_size=1024,
            tf_op=f"{name}:{kind}",
        )
        self.correlation += 1

    def allocate(self, i: int, step: int, start: int, duration: int) -> None:
        thread = self.threads[i % _THREADS]
        pool: dict[str, float | str] = {
            "allocator_name": f"GPU_{i % _GPUS}_bfc",
            "bytes_reserved": 0,
            "bytes_allocated": 10**9 + i,
            "bytes_available": 10**10 - i,
            "fragmentation": 0.01,
            "peak_bytes_in_use": 2 * 10**9,
            "requested_bytes": 4096 * i,
            "allocation_bytes": 4096 * i + 256,
            "addr": 0x7F00_0000_0000 + i * 65_536,
        }
        self.host.add(
            thread,
            "MemoryAllocation",
            start + _US // 2,
            0,
            **pool,
            tf_op=self.ops[i][0],
            id=step,
            region_type="output",
            data_type="float",
            shape=f"[128,{i % 64}]",
        )
        self.host.add(thread, "MemoryDeallocation", start + duration - 1000, 0, **pool)

    def copy(self, i: int, start: int) -> None:
        name, kind = self.ops[i]
        gpu, streams = self.gpus[i % _GPUS], self.streams[i % _GPUS]
        for stream, event, source, target in (
            (streams[1], "MemcpyH2D", "pinned", "device"),
            (streams[2], "MemcpyD2H", "device", "pageable"),
        ):
            gpu.add(
                stream,
                event,
                start,
                5 * _US,
                context_id="$$1",
                correlation_id=self.correlation,
                memcpy_details=(
                    f"kind_src:{source} kind_dst:{target} size:{4096 * (1 + i)} dest:0 async:1"
                ),
                tf_op=f"{name}:{kind}",
            )
            self.correlation += 1


def synthetic_trace(steps: int) -> bytes:
    """Write a trace of so many steps; 380 make 97 MB."""
    writer = _Writer()
    for number in range(steps):
        writer.step(number)
    writer.space.planes.add(name="Task Environment")
    content: bytes = writer.space.SerializeToString(deterministic=True)
    return content
