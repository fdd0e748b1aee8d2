"""Bytes to columns: finds the files of a profile and decodes every format TensorFlow wrote."""
