"""Finds out why TensorFlow sees no GPU: probes collect facts, and checks derive fixes from them."""
