"""How the nodes of a Spark cluster are started, watched, disturbed, and heard by the harness."""
