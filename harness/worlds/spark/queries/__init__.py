"""A query on Spark: its source, its drivers, one for each life, and its rows."""
