"""The simulated cluster: a seeded discrete-event world with virtual time."""
