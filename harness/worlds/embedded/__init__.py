"""The embedded cluster: Spark processes on this machine."""
