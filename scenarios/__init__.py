"""The topologies, workloads and queries that come with streamproof, and the scenarios made of them (`library`)."""
