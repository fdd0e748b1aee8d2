"""The twin check: one program captured without a GPU and with an emulated one, compared op by op.

Without a GPU the report predicts what would stay on the CPU of a GPU machine. Under the emulated
GPU (`tests.emulator`) TensorFlow's own placer and eager runtime show what does. No labels are
needed, so any program will do:

    python -m tests.twin SCRIPT [ARGUMENTS]

`programs/` holds small programs of ours, one for each situation in which a prediction was wrong.
"""
