"""Graphs: the lines of their nodes, and TensorFlow's dumps of what it placed."""
