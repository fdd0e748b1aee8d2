"""A small capture file that has something of everything."""

from __future__ import annotations

import numpy as np

from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaughtError,
    EagerSequence,
    Frame,
    Note,
    RegisteredKernel,
    Resource,
    Scope,
    Session,
    SessionConfig,
    Signature,
    Tensor,
)
from traceanalyzer.capture_file.function_records import (
    Definition,
    Function,
    Graph,
    Instance,
    Partition,
)
from traceanalyzer.trace.profile_options import ProfileOptions

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


def sample() -> CaptureFile:
    """A step that multiplies on the CPU, called twice."""
    return CaptureFile(
        tool="0.1.0",
        host="h",
        complete=True,
        command=("traceanalyzer", "capture", "train.py"),
        environment={"tensorflow": {"version": "2.21.0"}},
        devices={"soft_device_placement": True},
        gpus=({"name": "H100", "memory_bytes": 85_899_345_920},),
        log=("Created device /device:GPU:0",),
        log_source="script",
        sessions=(
            Session(
                trace="h.xplane.pb",
                method="server",
                requested=ProfileOptions(
                    host_tracer_level=3, device_tracer_level=1, python_tracer_level=0
                ),
                effective=None,
                start_ns=1_700_000_000_000_000_000,
                stop_ns=1_700_000_001_000_000_000,
                reason="the script ended",
            ),
        ),
        notes=(Note(id="threads", severity="info", message="one thread went on"),),
        errors=(
            CaughtError(
                where="tf.config",
                type="RuntimeError",
                message="Visible devices cannot be modified after being initialized",
                raised=(0,),
                handler=-1,
                call="set_visible_devices",
            ),
        ),
        session_configs=(
            SessionConfig(
                is_own=True,
                is_local=True,
                soft_placement=False,
                device_types=("CPU",),
                device_count={"GPU": 0},
                memory_fraction=0.5,
                rewrites={"remapping": "OFF", "optimizers": ["pruning"]},
            ),
        ),
        frames=(
            Frame(
                file="/project/train.py", line=11, code="step", is_user=True, text="return x @ x"
            ),
            Frame(file="/project/train.py", line=30, code="<module>", is_user=True),
            Frame(file="/lib/site-packages/nets/layer.py", line=3, code="call", is_user=False),
        ),
        scopes=(Scope(device="/CPU:0", frame=0, origin=0),),
        attributes=({"T": "float"}, {"T": "float", "index": 0}, {}),
        definitions=(
            Definition(
                name="__inference_step_9",
                nodes=("x", "mm"),
                frames=(-1, 0),
                scopes=(None, (0,)),
                libraries=(-1, 2),
            ),
        ),
        functions=(
            Function(
                name="__inference_step_9",
                instances=(
                    Instance(
                        input=Graph(
                            names=("x", "mm"),
                            ops=("_Arg", "MatMul"),
                            inputs=((), ("x", "x:0")),
                            devices=(GPU, "/device:CPU:0"),
                            attributes=(1, 0),
                            origin_functions=("", "__inference_inner_4"),
                            origin_nodes=("", "inner/mm"),
                            producer=2474,
                        ),
                        assigned=(GPU, CPU),
                        partitions=(
                            Partition(
                                device=CPU,
                                names=("mm",),
                                ops=("_MklMatMul",),
                                attributes=(0,),
                                origin_functions=("",),
                                origin_nodes=("",),
                            ),
                        ),
                        count=2,
                    ),
                ),
            ),
        ),
        signatures=(
            Signature(
                op="VarHandleOp",
                is_function=False,
                scope="",
                scope_frame=-1,
                frame=1,
                attributes=2,
                inputs=(),
                outputs=(
                    Tensor(dtype="resource", device=GPU, backing_device=GPU, resource=0, shape=()),
                ),
            ),
            Signature(
                op="__inference_step_9",
                is_function=True,
                scope="/CPU:0",
                scope_frame=1,
                scopes=(0,),
                frame=1,
                attributes=2,
                inputs=(
                    Tensor(
                        dtype="float", device=GPU, backing_device=GPU, resource=None, shape=(4, 4)
                    ),
                ),
                outputs=(),
            ),
        ),
        resources=(
            Resource(
                signature=0, name="weights", dtype="float", shape=(4, 4), bytes=64, device=GPU
            ),
        ),
        kernels=(
            RegisteredKernel(
                op="SoftClip", device_type="CPU", constraints={"T": ("float",), "n": (1, True)}
            ),
        ),
        sequences=(
            EagerSequence(
                thread=0,
                name="MainThread",
                session=0,
                first_index=0,
                signatures=np.array([0, 1], np.uint32),
                counts=np.array([1, 2], np.uint32),
            ),
        ),
        omitted={"functions": 1},
    )
