"""Writes TensorBoard summaries (scalars, histograms, images, text) while k-means converges."""

import tempfile
from pathlib import Path

import tensorflow as tf

CLUSTERS = 4


def blobs():
    centres = tf.constant([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])
    noise = tf.random.stateless_normal((CLUSTERS, 60, 2), (16, 1))
    return tf.reshape(centres[:, None, :] + noise, (-1, 2))


@tf.function
def kmeans_step(points, centres):
    apart = tf.expand_dims(points, 1) - tf.expand_dims(centres, 0)
    distance = tf.norm(apart, axis=2)
    nearest = tf.argmin(distance, axis=1)  # op: ArgMin
    moved = tf.math.unsorted_segment_mean(points, nearest, CLUSTERS)  # op: UnsortedSegmentSum
    return moved, tf.reduce_min(distance, axis=1)


def picture(points):
    """A two-dimensional histogram of the points, as an image."""
    cells = tf.clip_by_value(tf.cast((points + 4.0) * 1.2, tf.int32), 0, 15)
    places = cells[:, 0] * 16 + cells[:, 1]
    counts = tf.math.bincount(places, minlength=256)
    image = tf.reshape(tf.cast(counts, tf.float32), (1, 16, 16, 1))
    return image / tf.reduce_max(image)


def run(folder):
    points = blobs()
    centres = tf.gather(points, [0, 61, 122, 183])  # op: GatherV2
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default():
        tf.summary.text("about", "k-means on four blobs", step=0)
        tf.summary.image("points", picture(points), step=0)  # op: EncodePng
        for step in range(25):
            centres, distance = kmeans_step(points, centres)
            loss = tf.reduce_mean(distance)
            tf.summary.scalar("distance", loss, step=step)
            if step % 5 == 0:
                tf.summary.histogram("distances", distance, step=step)
                print(f"step {step}: mean distance {float(loss):.2f}")
        writer.flush()
    writer.close()
    return centres


def count_records(folder):
    (path,) = Path(folder).glob("events.out.tfevents.*")
    return sum(1 for _ in tf.data.TFRecordDataset(str(path)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        final = run(logs)
        print("records:", count_records(logs))
    order = tf.argsort(tf.reduce_sum(final * [1.0, 2.0], axis=1))
    for centre in tf.gather(final, order).numpy():  # op: GatherV2
        print(f"({centre[0]:.1f}, {centre[1]:.1f})")
