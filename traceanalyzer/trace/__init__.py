"""Finds the files of a profile and decodes every format TensorFlow wrote into columns."""
