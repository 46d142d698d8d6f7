"""The core: what a subject, a cluster, a fault, an oracle and a scenario are; runs, explores, certifies and reports."""
