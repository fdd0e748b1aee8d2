"""Runs of which no sample is recorded, for the kinds of page that they lead to: A, B, and E.

No sample was recorded on a GPU. These traces are written by hand, in the words of `tests.traces`:
their times are invented. What is real is what the page explains in A: the program, its graph, and
its source are those that the capture of the sample `recommender` recorded; the devices of its ops
are those on which a replay of TensorFlow's placer puts them on a machine with a GPU.

- A, `costly`: a GPU waits in each step for ops that TensorFlow put on the CPU.
- B, `fine`: nothing on the CPU costs time; the input pipeline does.
- E, `nothing`: a JAX program, about which the question does not arise.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import traceanalyzer as ta
from tests.traces import (
    Event,
    call,
    copy,
    event,
    executor,
    gpu,
    host,
    iterator,
    keras_step,
    kernel,
    launch,
    line,
    op,
    send,
    step,
    stream,
    thread,
    us,
    write,
    xla_kernel,
    xspace,
)
from traceanalyzer.capture_file import files as capture_files
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.placement.devices import machine_of, with_gpus
from traceanalyzer.placement.program import ProgramPlacement

_RECOMMENDER: Final = (
    Path(__file__).parents[1] / "sample_traces/recommender/logs/plugins/profile/sample"
)
_STEPS: Final = 12
_FIRST_US: Final = 400  # of the first step
_TRAIN_STEP: Final = "__inference_train_step_292"
_LAUNCH_US: Final = 9  # of the host, for an op on the GPU
_CPU_US: Final = {
    "ResourceScatterAdd": 450,
    "embedding_lookup": 420,
    "ResourceScatterSub": 380,
    "EagerPyFunc": 600,
}
_KERNEL_US: Final = {"MatMul": 90, "ConcatV2": 40, "Select": 35, "ResourceGather": 45}
_OTHER_KERNEL_US: Final = 24
_ROWS_BYTES: Final = 2048  # 64 rows of 8 floats
_STEP_US: Final = 3_200
# In the order of the graph; without constants, shapes, and what Grappler removes.
_BEFORE: Final = ("embedding_lookup_1:ResourceGather", "embedding_lookup_2:ResourceGather")
_BETWEEN: Final = (
    *("concat:ConcatV2", "MatMul/ReadVariableOp:ReadVariableOp", "MatMul:MatMul"),
    *("Squeeze:Squeeze", "logistic_loss/GreaterEqual:GreaterEqual", "logistic_loss/Select:Select"),
    *("logistic_loss/Neg:Neg", "logistic_loss/Select_1:Select", "logistic_loss/mul:Mul"),
    *("logistic_loss/sub:Sub", "logistic_loss/Exp:Exp", "logistic_loss/Log1p:Log1p"),
    *(
        "logistic_loss:AddV2",
        "Mean:Mean",
        "gradient_tape/Tile:Tile",
        "gradient_tape/truediv:RealDiv",
    ),
    *("gradient_tape/logistic_loss/add:AddV2", "gradient_tape/logistic_loss/mul:Mul"),
    *("gradient_tape/logistic_loss/Select:Select", "AddN:AddN"),
    *("gradient_tape/MatMul/MatMul:MatMul", "gradient_tape/MatMul/MatMul_1:MatMul"),
    *("gradient_tape/Slice:Slice", "gradient_tape/Slice_1:Slice", "gradient_tape/Slice_2:Slice"),
    *("mul_1:Mul", "ResourceScatterSub_1:ResourceScatterSub", "mul_2:Mul"),
    *("ResourceScatterSub_2:ResourceScatterSub", "mul:Mul"),
)
_AFTER: Final = ("mul_3:Mul", "AssignSubVariableOp:AssignSubVariableOp")


# --- A ---------------------------------------------------------------------------------------


def costly(folder: Path) -> Path:
    """Write the run of `recommender` on a GPU, with its capture file; return the log directory."""
    (captured,) = _RECOMMENDER.glob(f"*{capture_files.SUFFIX}")
    capture_file = capture_files.read(captured)
    assert capture_file is not None
    python, worker, other, kernels, copies = [], [], [], [], []
    correlation = 1
    for number in range(_STEPS):
        made = _CostlyStep(_FIRST_US + number * _STEP_US, number, correlation)
        correlation = made.correlation
        python.append(made.python)
        worker.append(made.worker)
        other.append(made.callback)
        kernels += made.kernels
        copies += made.copies
    space = xspace(
        host(
            line("python")(*python),
            thread("tf_Compute", 2001)(*worker),
            thread("tf_Compute", 2002)(*other),
        ),
        gpu(0)(stream(13, "Compute")(*kernels), stream(14, "MemcpyH2D,MemcpyD2H")(*copies)),
        hostname=capture_file.host,
    )
    write(folder, space, run="recommender-on-a-gpu", host=capture_file.host)
    (trace,) = folder.glob("plugins/profile/*/*.xplane.pb")
    capture_files.write(on_a_gpu(capture_file), capture_files.path_beside(trace))
    return folder


class _CostlyStep:
    """A step of `recommender`: a thread runs its ops one after the other."""

    def __init__(self, begin_us: int, number: int, correlation: int) -> None:
        self.correlation = correlation
        self.kernels: list[Event] = []
        self.copies: list[Event] = []
        self._ops: list[Event] = []
        self._at_us = begin_us + 60
        self._device_us = float(self._at_us)
        self._cpu("ResourceScatterAdd:ResourceScatterAdd")
        self._cpu("embedding_lookup:ResourceGather")
        self._transfer("embedding_lookup", "concat", "H2D", edge=1)
        for name in (*_BEFORE, *_BETWEEN):
            self._on_gpu(name)
        self._transfer("mul", "ResourceScatterSub", "D2H", edge=2)
        self._at_us = int(self._device_us) + 4
        self._cpu("ResourceScatterSub:ResourceScatterSub")
        for name in _AFTER:
            self._on_gpu(name)
        context = {"step": -7 - number, "context": 77 + number}
        end_us = max(self._at_us, int(self._device_us)) + 20
        start, took = begin_us + 40, end_us - begin_us - 40
        self.worker = executor(us(start, took), **context)(*self._ops)
        self.callback = executor(us(start + 20, _CPU_US["EagerPyFunc"] + 20), **context)(
            op("EagerPyFunc", "EagerPyFunc", us(start + 30, _CPU_US["EagerPyFunc"]))
        )
        called = call(_TRAIN_STEP, us(begin_us + 15, end_us + 10 - begin_us - 15), **context)
        self.python = step(number + 4, us(begin_us, _STEP_US - 20), name="train_step")(called)

    def _cpu(self, op_name: str) -> None:
        name, op_type = op_name.split(":")
        took = _CPU_US[name]
        self._ops.append(op(name, op_type, us(self._at_us, took)))
        self._at_us += took + 2

    def _on_gpu(self, op_name: str) -> None:
        name, op_type = op_name.split(":")
        inside = launch(us(self._at_us + 3, 4), self.correlation)
        self._ops.append(op(name, op_type, us(self._at_us, _LAUNCH_US))(inside))
        start = max(self._device_us, self._at_us + 8.0)
        took = _KERNEL_US.get(op_type, _OTHER_KERNEL_US)
        at = us(start, took)
        self.kernels.append(kernel(f"{op_type}_kernel", at, op_name, correlation=self.correlation))
        self._device_us = start + took + 1
        self._at_us += _LAUNCH_US + 1
        self.correlation += 1

    def _transfer(self, producer: str, consumer: str, direction: str, *, edge: int) -> None:
        ends = ("CPU:0", "GPU:0") if direction == "H2D" else ("GPU:0", "CPU:0")
        api = {"H2D": "cuMemcpyHtoDAsync", "D2H": "cuMemcpyDtoHAsync"}[direction]
        inside = launch(us(self._at_us + 2, 5), self.correlation, api)
        sent = send(producer, consumer, us(self._at_us, 10), *ends, edge=edge)
        self._ops.append(replace(sent, inside=(inside,)))
        start = max(self._device_us, self._at_us + 8.0)
        self.copies.append(
            copy(
                direction,
                _ROWS_BYTES,
                us(start, 7),
                f"{producer}/_{edge}:_Send",
                correlation=self.correlation,
            )
        )
        self._device_us = start + 8
        self._at_us += 11
        self.correlation += 1


def on_a_gpu(capture_file: CaptureFile) -> CaptureFile:
    """Return what a capture would have recorded on a machine with a GPU, by the placer's replay."""
    machine = with_gpus(machine_of(capture_file))
    program = ProgramPlacement(capture_file, machine)
    functions = []
    for function in capture_file.functions:
        (placed,) = program.functions[function.name]
        devices = placed.placement.devices
        (instance,) = function.instances
        graph = instance.input
        on = tuple(devices.get(at, "") for at in range(len(graph)))
        # An argument is assigned to the device that it is on.
        asked = tuple(
            d if kind in {"_Arg", "_Retval"} else request
            for kind, request, d in zip(graph.ops, graph.devices, on, strict=True)
        )
        made = replace(instance, input=replace(graph, devices=asked), assigned=on, partitions=())
        functions.append(replace(function, instances=(made,)))
    resources = tuple(
        replace(resource, device=device or resource.device)
        for resource, device in zip(capture_file.resources, program.resources, strict=True)
    )
    signatures = tuple(
        replace(
            signature,
            inputs=tuple(
                tensor
                if tensor.resource is None
                else replace(tensor, device=resources[tensor.resource].device)
                for tensor in signature.inputs
            ),
            outputs=tuple(
                replace(tensor, device=eager.device or tensor.device)
                for tensor in signature.outputs
            ),
        )
        for signature, eager in zip(capture_file.signatures, program.eager, strict=True)
    )
    gpu_and_cpu = [{"name": f"/device:{kind}:0", "type": kind} for kind in ("GPU", "CPU")]
    physical = [{**d, "name": f"/physical_device:{d['type']}:0"} for d in gpu_and_cpu]
    return replace(
        capture_file,
        devices={
            **(capture_file.devices or {}),
            "logical": gpu_and_cpu,
            "physical": physical,
            "visible": physical,
        },
        environment={**(capture_file.environment or {}), "variables": {}},
        functions=tuple(functions),
        resources=resources,
        signatures=signatures,
        visibility=(),
        sequences=(),
        sessions=(),
        notes=(),
        log=(),
    )


# --- B ---------------------------------------------------------------------------------------


_LAYERS: Final = ("conv", "conv_1", "dense", "dense_1")


def fine(folder: Path, stage: str = "Root::Map") -> Path:
    """Write a Keras model on a GPU that waits for its input pipeline; return the log directory."""
    python, worker, reader, kernels, copies = [], [], [], [], []
    correlation = 1
    for number in range(_STEPS):
        begin = _FIRST_US + number * 4_000
        context = {"step": -7 - number, "context": 77 + number}
        ops = [op("IteratorGetNext", "IteratorGetNext", us(begin + 30, 520))]
        at, device = begin + 560, begin + 575.0
        for name, kind, took in _fine_ops():
            ops.append(op(name, kind, us(at, _LAUNCH_US))(launch(us(at + 3, 4), correlation)))
            start = max(device, at + 8.0)
            kernels.append(
                kernel(
                    f"{kind.lower()}_fp32",
                    us(start, took),
                    f"{name}:{kind}",
                    correlation=correlation,
                )
            )
            at, device, correlation = at + _LAUNCH_US + 1, start + took + 1, correlation + 1
        end = int(device) + 30
        worker.append(executor(us(begin + 20, end - begin - 20), **context)(*ops))
        called = call("__inference_train_function_812", us(begin + 10, end + 15 - begin), **context)
        python.append(keras_step(number, us(begin, 3_980))(called))
        reader.append(iterator(stage, us(begin + 100, 420)))
    space = xspace(
        host(
            line("python")(*python),
            thread("tf_Compute", 2001)(*worker),
            thread("tf_data_iterator", 2003)(*reader),
        ),
        gpu(0)(stream(13, "Compute")(*kernels), stream(14, "MemcpyH2D")(*copies)),
    )
    return write(folder, space, run="keras-on-a-gpu")


def _fine_ops() -> Iterator[tuple[str, str, int]]:
    for layer in _LAYERS:
        kind = "Conv2D" if layer.startswith("conv") else "MatMul"
        yield f"model/{layer}/{kind}", kind, 310
        yield f"model/{layer}/BiasAdd", "BiasAdd", 40
        yield f"model/{layer}/Relu", "Relu", 35
    for layer in reversed(_LAYERS):
        kind = "Conv2DBackpropFilter" if layer.startswith("conv") else "MatMul"
        yield f"gradient_tape/model/{layer}/{kind}", kind, 300
        yield f"Adam/update/{layer}/ResourceApplyAdam", "ResourceApplyAdam", 45


# --- E ---------------------------------------------------------------------------------------


def nothing(folder: Path) -> Path:
    """Write a JAX program on a GPU; return the log directory."""
    python, kernels = [], []
    names = ("fusion", "dot", "add", "dot_1", "reduce")
    for number in range(_STEPS):
        begin = _FIRST_US + number * 1_500
        starts = [begin + 80 + 250 * k for k in range(len(names) + 1)]
        for name, (start, end) in zip(names, pairwise(starts), strict=True):
            kernels.append(
                xla_kernel(name, us(start, end - start - 20), hlo_op=name, module="jit_train_step")
            )
        python.append(
            step(number, us(begin, 1_480))(event("PjitFunction(train_step)", us(begin + 20, 1_400)))
        )
    space = xspace(host(line("python")(*python)), gpu(0)(stream(13, "Compute")(*kernels)))
    return write(folder, space, run="jax-on-a-gpu")


def write_pages(folder: Path) -> dict[str, Path]:
    """Write the page of each kind."""
    pages = {}
    for kind, make in KINDS.items():
        pages[kind] = folder / f"{kind}.html"
        diagnosis = ta.diagnose(ta.load(make(folder / kind)))
        ta.write_report(diagnosis, html=pages[kind])
    return pages


KINDS: Final[dict[str, Callable[[Path], Path]]] = {"A": costly, "B": fine, "E": nothing}
