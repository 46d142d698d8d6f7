"""Where subjects run."""
