"""Spark in containers: the cluster `docker`."""
