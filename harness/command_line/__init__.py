"""The `streamproof` command: what it does, and what it prints."""
