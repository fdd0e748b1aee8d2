"""A small capture file that has something of everything."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from hypothesis import strategies as st

from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaptureNote,
    CaughtError,
    EagerSequence,
    Frame,
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
from traceanalyzer.trace.xplane import ProfileOptions

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
        sessions=(
            Session(
                trace="h.xplane.pb",
                method="server",
                requested=ProfileOptions(
                    host_tracer_level=3, device_tracer_level=1, python_tracer_level=0
                ),
                start_ns=1_700_000_000_000_000_000,
                stop_ns=1_700_000_001_000_000_000,
                reason="the script ended",
            ),
        ),
        notes=(CaptureNote(id="threads", severity="info", message="one thread went on"),),
        errors=(
            CaughtError(
                where="tf.config",
                type="RuntimeError",
                message="Visible devices cannot be modified after being initialized",
                raised=(0,),
                handler=-1,
            ),
        ),
        session_configs=(
            SessionConfig(
                is_own=True,
                is_local=True,
                soft_placement=False,
                device_types=("CPU",),
                device_count={"GPU": 0},
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
                signatures=np.array([0, 1], np.uint32),
                counts=np.array([1, 2], np.uint32),
            ),
        ),
        omitted={"functions": 1},
    )


# --- Arbitrary ones -------------------------------------------------------------------------------

_texts = st.text(max_size=6)
_scalars = st.none() | st.booleans() | st.integers() | _texts
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2)
)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: _texts,
    bool: st.booleans(),
    int: st.integers(0, 2**62),
    float: st.floats(0, 1),
    Any: _json,
}
_POOLS = ("frames", "scopes", "attributes", "signatures", "resources", "sessions")
# The fields that are indices: into which pool, and the lowest.
_INDICES = {
    **dict.fromkeys(("frame", "frames", "handler", "scope_frame", "library", "libraries"),
                    ("frames", -1)),
    **dict.fromkeys(("raised", "chosen"), ("frames", 0)),
    "attributes": ("attributes", -1),
    "scopes": ("scopes", 0),
    "resource": ("resources", 0),
    "origin": ("resources", -2),
    "signature": ("signatures", -1),
    "signatures": ("signatures", 0),
    "session": ("sessions", -1),
}  # fmt: skip
_OF_COLUMNS = (Definition, Graph, Partition, EagerSequence)


def _values(  # noqa: PLR0911 - one for each kind of type
    hint: Any,  # noqa: ANN401
    sizes: dict[str, int],
    whole: st.SearchStrategy[int],
    size: int | None = None,
) -> st.SearchStrategy[Any]:
    """Values of a type, as a file with pools of these sizes may have them.

    Args:
        whole: The whole numbers that the field may have.
        size: How long a column is; None for any length.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _values(arguments[0], sizes, whole, size)
    if hint is int or origin is np.ndarray:
        numbers = st.lists(whole, min_size=size or 0, max_size=size).map(
            lambda drawn: np.array(drawn, np.uint32)
        )
        return whole if hint is int else numbers
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in {Union, UnionType}:
        return st.one_of(*(_values(each, sizes, whole) for each in arguments))
    if hint is NoneType:
        return st.none()
    if origin in {tuple, frozenset}:
        inner = _values(arguments[0], sizes, whole)
        if inner.is_empty:
            return st.just(origin()) if not size else st.nothing()
        return st.lists(inner, min_size=size or 0, max_size=3 if size is None else size).map(origin)
    if origin is Mapping:
        return st.dictionaries(_texts, _values(arguments[1], sizes, whole), max_size=2)
    return _records(hint, sizes)


@st.composite
def _records(draw: st.DrawFn, kind: type, sizes: dict[str, int]) -> Any:  # noqa: ANN401
    size = draw(st.integers(0, 3)) if kind in _OF_COLUMNS else None
    if kind is EagerSequence and not sizes["signatures"]:
        size = 0
    is_whole = kind is CaptureFile
    drawn: dict[str, Any] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        whole = _PLAIN[int]
        if name in _INDICES and (not is_whole or name == "chosen"):
            pool, low = _INDICES[name]
            whole = st.integers(low, sizes[pool] - 1) if low < sizes[pool] else st.nothing()
        elif name == "counts":
            whole = st.integers(0, 2**32 - 1)
        length = sizes.get(name) if is_whole else size
        if name == "assigned":
            length = len(drawn["input"])
        drawn[name] = draw(_values(hint, sizes, whole, length))
    return kind(**drawn)


@st.composite
def capture_files(draw: st.DrawFn) -> CaptureFile:
    """CaptureFiles whose indices point to something."""
    sizes = {pool: draw(st.integers(0, 3)) for pool in _POOLS}
    return draw(_records(CaptureFile, sizes))
