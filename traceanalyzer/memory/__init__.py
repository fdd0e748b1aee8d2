"""The memory that each allocator had in use, its peak, and what the peak consisted of."""
