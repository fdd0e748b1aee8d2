"""Finds the files of a profile, and decodes all of TensorFlow's formats into columns."""
