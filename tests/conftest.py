"""What all tests share."""

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import settings

# A slow machine must not fail an example. `.ci/run` runs the properties again with `thorough`.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=30)
settings.load_profile("quick")

# A process inherits ignored signals (nohup, some CI systems) but no handlers: what a test starts
# gets the default dispositions, as from an interactive shell, and pytest still ignores the signals.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


# Workers inherit the folder of `tests.emulator.captures` from the first process, which removes it.
if "TRACEANALYZER_TEST_CAPTURES" not in os.environ:
    captures = os.environ["TRACEANALYZER_TEST_CAPTURES"] = tempfile.mkdtemp(prefix="captures-")
    atexit.register(shutil.rmtree, captures, ignore_errors=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A test of gzipped bytes is named after the argument.

    The bytes hold the second they were made in: processes that share the tests among them would
    each know such a test by a name of its own, and pytest-xdist refuses to run any.
    """
    gzipped = isinstance(val, bytes) and val.startswith(b"\x1f\x8b")
    return argname if gzipped else None
