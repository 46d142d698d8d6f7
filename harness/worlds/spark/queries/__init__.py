"""A query on Spark: its source, its drivers, one for each incarnation, and its rows."""
