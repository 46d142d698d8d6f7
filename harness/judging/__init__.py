"""From a history to its verdicts: guarantees, re-execution, collation, and what an oracle is."""
