"""tf.data from files: TFRecords and text lines written to a temporary folder, read in parallel."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

FEATURES = {
    "pixels": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def example(pixels, label):
    feature = {
        "pixels": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels.tobytes()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))


def write_shards(folder, shards=3, each=64):
    rng = np.random.default_rng(17)
    for shard in range(shards):
        path = folder / f"digits-{shard}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(each):
                label = int(rng.integers(0, 10))
                pixels = rng.normal(label, 1, 36).astype("float32")
                writer.write(example(pixels, label).SerializeToString())
    names = "\n".join(f"{digit},digit {digit}" for digit in range(10))
    (folder / "names.csv").write_text(names, encoding="utf-8")


def parse(serialized):
    parsed = tf.io.parse_single_example(serialized, FEATURES)  # op: ParseExampleV2
    pixels = tf.io.decode_raw(parsed["pixels"], tf.float32)  # op: DecodeRaw
    pixels = tf.ensure_shape(pixels, (36,))
    return pixels, parsed["label"]


def parse_name(line):
    number, name = tf.io.decode_csv(line, [0, ""])  # op: DecodeCSV
    return number, name


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder)
        files = tf.data.Dataset.list_files(str(folder / "digits-*.tfrecord"), shuffle=False)
        records = files.interleave(tf.data.TFRecordDataset, cycle_length=3)
        dataset = records.map(parse, num_parallel_calls=2).cache().batch(8)

        totals = np.zeros(10)
        counts = np.zeros(10, int)
        for epoch in range(2):
            for pixels, labels in dataset:
                means = tf.reduce_mean(pixels, axis=1)  # op: Mean
                sums = tf.math.unsorted_segment_sum(means, labels, 10)  # op: UnsortedSegmentSum
                totals += sums.numpy()
                counts += tf.math.bincount(tf.cast(labels, tf.int32), minlength=10).numpy()
            print(f"epoch {epoch}: {counts.sum()} records")
        lines = tf.data.TextLineDataset(str(folder / "names.csv")).map(parse_name)
        for number, label in lines:
            average = totals[number] / counts[number]
            print(f"{label.numpy().decode()}: average {average:.1f}")


main()
