"""Changes a query under a checkpoint: one version runs, another goes on from every state that a crash can leave."""
