"""What a run leaves behind: its records and timeline, how they are written, sealed and read again."""
