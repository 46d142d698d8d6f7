"""The kinds of fault, the schedules, and the injectors that carry them out."""
