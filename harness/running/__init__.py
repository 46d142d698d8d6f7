"""A run from its check to its verdicts, and once more from its folder."""
