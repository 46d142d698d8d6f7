"""streamproof proves, or refutes, what a stream processor promises about failure."""
