"""Reports the GPUs that TensorFlow lists, without creating devices."""

import traceback

begin("importing TensorFlow")
sys.path[:0] = HERE
try:
    import tensorflow as tf
except BaseException as error:
    frames = traceback.extract_tb(error.__traceback__)
    report(import_error="{}: {}".format(type(error).__name__, error)[:1000], at=frames[-1].filename)
    raise SystemExit(0) from error
report(version=getattr(tf, "__version__", None))
begin("listing devices")
report(gpus=[device.name for device in tf.config.list_physical_devices("GPU")])
