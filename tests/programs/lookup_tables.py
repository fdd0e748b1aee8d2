"""Lookup tables: words to numbers and back, and counts kept in a mutable table."""

import collections

import tensorflow as tf

FRUIT = ["apple", "pear", "plum", "cherry", "quince", "medlar"]
PRICES = [1.0, 1.5, 0.5, 3.0, 2.5, 4.0]


def static_table(keys, values, default):
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values))
    return tf.lookup.StaticHashTable(pairs, default)


class Shop:
    """Prices orders and remembers how often each fruit was asked for."""

    def __init__(self):
        self.prices = static_table(FRUIT, PRICES, default=-1.0)
        pairs = tf.lookup.KeyValueTensorInitializer(FRUIT, tf.range(6, dtype=tf.int64))
        self.ids = tf.lookup.StaticVocabularyTable(pairs, num_oov_buckets=2)
        self.counts = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

    @tf.function
    def price(self, order):
        prices = self.prices.lookup(order)  # op: LookupTableFindV2
        return tf.reduce_sum(tf.maximum(prices, 0.0))

    @tf.function
    def remember(self, order):
        numbers = self.ids.lookup(order)  # op: LookupTableFindV2
        ids, _, amounts = tf.unique_with_counts(numbers)  # op: UniqueWithCounts
        old = self.counts.lookup(ids)  # op: LookupTableFindV2
        self.counts.insert(ids, old + tf.cast(amounts, tf.int64))  # op: LookupTableInsertV2
        return tf.size(ids)


def orders(count):
    names = [*FRUIT, "banana"]
    for number in range(count):
        yield [names[(number * step) % 7] for step in range(1, number % 5 + 2)]


def main():
    shop = Shop()
    takings = 0.0
    expected = collections.Counter()
    for order in orders(50):
        wanted = tf.constant(order)
        takings += float(shop.price(wanted))
        shop.remember(wanted)
        expected.update(order)
    print(f"takings {takings:.1f}")

    ids, counts = shop.counts.export()
    print("kinds asked for:", int(tf.size(ids)))
    ranked = tf.argsort(counts, direction="DESCENDING", stable=True)
    print("highest count:", int(tf.gather(counts, ranked)[0]))
    print("counted the same:", int(tf.reduce_sum(counts)) == expected.total())
    strange = shop.ids.lookup(tf.constant(["durian", "plum"]))  # op: LookupTableFindV2
    print("unknown goes to a bucket of its own:", bool(strange[0] >= 6), int(strange[1]))


main()
