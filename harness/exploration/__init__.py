"""Searches the simulator for schedules that break a claim, shrinks what is found, keeps it, and runs it again."""
