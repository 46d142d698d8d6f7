"""One guarantee, one file: each oracle judges a history against the guarantee it defines."""
