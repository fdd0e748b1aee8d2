"""The twin check: one program captured without a GPU and with an emulated one, compared op by op.

Without a GPU, the report predicts which ops would stay on the CPU of a GPU machine. With the
emulated GPU (`tests.emulator`), TensorFlow's own placer and eager runtime show which ops do. This
needs no labels, so it works with any program:

    python -m tests.twin SCRIPT [ARGUMENTS]

`programs/` contains small programs, one for each situation in which a prediction was wrong.
"""
