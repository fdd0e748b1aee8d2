"""Learns which songs are heard by whom; the table of all songs stays in the host's memory."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
WHERE = None if "resource_on_cpu" in FIXED else "/CPU:0"

start = tf.random.stateless_normal([500, 16], (9, 9)) * 0.1
with tf.device(WHERE):
    # cpu: VarHandleOp = explicit_cpu_placement(resource_on_cpu); AssignVariableOp = resource_on_cpu
    songs = tf.Variable(start, name="songs")
listeners = tf.Variable(tf.random.stateless_normal([40, 16], (9, 8)) * 0.1, name="listeners")


@tf.function
def step(who, what, heard):
    with tf.GradientTape() as tape:
        people = tf.gather(listeners, who)
        music = tf.gather(songs, what)  # cpu: ResourceGather = resource_on_cpu
        logits = tf.reduce_sum(people * music, axis=1)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(heard, logits)
        loss = tf.reduce_mean(losses)
    of_people, of_music = tape.gradient(loss, [listeners, songs])
    listeners.scatter_sub(tf.IndexedSlices(0.5 * of_people.values, of_people.indices))
    change = tf.IndexedSlices(0.5 * of_music.values, of_music.indices)
    songs.scatter_sub(change)  # cpu: ResourceScatterSub = resource_on_cpu
    return loss


who = tf.constant([k % 40 for k in range(128)], tf.int64)
what = tf.constant([7 * k % 500 for k in range(128)], tf.int64)
heard = tf.constant([float(k % 3 == 0) for k in range(128)])
for _ in range(4):
    loss = step(who, what, heard)
print(f"loss {float(loss):.4f}")
