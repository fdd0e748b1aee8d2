"""The program's own use of what the recorder needs: its profiler wins.

Whatever is replaced here is replaced such that no frame of ours is on the stack while TensorFlow
works: a traceback of the program shows the program and TensorFlow.
"""

from __future__ import annotations

import glob
import os
import sys
import time
from typing import Any, Callable

from ..process.hooks import Part, unseen


class ScriptSession:
    """A session of the profiler that the program itself began."""

    def __init__(self, logdir: str | None) -> None:
        self.logdir = logdir
        self.start_ns = time.time_ns()

    def trace(self) -> str | None:
        """Return the file that it has written, if it has."""
        if not self.logdir or "://" in self.logdir:
            return None
        pattern = os.path.join(glob.escape(self.logdir), "plugins", "profile", "*", "*.xplane.pb")
        # The clock of files is coarser than ours.
        since = self.start_ns - 10**8
        found = [(os.stat(p).st_mtime_ns, p) for p in glob.glob(pattern)]
        return max((f for f in found if f[0] >= since), default=(0, None))[1]


class ProgramWatch(Part):
    """Replaces functions that the program calls, and reports the calls."""

    def __init__(self) -> None:
        super().__init__()
        self._uses = Part()

    def uninstall(self) -> None:
        """Put everything back."""
        self._uses.uninstall()
        super().uninstall()

    def on_first_use(self, used: Callable[[], None]) -> None:
        """Call back, once, just before TensorFlow makes its devices; at once if it has.

        A profiler must not begin sooner: CUPTI initialises CUDA, which then no longer heeds the
        CUDA_VISIBLE_DEVICES that a program may set between import and first use.
        """
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.client import pywrap_tf_session
        from tensorflow.python.eager import context

        made = context._context
        if made is not None and made._context_handle is not None:
            used()
            return
        options = (
            (pywrap_tfe, "TFE_NewContextOptions"),
            (pywrap_tf_session, "TF_NewSessionOptions"),
        )
        for module, name in options:
            self._uses.replace(module, name, self._first(getattr(module, name), used))

    def on_script_session(
        self, begins: Callable[[ScriptSession], None], ends: Callable[[ScriptSession], None]
    ) -> None:
        """Call back before the program's own profiler begins, and when it is gone.

        All ways to it make an object of the class `ProfilerSession` just before they start it, and
        drop the object when they have stopped it: `tf.profiler.experimental.start`, its `Profile`,
        the callback `TensorBoard` of Keras, `tf.summary.trace_on`.
        """
        from tensorflow.python.profiler.internal import _pywrap_profiler

        native: Any = _pywrap_profiler.ProfilerSession

        class ProfilerSession:
            def __init__(self) -> None:
                # `start(logdir, ...)` is C++; its caller has the argument of that name.
                named = sys._getframe(1).f_locals.get("logdir")
                self._script = ScriptSession(_as_path(named))
                begins(self._script)
                session = native()
                self.start = session.start
                self.stop = session.stop
                self.export_to_tb = session.export_to_tb

            def __del__(self) -> None:
                script = self.__dict__.pop("_script", None)
                self.__dict__.clear()  # ends the session where it was not stopped
                if script is not None:
                    ends(script)

        self.replace(_pywrap_profiler, "ProfilerSession", ProfilerSession)

    def _first(self, original: Callable[..., Any], used: Callable[[], None]) -> Callable[..., Any]:
        def replacement(*args: Any, **keywords: Any) -> Any:
            self._uses.uninstall()
            used()
            with unseen:
                return original(*args, **keywords)

        return replacement


def _as_path(value: Any) -> str | None:
    try:
        path = os.fspath(value)
    except TypeError:
        return None
    return os.path.abspath(path) if isinstance(path, str) and path and "://" not in path else None
