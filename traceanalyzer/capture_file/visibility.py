"""Why TensorFlow saw no GPU, as far as a capture recorded it.

Log texts are TensorFlow's, of 2.12 to 2.21, each with its source file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from traceanalyzer.capture_file.document import NO_SOURCE
from traceanalyzer.capture_file.syntax import FUNCTIONS, decides, is_text, statements, syntax_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import (
        CaptureFile,
        Frame,
        SessionConfig,
        VisibilityChoice,
    )
    from traceanalyzer.model import Certainty

# How a line came to hide the GPUs; `NO_SOURCE` is another.
OUTRIGHT: Final = "outright"  # whatever the machine has
UNLESS_SET: Final = "unless_set"  # if the variable is not set already
CONDITION: Final = "condition"
COMPUTED: Final = "computed"
_CALL: Final = "set_visible_devices"
_LISTS: Final = frozenset({"list_physical_devices", "list_logical_devices"})
_EXITS: Final = frozenset({"exit", "_exit", "quit", "abort"})

# Messages of TensorFlow on stderr, and what they mean.
_LOG_LINES: Final = (
    # gpu_device.cc, after looking for cuDNN, cuBLAS and the like
    ("libraries_not_loaded", "Cannot dlopen some GPU libraries"),
    # gpu_device.cc, BaseGPUDeviceFactory::GetValidDeviceIds
    ("filtered_by_tf", "Ignoring visible gpu device"),
    # cudart_stub.cc
    ("driver_not_found", "Could not find cuda drivers on your machine"),
    # the dynamic loader, asked by the capture; cudart_stub.cc asks it the same
    ("driver_not_found", "libcuda.so.1: "),
    # cuda_platform.cc, before 2.14 cuda_driver.cc
    ("cuda_init_failed", "failed call to cuInit"),
)

# CUDA uses the list up to the first entry that is neither a device number nor a UUID.
_NAMES_A_GPU: Final = re.compile(r"\s*(?:\+?\d|GPU-|MIG-)")

_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
_CERTAIN: Final[tuple[Certainty, str]] = ("certain", "")
_LIKELY: Final = frozenset({UNLESS_SET, CONDITION})
# Why a line may not hide the GPU on a machine that has one.
_PROVISOS: Final = {
    UNLESS_SET: f"It sets {_VARIABLE} only if that is not set already, for example by a shell.",
    CONDITION: "The line depends on a condition, or another line may undo it.",
    COMPUTED: "The line computes the value, from arguments or from the GPUs there are.",
}
_NO_LINE: Final = "What decides this was not recorded."


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps TensorFlow from seeing a GPU."""

    #: A stable key, see `causes/data/gpu_obstacles.toml`.
    reason: str
    #: What shows it.
    text: str
    #: Whether no GPU is visible because of this alone.
    hides_all: bool
    #: The program's line that does it.
    frame: Frame | None = None
    #: Whether the program does the same on a machine with a GPU; None if it is not the program.
    certainty: Certainty | None = None
    #: What that depends on, in a sentence; "" for nothing.
    proviso: str = ""


def saw_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether the capture shows that TensorFlow had no GPU to place ops on."""
    if ran_in_sessions_alone(capture_file):
        return _sessions_have_no_gpu(capture_file)
    devices = capture_file.devices or {}
    logical = devices.get("logical")
    return (
        bool(devices.get("context_made"))
        and isinstance(logical, list)
        and bool(logical)
        and not any(_type(device) == "GPU" for device in logical)
    )


def ran_in_sessions_alone(capture_file: CaptureFile) -> bool:
    """Return whether the capture shows that a program ran nothing outside of sessions.

    TensorFlow creates its eager context when a program first does something outside a session, or
    lists devices; a session with a configuration needs none.
    """
    made = (capture_file.devices or {}).get("context_made")
    return made is False and bool(capture_file.session_configs)


def _sessions_have_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether no recorded session had a GPU, and none used one."""
    had_none = all(
        _excludes_gpus(config) or (config.device_types and "GPU" not in config.device_types)
        for config in capture_file.session_configs
    )
    instances = (each for graph in capture_file.session_graphs() for each in graph.instances)
    used = any("/device:GPU:" in device for each in instances for device in each.assigned)
    return bool(capture_file.session_configs) and had_none and not used


def _excludes_gpus(config: SessionConfig) -> bool:
    """Return whether the program configures a session without a GPU.

    A session in the process creates its own devices, at most as many as configured
    (`BaseGPUDeviceFactory::CreateDevices`, core/common_runtime/gpu/gpu_device.cc); a server's
    devices were created with the server.
    """
    return config.is_own and config.is_local and config.device_count.get("GPU") == 0


def only_some_sessions_have_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether the program wants some of its sessions without a GPU, but not all of them."""
    excluded = [_excludes_gpus(config) for config in capture_file.session_configs]
    return any(excluded) and not all(excluded)


def obstacles(capture_file: CaptureFile) -> tuple[Obstacle, ...]:
    """Return what kept TensorFlow from seeing a GPU, the most decisive first."""
    return tuple(_obstacles(capture_file))


def _obstacles(capture_file: CaptureFile) -> Iterator[Obstacle]:
    devices, environment = capture_file.devices or {}, capture_file.environment or {}
    tensorflow = _mapping(environment.get("tensorflow"))
    build = _mapping(tensorflow.get("build"))
    if build.get("is_cuda_build") is False and build.get("is_rocm_build") is not True:
        yield Obstacle(
            reason="cpu_only_build",
            text=(
                f"this build of TensorFlow {tensorflow.get('version')} supports only CPUs "
                "(tf.sysconfig.get_build_info())"
            ),
            hides_all=True,
        )
    yield from _hidden_by_config(capture_file, devices)
    yield from _hidden_by_variable(capture_file, devices, environment)
    if _sessions_have_no_gpu(capture_file) and all(
        map(_excludes_gpus, capture_file.session_configs)
    ):
        yield Obstacle(
            reason="hidden_by_session",
            text="the program's sessions have a ConfigProto with device_count={'GPU': 0}",
            hides_all=ran_in_sessions_alone(capture_file),
            certainty="possible" if devices.get("gpu_questions") else "likely",
            proviso=_NO_LINE,  # it may give its sessions a GPU if there is one
        )
    for reason, text in _LOG_LINES:
        line = next((line for line in capture_file.log if text in line), None)
        if line is not None:
            said = line.partition("] ")[2].strip()
            words = f"TensorFlow said: {said}" if said else f"CUDA's driver does not load: {line}"
            yield Obstacle(reason=reason, text=words, hides_all=False)


def of_the_program(capture_file: CaptureFile) -> tuple[Obstacle, ...]:
    """Return how the program itself hides every GPU, on any machine."""
    return tuple(o for o in obstacles(capture_file) if o.certainty is not None and o.hides_all)


def _hidden_by_config(capture_file: CaptureFile, devices: Mapping[str, Any]) -> Iterator[Obstacle]:
    choice = _choice(capture_file, "tf.config.set_visible_devices")
    has_hidden_one = _has_gpu(devices.get("physical")) and not _has_gpu(devices.get("visible"))
    frame = None if choice is None else capture_file.frame(choice.frame)
    # A list of GPUs that a program computes is always empty on a machine without one.
    hides = choice is not None and "GPU" not in choice.value and choice.manner != COMPUTED
    if choice is not None and (hides or has_hidden_one):
        certainty, proviso = _CERTAIN if has_hidden_one else _certainty(choice, devices)
        yield Obstacle(
            reason="hidden_by_config",
            text="tf.config.set_visible_devices() leaves no GPU visible",
            hides_all=True,
            frame=frame,
            certainty=certainty,
            proviso=proviso,
        )
    elif has_hidden_one:
        yield Obstacle(
            reason="hidden_by_config",
            text=(
                "tf.config.list_physical_devices() has a GPU, tf.config.get_visible_devices() has "
                "none: the program hid it"
            ),
            hides_all=True,
            certainty="certain",
        )


def _certainty(choice: VisibilityChoice, devices: Mapping[str, Any]) -> tuple[Certainty, str]:
    """Return the certainty of a choice on a machine with a GPU, and what it depends on."""
    if choice.manner == OUTRIGHT:
        return _CERTAIN
    proviso = _PROVISOS.get(choice.manner, _NO_LINE)
    is_asking = choice.manner == CONDITION and devices.get("gpu_questions")
    return "possible" if is_asking or choice.manner not in _LIKELY else "likely", proviso


def _hidden_by_variable(
    capture_file: CaptureFile, devices: Mapping[str, Any], environment: Mapping[str, Any]
) -> Iterator[Obstacle]:
    choice = _choice(capture_file, _VARIABLE)
    variable = _mapping(environment.get("variables")).get(_VARIABLE)
    if choice is not None:
        variable = choice.value
    if not isinstance(variable, str) or _NAMES_A_GPU.match(variable):
        return
    if choice is None:
        text = f"{_VARIABLE} was {variable!r}, which hides every GPU from CUDA"
        yield Obstacle(reason="hidden_by_env", text=text, hides_all=True)
        return
    certainty, proviso = _certainty(choice, devices)
    unless = ", unless it is already set" if choice.manner == UNLESS_SET else ""
    yield Obstacle(
        reason="hidden_by_script",
        text=f"the program sets {_VARIABLE} to {variable!r}{unless}, which hides every GPU",
        hides_all=True,
        frame=capture_file.frame(choice.frame),
        certainty=certainty,
        proviso=proviso,
    )


def _choice(capture_file: CaptureFile, how: str) -> VisibilityChoice | None:
    return next((choice for choice in capture_file.visibility if choice.how == how), None)


def _has_gpu(devices: Any) -> bool:  # noqa: ANN401 - a value of JSON
    return isinstance(devices, list) and any(_type(device) == "GPU" for device in devices)


def _type(device: Any) -> Any:  # noqa: ANN401 - a value of JSON
    return _mapping(device).get("type")


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a value of JSON
    return value if isinstance(value, dict) else {}


# --- Whether a line hides the GPUs on every machine ---------------------------------------------
#
# A line under an `if` may depend on the GPUs there are, and so may a computed value. Only a
# constant is sure, without a condition around it and without another line in its file that undoes
# it.


class _Line(NamedTuple):
    """A line that was running: its file's tree, and the statements around it, outermost first."""

    tree: ast.Module
    around: Sequence[ast.AST]


def manner_of(frames: Sequence[Frame], value: str) -> str:
    """Return how the innermost line hides every GPU: a manner of `VisibilityChoice`.

    Args:
        frames: The lines that were running, innermost first.
        value: What the line set, of an environment variable.
    """
    lines = [line for frame in frames if (line := _read(frame)) is not None]
    if not lines or len(lines) < len(frames):
        return NO_SOURCE
    tree, around = lines[0]
    inner = list(ast.walk(around[-1]))
    is_default = any(_is_default(node, tree, value) for node in inner)
    if not is_default and not any(_is_spelt(node, tree, value) for node in inner):
        return COMPUTED
    if any(map(_decides, lines)) or any(_may_leave_before(line) for line in lines):
        return CONDITION
    may_choose = _is_call if any(map(_is_call, inner)) else _may_set
    trees = {frame.file: line.tree for frame, line in zip(frames, lines, strict=True)}
    times = sum(may_choose(node) for each in trees.values() for node in ast.walk(each))
    if times > 1:  # one that did not run here may run there
        return CONDITION
    return UNLESS_SET if is_default else OUTRIGHT


def _read(frame: Frame) -> _Line | None:
    tree = syntax_of(frame.file)
    around = [] if tree is None else list(statements(tree, frame.line))
    return _Line(tree, around) if tree is not None and around else None


def _decides(line: _Line) -> bool:
    *outer, last = line.around
    return any(decides(node) for node in (*outer, *ast.walk(last)))


def _may_leave_before(line: _Line) -> bool:
    """Return whether what runs ahead of a line may end its function, or the program."""
    functions = [node for node in line.around if isinstance(node, FUNCTIONS)]
    first = getattr(line.around[-1], "lineno", 0)
    return any(
        getattr(node, "lineno", first) < first
        and (isinstance(node, ast.Return | ast.Raise) or _is_exit(node))
        for node in _within(functions[-1] if functions else line.tree)
    )


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes of a function or module, but not of the functions that it defines."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield child
            yield from _within(child)


def _is_exit(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _EXITS
    return False


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _CALL


def _may_set(node: ast.AST) -> bool:
    """Return whether an expression may set the variable, or unset it."""
    match node:
        case ast.Subscript(slice=ast.Constant(value="CUDA_VISIBLE_DEVICES"), ctx=context):
            return not isinstance(context, ast.Load)
        case ast.Call(func=ast.Attribute(attr="setdefault" | "pop" | "putenv" | "unsetenv")):
            return any(_is_constant(each, _VARIABLE) for each in node.args)
        case ast.Dict(keys=keys):
            return any(each is not None and _is_constant(each, _VARIABLE) for each in keys)
        case ast.keyword(arg=name):
            return name == _VARIABLE
    return False


def _is_default(node: ast.AST, tree: ast.Module, value: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[key, default]):
            return _is_constant(key, _VARIABLE) and _is_value(default, tree, value)
    return False


def _is_spelt(node: ast.AST, tree: ast.Module, value: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Subscript(slice=key)], value=given):
            return _is_constant(key, _VARIABLE) and _is_value(given, tree, value)
        case ast.Call(func=ast.Attribute(attr="update"), args=args, keywords=keywords):
            pairs: list[tuple[object, ast.expr]] = [(k.arg, k.value) for k in keywords]
            for each in args:
                if isinstance(each, ast.Dict):
                    names = [k.value if isinstance(k, ast.Constant) else None for k in each.keys]
                    pairs += zip(names, each.values, strict=True)
            return any(k == _VARIABLE and _is_value(v, tree, value) for k, v in pairs)
        case ast.Call(func=ast.Attribute(attr=attr), args=args, keywords=keywords):
            named = [keyword.value for keyword in keywords if keyword.arg == "devices"]
            return attr == _CALL and any(map(_has_no_gpu, [*args[:1], *named]))
    return False


def _is_constant(node: ast.AST, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_value(node: ast.AST, tree: ast.Module, value: str) -> bool:
    return is_text(node, tree, lambda text: text == value)


def _has_no_gpu(node: ast.AST) -> bool:
    match node:
        case ast.List(elts=[]) | ast.Tuple(elts=[]):
            return True
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value="CPU")]):
            return attr in _LISTS
    return False
