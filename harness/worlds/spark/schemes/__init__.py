"""A scheme on Spark: node agents in executors, the manager in the driver, links between slices."""
