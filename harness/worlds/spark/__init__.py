"""What the clusters of real Spark share, wherever their processes run."""
