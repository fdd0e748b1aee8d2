"""A small capture file that has something of everything, and arbitrary ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import numpy as np
from hypothesis import strategies as st

from traceanalyzer.capture_file.decode import hints_of
from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaughtError,
    EagerSequence,
    Frame,
    Levels,
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
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: _texts,
    bool: st.booleans(),
    int: st.integers(0, 2**62),
    float: st.floats(0, 1),
    Any: _json,
}
_POOLS = ("frames", "scopes", "attributes", "signatures", "resources", "sessions")
_OF_COLUMNS = (Definition, Graph, Partition, EagerSequence)


def _values(hint: Any, sizes: dict[str, int], size: int | None = None) -> st.SearchStrategy[Any]:  # noqa: ANN401, PLR0911
    """Values of a type, as a file with pools of these sizes may have them.

    Args:
        hint: The type of a field.
        sizes: How many entries each pool has.
        size: How long a column is; None for any length.
    """
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated and arguments[0] is str:
        return _texts
    if origin is Annotated:
        low, high = arguments[1].low, sizes[arguments[1].pool] - 1
        numbers = st.integers(low, high) if low <= high else st.nothing()
        if arguments[0] is int:
            return numbers
        counted = st.lists(
            st.integers(0, max(0, min(high, 2**32 - 1))), min_size=size or 0, max_size=size
        )
        return counted.map(lambda drawn: np.array(drawn, np.uint32))
    if NoneType in arguments or origin is UnionType:
        return st.one_of(*(st.none() if a is NoneType else _values(a, sizes) for a in arguments))
    if origin in {tuple, frozenset}:
        inner = _values(arguments[0], sizes)
        if inner.is_empty:
            return st.just(origin()) if not size else st.nothing()
        return st.lists(inner, min_size=size or 0, max_size=3 if size is None else size).map(origin)
    if origin is Mapping:
        return st.dictionaries(_texts, _values(arguments[1], sizes), max_size=2)
    return _records(hint, sizes)


@st.composite
def _records(draw: st.DrawFn, kind: type, sizes: dict[str, int]) -> Any:  # noqa: ANN401
    hints = {name: hint for name, hint in hints_of(kind).items() if not name.startswith("_")}
    size = draw(st.integers(0, 3)) if kind in _OF_COLUMNS else None
    if kind is EagerSequence and not sizes["signatures"]:
        size = 0
    drawn = {name: draw(_values(hint, sizes, size)) for name, hint in hints.items()}
    if kind is Instance:
        drawn["assigned"] = draw(_values(hints["assigned"], sizes, len(drawn["input"])))
    return kind(**drawn)


@st.composite
def capture_files(draw: st.DrawFn) -> CaptureFile:
    """CaptureFiles whose indices point to something."""
    sizes = {pool: draw(st.integers(0, 3)) for pool in _POOLS} | {"": 2**40}
    hints = hints_of(CaptureFile)
    return CaptureFile(
        **{
            name: draw(_values(hint, sizes, sizes.get(name)))
            for name, hint in hints.items()
            if not name.startswith("_")
        }
    )
