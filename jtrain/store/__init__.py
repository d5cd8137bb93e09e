"""The store: one folder per run, which is the truth, and an index that can be rebuilt."""
