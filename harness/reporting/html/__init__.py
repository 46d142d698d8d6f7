"""Pages to look at: HTML that opens from disk, asks nobody for anything, and is made of records alone."""
