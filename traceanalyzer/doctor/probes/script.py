"""Runs a script until TensorFlow creates its devices, and reports how the script limits GPUs."""

import linecache
import re
import runpy

_MAY_HIDE = re.compile("CUDA_VISIBLE_DEVICES|set_visible_devices|device_count")


def _limit(kind, value):
    """Report a call that limits the GPUs, and the line of the script that made it."""
    frame = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<")
        or "/tensorflow/python/" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    place = None if frame is None else [frame.f_code.co_filename, frame.f_lineno]
    line = "" if place is None else linecache.getline(*place)[:300]
    report(limit={"kind": kind, "value": str(value)[:300], "place": place, "line": line})


def _before(owner, name, note):
    original = getattr(owner, name)

    def replaced(*args, **kwargs):
        note(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, replaced)


def _end(gpus):
    report(gpus=gpus)
    os._exit(0)  # the script has made its devices: nothing more is to be learned from it


def _chosen(context, devices, device_type=None):
    if device_type in (None, "GPU"):
        report(gpus_to_choose_from=len(context.list_physical_devices("GPU")))
        given = devices if isinstance(devices, (list, tuple)) else [devices]
        names = [str(getattr(device, "name", "")) for device in given]
        _limit("set_visible_devices", [name for name in names if ":GPU:" in name])


def _configured(_, target="", graph=None, config=None):
    if dict(getattr(config, "device_count", None) or {}).get("GPU") == 0:
        _limit("device_count", "{'GPU': 0}")
    options = getattr(config, "gpu_options", None)
    if options is not None and options.per_process_gpu_memory_fraction:
        _limit("per_process_gpu_memory_fraction", options.per_process_gpu_memory_fraction)


def _watch_tensorflow():
    from tensorflow.python.client import session
    from tensorflow.python.eager import context

    kind, made = context.Context, session.BaseSession
    _before(kind, "set_visible_devices", _chosen)
    for name in ("set_memory_growth", "set_logical_device_configuration"):
        _before(kind, name, lambda _, device, value, name=name: _limit(name, value))
    _before(made, "__init__", _configured)
    ensure, opened = kind.ensure_initialized, made.__init__

    def ensured(self):
        kind.ensure_initialized = ensure  # listing devices calls it again
        ensure(self)
        _end([device.name for device in self.list_logical_devices("GPU")])

    def created(self, *args, **kwargs):
        opened(self, *args, **kwargs)
        _end([device.name for device in self.list_devices() if device.device_type == "GPU"])

    kind.ensure_initialized, made.__init__ = ensured, created


def _note_variable(_, key, value):
    if key == "CUDA_VISIBLE_DEVICES":
        _limit(key, value)


sys.argv[:] = [GIVEN["script"], *GIVEN["arguments"]]
sys.path.insert(0, os.path.dirname(os.path.abspath(GIVEN["script"])))
LINES = (text_of(os.path.abspath(GIVEN["script"])) or "").splitlines()
report(may_hide=[number for number, line in enumerate(LINES, 1) if _MAY_HIDE.search(line)])
begin("importing TensorFlow")
try:
    import tensorflow

    _watch_tensorflow()
    _before(type(os.environ), "__setitem__", _note_variable)
    begin("running the script")
    runpy.run_path(GIVEN["script"], run_name="__main__")
except SystemExit as ended:
    report(ended="it ended with code {}".format(ended.code))
except BaseException as error:
    report(ended="it failed: {}: {}".format(type(error).__name__, error)[:500])
else:
    report(ended="it ended")
os._exit(0)
