"""Matches names that are spelled differently, by an op of its own that counts differing letters."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import tensorflow as tf

FIXED = set(sys.argv[1:])
NAMES = ["meier", "mayer", "maier", "smith", "smyth"]
SOURCE = r"""
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace matching {

REGISTER_OP("LettersApart")
    .Input("letters: int64")
    .Output("apart: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      const auto names = context->Dim(context->input(0), 0);
      context->set_output(0, context->Matrix(names, names));
      return absl::OkStatus();
    });

class LettersApart : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const auto letters = context->input(0).matrix<int64_t>();
    const int64_t names = letters.dimension(0);
    tensorflow::Tensor* apart = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {names, names}, &apart));
    auto to = apart->matrix<float>();
    to.setZero();
    for (int64_t one = 0; one < names; ++one)
      for (int64_t other = 0; other < names; ++other)
        for (int64_t at = 0; at < letters.dimension(1); ++at)
          to(one, other) += letters(one, at) != letters(other, at);
  }
};

REGISTER_KERNEL_BUILDER(Name("LettersApart").Device(tensorflow::DEVICE_CPU), LettersApart);

}  // namespace matching
"""


def library():
    """Compile the op, which is then kept in the user's cache folder."""
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    key = hashlib.sha256("\0".join([SOURCE, tf.__version__, *flags]).encode()).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    built = Path(home) / "traceanalyzer-tests" / f"letters-apart-{key}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        Path("op.cc").write_text(SOURCE, encoding="utf-8")
        command = ["g++", "-w", "-shared", "-fPIC", "-O1", "-DNDEBUG", "op.cc", *flags]
        new = built.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(new)], check=True)
        new.replace(built)
    return str(built)


tf.load_library(library())


@tf.function
def likeness(letters, sharpness):
    differ = tf.cast(letters[:, None, :] != letters[None, :, :], tf.float32)
    make = tf.compat.v1.get_default_graph().create_op
    is_ours = "custom_op" not in FIXED
    # cpu: LettersApart = custom_op
    apart = make("LettersApart", [letters]).outputs[0] if is_ours else tf.reduce_sum(differ, 2)
    return tf.nn.softmax(-sharpness * apart - 9.0 * tf.eye(len(NAMES)))


letters = tf.constant([[ord(letter) for letter in name] for name in NAMES], tf.int64)
for sharpness in (0.5, 2.0):
    nearest = tf.argmax(likeness(letters, tf.constant(sharpness)), axis=1)
print("nearest:", [NAMES[at] for at in nearest.numpy()])
