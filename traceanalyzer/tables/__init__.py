"""Columns to dataframes: what the events of a trace mean in TensorFlow's vocabulary."""
