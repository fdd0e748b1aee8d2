"""String operations that make features of log lines; the last record is broken and raises."""

import tensorflow as tf

LINES = [
    "2024-01-{day:02d} GET /Shop/{item}?ref=mail 200 {time}ms",
    "2024-01-{day:02d} POST /cart/{item} 302 {time}ms",
    "2024-01-{day:02d} GET /About 404 {time}ms",
]
BUCKETS = 16


def log(count):
    for number in range(count):
        template = LINES[number % len(LINES)]
        yield template.format(day=number % 28 + 1, item=number % 7, time=number * 37 % 500)


@tf.function
def features(lines):
    cleaned = tf.strings.regex_replace(lines, r"\?.*? ", " ")  # op: StaticRegexReplace
    lowered = tf.strings.lower(cleaned)  # op: StringLower
    parts = tf.strings.split(lowered, " ")  # op: StringSplitV2
    parts = parts.to_tensor(shape=(None, 5))
    verb = tf.cast(tf.strings.regex_full_match(parts[:, 1], "get"), tf.float32)
    path = tf.strings.to_hash_bucket_fast(parts[:, 2], BUCKETS)  # op: StringToHashBucketFast
    status = tf.strings.to_number(parts[:, 3])
    milliseconds = tf.strings.regex_replace(parts[:, 4], "ms$", "")  # op: StaticRegexReplace
    slow = tf.strings.to_number(milliseconds) / 500.0
    known = tf.one_hot(path, BUCKETS)
    return tf.concat([tf.stack([verb, status / 100.0, slow], 1), known], axis=1)


@tf.function
def top_paths(lines):
    words = tf.strings.split(lines, " ").to_tensor()  # op: StringSplitV2
    found, _, counts = tf.unique_with_counts(words[:, 2])  # op: UniqueWithCounts
    return found, counts


def check(records):
    for record in records:
        row = record.split(" ")
        if len(row) != 5:
            message = f"a record of {len(row)} parts: {record!r}"
            raise ValueError(message)
    return records


records = list(log(240))
dataset = tf.data.Dataset.from_tensor_slices(check(records)).batch(12)
total = tf.zeros(BUCKETS + 3)
for batch in dataset:
    total += tf.reduce_sum(features(batch), axis=0)
print(f"get requests: {int(total[0])}, mean status {float(total[1]) / 2.4:.0f}")
print("paths in use:", int(tf.math.count_nonzero(total[3:])))

found, counts = top_paths(tf.constant(records))
for path, count in sorted(zip(found.numpy(), counts.numpy(), strict=True))[:3]:
    print(path.decode(), int(count))

check(["2024-01-29 GET"])
