"""A module of a user's, with a scenario that loses input."""

LOSES = """
from streamproof import *


def loses():
    return Scenario(
        gap(word_count(parallelism=1), checkpoint_every=events(8)),
        text("zen", events=40, batch=5),
        [crash("count-0").after(events(20))],
        claims=[at_least_once()],
    )
"""
