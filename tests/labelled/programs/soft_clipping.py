"""A guitar effect with an op of its own, compiled from C++ that is only for the CPU at first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import tensorflow as tf

FIXED = set(sys.argv[1:])
SOURCE = r"""
#include <cmath>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace effects {

REGISTER_OP("SoftClip")
    .Input("sound: float")
    .Output("clipped: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

class SoftClip : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    tensorflow::Tensor* clipped = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, context->input(0).shape(), &clipped));
    const auto from = context->input(0).flat<float>();
    auto to = clipped->flat<float>();
    for (int64_t at = 0; at < from.size(); ++at) to(at) = from(at) / (1 + std::abs(from(at)));
  }
};

REGISTER_KERNEL_BUILDER(Name("SoftClip").Device(tensorflow::DEVICE_CPU), SoftClip);
#ifdef FOR_GPUS
REGISTER_KERNEL_BUILDER(Name("SoftClip").Device(tensorflow::DEVICE_GPU), SoftClip);
#endif

}  // namespace effects
"""


def library(*options):
    """Compile the op, which is then kept in the user's cache folder."""
    flags = [*options, *tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    key = hashlib.sha256("\0".join([SOURCE, tf.__version__, *flags]).encode()).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    built = Path(home) / "traceanalyzer-tests" / f"soft-clip-{key}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        Path("op.cc").write_text(SOURCE, encoding="utf-8")
        command = ["g++", "-w", "-shared", "-fPIC", "-O1", "-DNDEBUG", "op.cc", *flags]
        new = built.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(new)], check=True)
        new.replace(built)
    return str(built)


tf.load_library(library(*(["-DFOR_GPUS"] if "custom_op" in FIXED else [])))
tf.random.set_seed(19)
cabinet = tf.random.normal([5, 1, 1], stddev=0.4)


@tf.function
def played(sound, gain):
    loud = sound * gain
    make = tf.compat.v1.get_default_graph().create_op
    clipped = make("SoftClip", [loud]).outputs[0]  # cpu: SoftClip = custom_op
    return tf.nn.conv1d(clipped[None, :, None], cabinet, 1, "SAME")[0, :, 0]


strings = tf.sin(tf.linspace(0.0, 60.0, 512))
for gain in (1.0, 8.0):
    heard = played(strings, tf.constant(gain))
    print(f"gain {gain:.0f}: level {float(tf.sqrt(tf.reduce_mean(tf.square(heard)))):.3f}")
