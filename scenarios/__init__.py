"""The library of scenarios, and the workloads that they feed."""
