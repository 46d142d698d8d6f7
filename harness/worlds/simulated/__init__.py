"""The simulated cluster: a seeded discrete-event world in which schemes run without Spark."""
