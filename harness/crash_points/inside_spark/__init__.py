"""Crash points inside Spark: a Java agent holds Spark's threads at named places until the harness answers."""
