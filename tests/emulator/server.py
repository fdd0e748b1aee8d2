"""Runs programs in forks of a process that has imported TensorFlow. Started by `oracle.py`.

It runs in the interpreter whose TensorFlow is asked, with nothing but that and Python's library.
Requests come on stdin and replies go to what was stdout, each pickled; the first reply tells which
TensorFlow it is. A fork leaves in the request's folder `value` (pickled), or `error`, `stdout` and
`stderr`, and what the emulator records.
"""

import contextlib
import ctypes
import importlib
import os
import pickle
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO


def main() -> None:
    """Serve until nobody asks any more."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # TensorFlow's own words are no replies
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _send(replies, _installation())
    while (request := _received(requests)) is not None:
        _send(replies, _forked(request, (requests, replies)))


def _installation() -> dict[str, Any]:
    """Import TensorFlow and tell about it."""
    import tensorflow as tf  # noqa: PLC0415 - takes seconds: the reason for this process

    with contextlib.suppress(ImportError):
        importlib.import_module("keras")  # likewise
    return {
        "version": tf.__version__,
        "compile_flags": tuple(tf.sysconfig.get_compile_flags()),
        "link_flags": tuple(tf.sysconfig.get_link_flags()),
    }


def _forked(request: dict[str, Any], ours: tuple[BinaryIO, ...]) -> dict[str, Any]:
    """Run a request in a fork; return how that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()  # what it starts ends with it
            for stream in ours:
                os.close(stream.fileno())
            code = _run(request)
        finally:
            # Neither Python's end nor TensorFlow's: both may wait for threads that are not here.
            os._exit(code)
    deadline = time.monotonic() + request["seconds"]
    late = False
    pid = status = 0
    try:
        while not pid:
            pid, status = os.waitpid(child, os.WNOHANG)
            if time.monotonic() > deadline and not pid and not late:
                late = True
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
    finally:  # interrupted, too
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    return {"exit_code": os.waitstatus_to_exitcode(status), "timed_out": late}


def _run(request: dict[str, Any]) -> int:
    """Run the program; return its exit code."""
    folder = Path(request["folder"])
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        opened = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
    for name, value in request["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    sys.path[:0] = request["path"]
    working = folder / "work"
    working.mkdir()
    os.chdir(working)
    _load(request)
    try:
        value = _called(request)
        (folder / "value").write_bytes(pickle.dumps(value))
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)  # noqa: T201 - as Python does
        return 1
    except BaseException:  # noqa: BLE001 - told to who asked
        words = traceback.format_exc()
        (folder / "error").write_text(words)
        sys.stderr.write(words)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _load(request: dict[str, Any]) -> None:
    """Load the emulator; without GPUs it only records."""
    runs = Path(request["folder"]) / "runs"
    runs.mkdir()
    os.environ["EMULATOR_RECORD"] = str(runs)
    library = ctypes.CDLL(request["library"])
    library.start_emulator(request["gpus"], ctypes.c_int64(request["memory"]), str(runs).encode())


def _called(request: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever a program returns
    function, arguments = pickle.loads(request["call"])  # noqa: S301 - from who started us
    if request["file"]:
        sys.argv = [request["file"], *arguments]
        sys.path.insert(0, str(Path(request["file"]).parent))
        runpy.run_path(request["file"], run_name="__main__")
        return None
    if request["name"]:
        module, _, name = request["name"].partition(":")
        return getattr(importlib.import_module(module), name)(*arguments)
    return function(*arguments)


def _send(stream: BinaryIO, message: dict[str, Any]) -> None:
    pickle.dump(message, stream)
    stream.flush()


def _received(stream: BinaryIO) -> dict[str, Any] | None:
    try:
        message: dict[str, Any] = pickle.load(stream)  # noqa: S301 - from who started us
    except EOFError:
        return None
    return message


if __name__ == "__main__":
    main()
