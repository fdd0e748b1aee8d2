"""A small capture file that has something of everything, and arbitrary ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaughtError,
    Definition,
    EagerSequence,
    Frame,
    Function,
    Graph,
    Instance,
    Levels,
    Note,
    Partition,
    RegisteredKernel,
    Resource,
    Scope,
    Session,
    SessionConfig,
    Signature,
    Tensor,
)

__all__ = ["CPU", "GPU", "capture_files", "sample"]

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
                requested=Levels(host_tracer_level=3, device_tracer_level=1, python_tracer_level=0),
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


_texts = st.text(max_size=6)
_scalars = st.none() | st.booleans() | st.integers() | _texts
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2)
)
_objects = st.dictionaries(_texts, _json, max_size=2)
_times = st.integers(0, 2**62)
_shapes = st.none() | st.lists(st.integers(-1, 2**40), max_size=3).map(tuple)
_levels = st.none() | st.builds(
    Levels,
    host_tracer_level=st.integers(0, 3),
    device_tracer_level=st.integers(0, 1),
    python_tracer_level=st.integers(0, 1),
)


def _tuples(each: st.SearchStrategy[Any], size: int | None = None) -> st.SearchStrategy[Any]:
    low, high = (0, 3) if size is None else (size, size)
    return st.lists(each, min_size=low, max_size=high).map(tuple)


@st.composite
def _columns(draw: st.DrawFn, sets: int) -> dict[str, Any]:
    """The columns that a graph and a partition share."""
    size = draw(st.integers(0, 3))
    columns = {key: _tuples(_texts, size) for key in ("names", "ops")}
    origins = {key: _tuples(_texts, size) for key in ("origin_functions", "origin_nodes")}
    attributes = {"attributes": _tuples(st.integers(-1, sets - 1), size)}
    return draw(st.fixed_dictionaries({**columns, **origins, **attributes}))


@st.composite
def _instances(draw: st.DrawFn, sets: int) -> Instance:
    columns = draw(_columns(sets))
    size = len(columns["names"])
    graph = Graph(
        **columns,
        inputs=draw(_tuples(_tuples(_texts), size)),
        devices=draw(_tuples(_texts, size)),
        producer=draw(st.integers(0, 3000)),
    )
    partitions = [
        Partition(device=draw(_texts), **draw(_columns(sets)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    return Instance(
        input=graph,
        assigned=draw(_tuples(_texts, size)),
        partitions=tuple(partitions),
        count=draw(st.integers(1, 5)),
    )


@st.composite
def _definitions(draw: st.DrawFn, frames: int, scopes: int) -> Definition:
    size = draw(st.integers(0, 3))
    stack = _tuples(st.integers(0, scopes - 1)) if scopes else st.just(())
    return Definition(
        name=draw(_texts),
        nodes=draw(_tuples(_texts, size)),
        frames=draw(_tuples(st.integers(-1, frames - 1), size)),
        scopes=draw(_tuples(st.none() | stack, size)),
        libraries=draw(st.just(()) | _tuples(st.integers(-1, frames - 1), size)),
    )


@st.composite
def _sequences(draw: st.DrawFn, sessions: int, signatures: int) -> EagerSequence:
    size = draw(st.integers(0, 4)) if signatures else 0
    which = st.integers(0, max(signatures - 1, 0))
    return EagerSequence(
        thread=draw(st.integers(0, 9)),
        name=draw(_texts),
        session=draw(st.integers(-1, sessions - 1)),
        first_index=draw(st.integers(0, 9)),
        signatures=np.array(draw(_tuples(which, size)), np.uint32),
        counts=np.array(draw(_tuples(st.integers(0, 2**32 - 1), size)), np.uint32),
    )


@st.composite
def capture_files(draw: st.DrawFn) -> CaptureFile:
    """CaptureFiles whose indices point to something."""
    frames = draw(
        _tuples(
            st.builds(
                Frame,
                file=_texts,
                line=st.integers(0, 9),
                code=_texts,
                is_user=st.booleans(),
                text=st.none() | _texts,
            )
        )
    )
    frame = st.integers(-1, len(frames) - 1)
    count = draw(st.integers(0, 2))  # of resources
    origin = st.none() | st.integers(-2, count - 1)
    scopes = draw(_tuples(st.builds(Scope, device=_texts, frame=frame, origin=origin)))
    attributes = draw(_tuples(_objects))
    tensors = st.builds(
        Tensor,
        dtype=_texts,
        device=_texts,
        backing_device=_texts,
        resource=st.none() | (st.integers(0, count - 1) if count else st.none()),
        shape=_shapes,
    )
    signatures = draw(
        _tuples(
            st.builds(
                Signature,
                op=_texts,
                is_function=st.booleans(),
                scope=_texts,
                scope_frame=frame,
                scopes=_tuples(st.integers(0, len(scopes) - 1)) if scopes else st.just(()),
                frame=frame,
                library=frame,
                attributes=st.integers(-1, len(attributes) - 1),
                inputs=_tuples(tensors),
                outputs=_tuples(tensors),
            )
        )
    )
    resources = st.builds(
        Resource,
        signature=st.integers(-1, len(signatures) - 1),
        name=_texts,
        dtype=_texts,
        shape=_shapes,
        bytes=st.none() | _times,
        device=_texts,
    )
    sessions = draw(
        _tuples(
            st.builds(
                Session,
                trace=st.none() | _texts,
                method=_texts,
                requested=_levels,
                effective=_levels,
                start_ns=_times,
                stop_ns=st.none() | _times,
                reason=_texts,
                proof=st.none() | _texts,
            )
        )
    )
    errors = st.builds(
        CaughtError,
        where=_texts,
        type=_texts,
        message=_texts,
        raised=_tuples(st.integers(0, len(frames) - 1)) if frames else st.just(()),
        handler=frame,
        call=st.none() | _texts,
    )
    session_configs = st.builds(
        SessionConfig,
        is_own=st.booleans(),
        is_local=st.booleans(),
        soft_placement=st.booleans(),
        log_placement=st.booleans(),
        device_count=st.dictionaries(_texts, st.integers(0, 9), max_size=2),
        memory_fraction=st.none() | st.floats(0, 1),
        rewrites=_objects,
    )
    kernels = st.builds(
        RegisteredKernel,
        op=_texts,
        device_type=_texts,
        constraints=st.dictionaries(
            _texts, _tuples(_texts | st.integers() | st.booleans()), max_size=2
        ),
        host_memory_args=_tuples(_texts),
        priority=st.integers(0, 9),
        label=_texts,
    )
    functions = st.builds(Function, name=_texts, instances=_tuples(_instances(len(attributes))))
    return CaptureFile(
        tool=draw(_texts),
        host=draw(_texts),
        complete=draw(st.booleans()),
        command=draw(st.none() | _tuples(_texts)),
        environment=draw(st.none() | _objects),
        devices=draw(st.none() | _objects),
        gpus=draw(_tuples(_objects)),
        log=draw(_tuples(_texts)),
        log_source=draw(_texts),
        sessions=sessions,
        notes=draw(_tuples(st.builds(Note, id=_texts, severity=_texts, message=_texts))),
        errors=draw(_tuples(errors)),
        session_configs=draw(_tuples(session_configs)),
        frames=frames,
        scopes=scopes,
        attributes=attributes,
        definitions=draw(_tuples(_definitions(len(frames), len(scopes)))),
        functions=draw(_tuples(functions)),
        signatures=signatures,
        resources=draw(_tuples(resources, count)),
        kernels=draw(_tuples(kernels)),
        sequences=draw(_tuples(_sequences(len(sessions), len(signatures)))),
        omitted=draw(st.dictionaries(_texts, st.integers(0, 9), max_size=2)),
    )
