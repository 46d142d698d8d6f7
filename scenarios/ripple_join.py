"""An online join that estimates how many pairs there are, from samples of both streams (ripple join, Haas and
Hellerstein 1999; experiment 4 of AF-Stream).

Two stages: headers are read, and joined by destination and second. Which events are in the sample is decided by a hash
of their number and a salt: so it is the same at each execution, and another with another salt.

A pair is in both samples with the square of the rate, so the estimate is the number of pairs found divided by that.
(The paper divides by the rate itself, which fits where keys are sampled, and not events.)
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .equi_join import SIDES
from .skewed_streams import second_of

Sample = dict[str, dict[str, list[int]]]
"""Side -> key -> the numbers of the sampled events, in order."""


class Header(Operator[None]):
    """A packet header becomes [side, number], under its destination and second."""

    fan_out = 1
    alpha = 0.0

    def initial_state(self) -> None:
        return None

    def divergence(self, state: None, backup: None) -> float:
        return 0.0

    def process(self, event: Event, state: None) -> tuple[Output]:
        return ((f"{event.value[0]}@{second_of(event.value)}", [operator_of(event.source), int(event.key)]),)


def is_sampled(side: str, number: int, rate: float, salt: int) -> bool:
    digest = blake2b(f"{side} {number}".encode(), digest_size=8, salt=salt.to_bytes(16, "little")).digest()
    return int.from_bytes(digest, "little") < rate * 2**64


class RippleJoin(Operator[Sample]):
    """Keeps a sample of both sides, and tells each pair within it: [left, right]. An event makes `most` pairs at most:
    with more events under one key than that, some are not told.

    How far two states are apart is in how many events of the samples they differ.
    """

    alpha = 1.0

    def __init__(self, rate: float, most: int, salt: int) -> None:
        """Raises InvalidOperator for a rate that is no share."""
        positive(most, "most", InvalidOperator)
        if not isinstance(rate, int | float) or not 0 < rate <= 1:
            raise InvalidOperator(f"rate={rate!r} of a ripple join: it is a share of the events, above 0 and 1 at most")
        self.fan_out: int = most
        self._rate, self._salt = rate, salt

    def initial_state(self) -> Sample:
        return {side: {} for side in SIDES}

    def process(self, event: Event, state: Sample) -> list[Output]:
        side, number = event.value
        if not is_sampled(side, number, self._rate, self._salt):
            return []
        insort(state[side].setdefault(event.key, []), number)
        others = state[SIDES[1 - SIDES.index(side)]].get(event.key, [])
        pairs = ([number, other] if side == SIDES[0] else [other, number] for other in others[: self.fan_out])
        return [(event.key, pair) for pair in pairs]

    def divergence(self, state: Sample, backup: Sample) -> float:
        keys = _keys(state, backup)
        return float(sum(_differing(state[side].get(key, []), backup[side].get(key, [])) for side, key in keys))

    def divergence_after(self, event: Event, state: Sample, backup: Sample, before: float) -> float:
        side, number = event.value
        return before + is_sampled(side, number, self._rate, self._salt)

    def divergence_after_all(self, events: Sequence[Event], state: Sample, backup: Sample, before: float) -> float:
        rate, salt = self._rate, self._salt
        return before + sum([is_sampled(side, number, rate, salt) for side, number in [one.value for one in events]])

    def delta(self, state: Sample, backup: Sample) -> Value:
        changed = ((s, k) for s, k in _keys(state, backup) if state[s].get(k) != backup[s].get(k))
        return [[side, key, state[side].get(key, [])] for side, key in changed]

    def apply_delta(self, backup: Sample, changes: Value) -> Sample:
        for side, key, numbers in changes:
            backup[side].pop(key, None)
            if numbers:
                backup[side][key] = numbers
        return backup

    def rows(self, state: Sample) -> dict[str, Value]:
        """Side and key -> the numbers of what is sampled."""
        return {f"{side}/{key}": numbers for side in SIDES for key, numbers in state[side].items()}


def _keys(one: Sample, other: Sample) -> list[tuple[str, str]]:
    return [(side, key) for side in SIDES for key in sorted(one[side].keys() | other[side].keys())]


def _differing(one: list[int], other: list[int]) -> int:
    return 0 if one == other else (Counter(one) - Counter(other)).total() + (Counter(other) - Counter(one)).total()


def ripple_join(headers: int = 2, joins: int = 2, *, rate: float = 0.1, most: int = 100, salt: int = 0) -> Topology:
    """`headers` readers of headers, each fed by the sources `left` and `right`, and `joins` joins (the paper: 2 and 9):
    `header-0`, `header-1`, `join-0`, ... To be fed with `visits`."""
    return Topology(
        "ripple-join",
        {"header": Stage(Header(), headers), "join": Stage(RippleJoin(rate, most, salt), joins)},
        (
            *(Edge(side, "header", Partitioning.FULL) for side in SIDES),
            Edge("header", "join", Partitioning.FULL),
            Edge("join", "sink", Partitioning.MERGE),
        ),
        sources=SIDES,
    )
