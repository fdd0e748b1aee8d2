"""Why TensorFlow sees no GPU: probes find facts, and checks of the facts name what to change."""
