"""What to write instead of ops that have no GPU kernel.

A test runs each piece of code beside the op that it replaces, for each type that is named here:
TensorFlow has a GPU kernel for every op in it, and `is_same` holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Attributes

__all__ = ["OF_FUNCTIONS", "SUBSTITUTES", "Substitute", "substitute_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """Code that does an op's work with ops that have GPU kernels.

    Attributes:
        text: What to do, and what differs.
        code: The code to write.
        types: The types of data with which all ops in the code have GPU kernels in every version
            that there is a table of.
        attribute: The attribute of the op that is the type of its data; None where it has none.
        is_same: Whether the code gives the op's result, where the conditions in `text` hold.
    """

    text: str
    code: str
    types: tuple[str, ...] = ()
    attribute: str | None = "T"
    is_same: bool = False

    def fits(self, attributes: Attributes) -> bool:
        """Return whether a node's data has one of the types, as far as that is known."""
        dtype = None if self.attribute is None else attributes.get(self.attribute)
        return dtype is None or dtype in self.types

    def is_checked_for(self, attributes: Attributes) -> bool:
        """Return whether the code was run for a node's type, with the op's own result."""
        is_known = self.attribute is None or attributes.get(self.attribute) in self.types
        return self.is_same and is_known


def substitute_for(op: str, attributes: Attributes, function: str = "") -> Substitute | None:
    """Return what to write instead of an op; None where nothing is known for its types.

    Args:
        op: The op type.
        attributes: Attributes of the node, as far as they were recorded.
        function: The library's function that makes it; "" for the program's own code.
    """
    found = OF_FUNCTIONS.get((op, function)) or SUBSTITUTES.get(op)
    return found if found is not None and found.fits(attributes) else None


_FLOATS: Final = ("half", "float", "double")
_EIGEN: Final = ("float", "double", "complex64", "complex128")
_SHUFFLE: Final = Substitute(
    text=(
        "Shuffle in the input pipeline (`dataset.shuffle`), which costs the GPU nothing; or draw "
        "a random key for each row and sort by the keys on the GPU. The order differs from the "
        "one that the op draws."
    ),
    code="order = tf.argsort(tf.random.uniform(tf.shape(x)[:1]))\nx = tf.gather(x, order)",
    types=(*_FLOATS, "bfloat16", "int32", "int64", "bool"),
)
_RESIZE: Final = Substitute(
    text=(
        'Resize with `method="bilinear"` or `"nearest"`, without `antialias`: these have GPU '
        "kernels. The pixels differ a little, so train and serve with the same method."
    ),
    code='images = tf.image.resize(images, size, method="bilinear")',
    types=_FLOATS,
)
_SUPPRESSION: Final = Substitute(
    text=(
        "Without `soft_nms_sigma`, suppress with `tf.image.non_max_suppression` and gather the "
        "scores: its kernel for float32 runs on a GPU."
    ),
    code=(
        "kept = tf.image.non_max_suppression(\n"
        "    boxes, scores, max_output_size, iou_threshold, score_threshold)\n"
        "kept_scores = tf.gather(scores, kept)"
    ),
    types=("float",),
    is_same=True,
)
_FROM_EIGENVALUES: Final = "If the matrix is Hermitian, compute it from the eigenvalues of `eigh`"

# By the op that has no GPU kernel.
SUBSTITUTES: Final[dict[str, Substitute]] = {
    "AudioSpectrogram": Substitute(
        text=(
            "Use `tf.signal.stft`, whose ops have GPU kernels, with the window and stride of the "
            "op. Take the square for `magnitude_squared`."
        ),
        code=(
            "spectrogram = tf.abs(tf.signal.stft(\n"
            "    tf.transpose(samples), frame_length=window_size, frame_step=stride)) ** 2"
        ),
        attribute=None,
        is_same=True,
    ),
    "CTCGreedyDecoder": Substitute(
        text=(
            "Take the best class of each step on the GPU, which leaves a small tensor. Merge "
            "repeats and drop blanks afterwards, where the text is needed."
        ),
        code="best = tf.argmax(logits, axis=-1, output_type=tf.int32)",
        types=("float", "double"),
    ),
    "CTCLoss": Substitute(
        text=(
            "Give `tf.nn.ctc_loss` dense labels: it then uses ops that have GPU kernels. "
            "`blank_index=-1` keeps the last class as the blank, as in this op."
        ),
        code=(
            "ones = tf.ones_like(labels.values, tf.float32)\n"
            "label_length = tf.math.unsorted_segment_sum(\n"
            "    ones, labels.indices[:, 0], tf.shape(logits)[1])\n"
            "loss = tf.nn.ctc_loss(\n"
            "    tf.sparse.to_dense(labels), logits, tf.cast(label_length, tf.int32),\n"
            "    logit_length, logits_time_major=True, blank_index=-1)"
        ),
        types=("float",),
        is_same=True,
    ),
    "CombinedNonMaxSuppression": Substitute(
        text=(
            "Suppress class by class with `tf.image.non_max_suppression`, whose kernel for "
            "float32 runs on a GPU. It returns the indices for one image and class, unpadded."
        ),
        code="kept = tf.image.non_max_suppression(boxes, scores, max_output_size)",
        attribute=None,
    ),
    "Eig": Substitute(
        text=(
            "If the matrix is Hermitian, use `eigh`, which has a GPU kernel and sorts the "
            "eigenvalues. For other matrices TensorFlow has a CPU kernel only."
        ),
        code="values, vectors = tf.linalg.eigh(matrix)",
        types=_EIGEN,
    ),
    "ExtractGlimpse": Substitute(
        text=(
            "Cut with `tf.image.crop_and_resize`: it takes boxes as fractions of the image rather "
            "than centres, and fills a fixed value outside of it rather than noise."
        ),
        code="glimpses = tf.image.crop_and_resize(images, boxes, box_indices, size)",
        attribute=None,
    ),
    "InTopK": Substitute(
        text="Use `tf.math.in_top_k`, which makes the newer op `InTopKV2`: it has a GPU kernel.",
        code="hit = tf.math.in_top_k(targets, predictions, k)",
        types=("int32", "int64"),
        is_same=True,
    ),
    "MatrixLogarithm": Substitute(
        text=f"{_FROM_EIGENVALUES}. They must be positive.",
        code=(
            "values, vectors = tf.linalg.eigh(matrix)\n"
            "logs = tf.cast(tf.math.log(tf.math.real(values)), vectors.dtype)\n"
            "log = tf.matmul(vectors * logs[..., None, :], vectors, adjoint_b=True)"
        ),
        types=("complex64", "complex128"),
        is_same=True,
    ),
    "MatrixSolveLs": Substitute(
        text=(
            "Solve the normal equations on the GPU. The matrix must have full rank, no fewer rows "
            "than columns, and a condition number well below 1e3 in float32 or 1e7 in float64."
        ),
        code=(
            "factor = tf.linalg.cholesky(tf.matmul(matrix, matrix, adjoint_a=True))\n"
            "x = tf.linalg.cholesky_solve(factor, tf.matmul(matrix, rhs, adjoint_a=True))"
        ),
        types=("float", "double"),
        is_same=True,
    ),
    "MatrixSquareRoot": Substitute(
        text=f"{_FROM_EIGENVALUES}. They must not be negative.",
        code=(
            "values, vectors = tf.linalg.eigh(matrix)\n"
            "roots = tf.cast(tf.sqrt(tf.math.real(values)), vectors.dtype)\n"
            "root = tf.matmul(vectors * roots[..., None, :], vectors, adjoint_b=True)"
        ),
        types=_EIGEN,
        is_same=True,
    ),
    "NonMaxSuppression": Substitute(
        text="Use `tf.image.non_max_suppression`, whose kernel for float32 runs on a GPU.",
        code=("kept = tf.image.non_max_suppression(boxes, scores, max_output_size, iou_threshold)"),
        attribute=None,
        is_same=True,
    ),
    "NonMaxSuppressionV5": _SUPPRESSION,
    "NthElement": Substitute(
        text="Sort on the GPU and take the element: more work, but no copy to the host.",
        code="nth = tf.sort(x, axis=-1)[..., n]",
        types=_FLOATS,
        is_same=True,
    ),
    "RaggedTensorToTensor": Substitute(
        text=(
            "Pad in the input pipeline (`dataset.padded_batch`); or scatter the rows' values into "
            "zeros, for one ragged dimension whose greatest width is known."
        ),
        code=(
            "mask = tf.sequence_mask(ragged.row_lengths(), width)\n"
            "shape = tf.stack([ragged.nrows(), width])\n"
            "padded = tf.scatter_nd(tf.where(mask), ragged.flat_values, shape)"
        ),
        types=(*_FLOATS, "int64"),
        is_same=True,
    ),
    "RandomShuffle": _SHUFFLE,
    "ResizeArea": _RESIZE,
    "ResizeBicubic": _RESIZE,
    "ResizeBicubicGrad": _RESIZE,
    "ScaleAndTranslate": _RESIZE,
    "ScaleAndTranslateGrad": _RESIZE,
    "SparseDenseCwiseDiv": Substitute(
        text=(
            "Gather the dense values where the sparse tensor has some, and divide by these. The "
            "dense tensor must have the full shape; nothing is broadcast."
        ),
        code="sparse = sparse.with_values(sparse.values / tf.gather_nd(dense, sparse.indices))",
        types=_FLOATS,
        is_same=True,
    ),
    "SparseDenseCwiseMul": Substitute(
        text=(
            "Gather the dense values where the sparse tensor has some, and multiply with these. "
            "The dense tensor must have the full shape; nothing is broadcast."
        ),
        code="sparse = sparse.with_values(sparse.values * tf.gather_nd(dense, sparse.indices))",
        types=(*_FLOATS, "int64"),
        is_same=True,
    ),
    "SparseReduceMax": Substitute(
        text=(
            "Take the greatest value of each row with a segment maximum. It keeps one axis (here "
            "the first); rows without values get 0, as in this op."
        ),
        code=(
            "row = sparse.indices[:, 0]\n"
            "most = tf.math.unsorted_segment_max(sparse.values, row, num_segments=rows)\n"
            "number = tf.math.unsorted_segment_sum(\n"
            "    tf.ones_like(sparse.values), row, num_segments=rows)\n"
            "most = tf.where(number > 0, most, tf.zeros_like(most))"
        ),
        types=_FLOATS,
        is_same=True,
    ),
    "SparseReduceSum": Substitute(
        text="Sum the values of each row with a segment sum. It keeps one axis (here the first).",
        code=(
            "sums = tf.math.unsorted_segment_sum(\n"
            "    sparse.values, sparse.indices[:, 0], num_segments=rows)"
        ),
        types=_FLOATS,
        is_same=True,
    ),
    "SparseTensorDenseAdd": Substitute(
        text="Add the values to the dense tensor where they belong.",
        code="dense = tf.tensor_scatter_nd_add(dense, sparse.indices, sparse.values)",
        types=("float", "double", "int64"),
        is_same=True,
    ),
    "StatelessShuffle": _SHUFFLE,
    "UniqueV2": Substitute(
        text="For a tensor of one dimension use `tf.unique`, whose op has a GPU kernel.",
        code="values, positions = tf.unique(x)",
        types=(*_FLOATS, "int32", "int64"),
        is_same=True,
    ),
    "UniqueWithCountsV2": Substitute(
        text=(
            "For a tensor of one dimension use `tf.unique_with_counts`, whose op has a GPU kernel."
        ),
        code="values, positions, counts = tf.unique_with_counts(x)",
        types=(*_FLOATS, "int32", "int64"),
        is_same=True,
    ),
    "UnravelIndex": Substitute(
        text=(
            "For two dimensions, divide by the number of columns. Use int64: int32 arithmetic is "
            "computed in host memory."
        ),
        code="at = tf.stack([index // columns, index % columns])",
        attribute="Tidx",
        types=("int64",),
        is_same=True,
    ),
}
# By the op and the function of a library that makes it, where the code replaces a call of that.
OF_FUNCTIONS: Final[dict[tuple[str, str], Substitute]] = {
    ("CTCLoss", "ctc_batch_cost"): Substitute(
        text=(
            "Replace `ctc_batch_cost` by `tf.nn.ctc_loss` with dense labels, whose ops have GPU "
            "kernels. `blank_index=-1` keeps the last class as the blank."
        ),
        code=(
            "loss = tf.nn.ctc_loss(\n"
            "    tf.cast(y_true, tf.int32), tf.math.log(y_pred + 1e-7),\n"
            "    tf.cast(label_length[:, 0], tf.int32), tf.cast(input_length[:, 0], tf.int32),\n"
            "    logits_time_major=False, blank_index=-1)[:, tf.newaxis]"
        ),
        types=("float",),
        is_same=True,
    ),
}
