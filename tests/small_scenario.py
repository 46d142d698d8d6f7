"""A module of a user's with the smallest scenario that a search can be tried on: it is over in milliseconds."""

SMALL_SCENARIO = """
from streamproof import *

class Count(Operator):
    def initial_state(self):
        return {}

    def process(self, event, state):
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, str(state[event.key]))]

def mine():
    edges = (Edge("source", "count"), Edge("count", "sink"))
    counting = Topology("count", {"count": Stage(Count())}, edges)
    subject = passive_replication(counting, checkpoint_every=events(2))
    return Scenario(subject, numbered(events=4), claims=[rollback_recovery()])
"""
"""Its name is `mine`."""
