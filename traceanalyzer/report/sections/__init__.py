"""The sections and tabs of a report, a function each: facts in, blocks out."""
