"""The slice runtime: one sans-I/O state machine for every scheme, in every world."""
