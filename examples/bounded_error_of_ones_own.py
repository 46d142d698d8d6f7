"""Bounded error for an operator of one's own: all that it takes is how far two of its states are apart.

To be run in this folder:

    streamproof run bounded_error_of_ones_own:bounded --cluster simulated   # HOLDS, and says how much was lost
    streamproof run bounded_error_of_ones_own:lying --cluster simulated     # VIOLATED, as the scenario expects
"""

from __future__ import annotations

from streamproof import Edge, Event, Operator, Scenario, Stage, Topology, crash, events, words
from streamproof.harness.core.guarantees import bounded_error
from streamproof.reference_impls.approximate import approximate


class Lengths(Operator[dict[str, int]]):
    """How many letters came under each last digit of a line's number."""

    fan_out = 1
    alpha = 3.0  # A word has three letters at most.

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> list[tuple[str, int]]:
        digit = event.key[-1]
        state[digit] = state.get(digit, 0) + len(event.value)
        return [(digit, state[digit])]

    def divergence(self, state: dict[str, int], backup: dict[str, int]) -> float:
        return sum(abs(state.get(key, 0) - backup.get(key, 0)) for key in state.keys() | backup.keys())


class Liar(Lengths):
    """It says that nothing was ever lost. Nothing is asked of it that is not looked into."""

    def divergence(self, state: dict[str, int], backup: dict[str, int]) -> float:
        return 0.0


def _scenario(operator: Lengths) -> Scenario:
    topology = Topology("lengths", {"sum": Stage(operator)}, (Edge("source", "sum"), Edge("sum", "sink")))
    return Scenario(
        approximate(topology, theta=120, l=10, gamma=40),
        words(events=600, batch=5),
        [crash("sum-0").after(events(number)) for number in (110, 130, 150)],
        claims=None if type(operator) is Lengths else [],
        breaks=[] if type(operator) is Lengths else [bounded_error(theta=120, l=10, gamma=40)],
    )


def bounded() -> Scenario:
    """Three crashes cost less than 120 letters."""
    return _scenario(Lengths())


def lying() -> Scenario:
    """An operator whose divergence is always 0 is never backed up, and found out."""
    return _scenario(Liar())
