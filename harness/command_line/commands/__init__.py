"""One command a file: its options, what it checks, what it asks of the other rooms, and what it prints."""
