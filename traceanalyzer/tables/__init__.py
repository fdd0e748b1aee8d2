"""Turns the events of a trace into dataframes, in TensorFlow's terms."""
