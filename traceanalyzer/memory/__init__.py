"""Computes the memory that each allocator had in use, its peak, and the blocks live at the peak."""
