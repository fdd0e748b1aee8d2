"""Facts about the program: devices, options, errors, Keras models."""
