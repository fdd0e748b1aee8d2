"""Questions that users asked in public about single ops, each as a line or two of eager code.

A comment names the thread and what was asked, in our words. A line without a label has nothing on
the CPU: the answer is that TensorFlow has had a GPU kernel since.
"""

from __future__ import annotations

import tensorflow as tf

images = tf.random.stateless_uniform([4, 20, 20, 3], [1, 2])
square = tf.random.stateless_normal([16, 16], [3, 4])
symmetric = square + tf.transpose(square)
small = tf.constant([3, 1, 2])
words = tf.constant(["a", "b", "c"])

# tensorflow/tensorflow#6269: is there a GPU kernel for random_shuffle?
tf.random.shuffle(square)  # cpu: RandomShuffle = no_gpu_kernel!

# tensorflow/tensorflow#9101: which part of nce_loss cannot run on the GPU?
tf.random.log_uniform_candidate_sampler(  # cpu: LogUniformCandidateSampler = no_gpu_kernel!
    tf.constant([[1]], tf.int64), 1, 4, unique=True, range_max=100
)

# tensorflow/tensorflow#83877: does a bicubic resize run on the GPU?
tf.image.resize(images, [9, 9], "bicubic")  # cpu: ResizeBicubic = no_gpu_kernel!

# tensorflow/tensorflow#39246: why does a resize with antialias return a CPU tensor?
tf.image.resize(images, [9, 9], antialias=True)  # cpu: ScaleAndTranslate = no_gpu_kernel!

# tensorflow/tensorflow#533: why is the resize of uint8 images on the CPU, that of floats not?
tf.raw_ops.ResizeBilinear(  # cpu: ResizeBilinear = dtype_unsupported!
    images=tf.zeros([4, 20, 20, 3], tf.uint8), size=[9, 9]
)
tf.image.resize(images, [9, 9])

# tensorflow/tensorflow#92194: why does eig submitted to the GPU fall back to the CPU?
with tf.device("/GPU:0"):
    tf.linalg.eig(square)  # cpu: Eig = no_gpu_kernel!

# tensorflow/tensorflow#9518: is there a GPU kernel for self_adjoint_eig?
tf.linalg.eigh(symmetric)

# tensorflow/tensorflow#58334: why is sqrtm slow?
tf.linalg.sqrtm(tf.cast(symmetric, tf.complex64))  # cpu: MatrixSquareRoot = no_gpu_kernel!

# tensorflow/tensorflow#11677: which part of an orthogonal initialiser cannot be on the GPU?
tf.linalg.diag_part(symmetric)

# tensorflow/tensorflow#24404: why is SparseReduceSum on the CPU in my trace?
sparse = tf.sparse.from_dense(symmetric)
tf.sparse.reduce_sum(sparse, axis=1)  # cpu: SparseReduceSum = no_gpu_kernel!

# tensorflow/tensorflow#14441: can an element-wise product of sparse and dense run on the GPU?
tf.raw_ops.SparseDenseCwiseMul(  # cpu: SparseDenseCwiseMul = no_gpu_kernel!
    sp_indices=sparse.indices,
    sp_values=sparse.values,
    sp_shape=sparse.dense_shape,
    dense=square,
)

# tensorflow/tensorflow#16148: is non_max_suppression on the CPU?
tf.image.non_max_suppression(tf.random.stateless_uniform([8, 4], [5, 6]), square[0, :8], 3)

# tensorflow/tensorflow#5445: does gather of int32 run on the GPU?
tf.gather(small, tf.constant([0, 2]))

# tensorflow/tensorflow#13163: does tile of int64 run on the GPU?
tf.tile(tf.constant([1, 2], tf.int64), [3])

# tensorflow/tensorflow#33835: why are int32 tensors not on the GPU, when int64 ones are?
small + small
tf.cast(small, tf.int64) + 1

# tensorflow/tensorflow#20369: why has not_equal no GPU kernel for int32?
tf.not_equal(small, 1)

# tensorflow/tensorflow#2505: is mod of int32 supported on the GPU?
tf.math.floormod(small, 2)

# tensorflow/tensorflow#52543: why does range compute on the host?
tf.range(5) * 2

# tensorflow/tensorflow#72873: why can strings not be gathered on the GPU?
tf.gather(words, tf.constant([0, 2]))  # cpu: GatherV2 = dtype_unsupported!

# tensorflow/tensorflow#838: why is a slice of a large constant copied from the CPU each step?
tf.slice(square, [0, 0], [4, 4])

# tensorflow/tensorflow#4101: are cholesky, inverse and determinant on the CPU only?
tf.linalg.inv(square)
tf.linalg.det(square)
tf.linalg.cholesky(tf.eye(4))
