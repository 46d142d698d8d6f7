"""The user's Python code as a run sees it: which of it is theirs, every line of it, and what it does outside."""
