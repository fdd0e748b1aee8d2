"""What each allocator had in use, when it was most, and what held it then."""
