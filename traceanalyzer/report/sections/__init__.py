"""The sections of the page: each a function from facts to blocks, or None."""
