"""Upstream backup's two levels of acknowledgement, against their definition, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamproof.harness.core.events import Event
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.mechanism import AtWork
from streamproof.harness.protocol.operator import OperatorSlice
from streamproof.reference_impls.mechanisms.acknowledging import AcknowledgeOutputs

DOWNSTREAM = ("left-0", "right-0")
Told = list[tuple[str, int]]


@dataclass
class Standing:
    """As much of a slice as acknowledging asks for."""

    window: int | None
    told: Told = field(default_factory=list)
    last: Event | None = None

    def __post_init__(self) -> None:
        self.spec = SimpleNamespace(downstream=DOWNSTREAM)
        self.operator = SimpleNamespace(window=self.window)

    def acknowledge(self, up: str, upto: int) -> None:
        self.told.append((up, upto))


def at_work(standing: Standing) -> AtWork:
    return AcknowledgeOutputs().attach(cast(OperatorSlice, standing))


@dataclass
class Definition:
    """The same, with everything that is not acknowledged gone through each time."""

    window: int
    kept: list[tuple[str, Event, dict[str, int]]] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DOWNSTREAM, 0))

    def released(self, last: Event | None) -> Told:
        upto: dict[str, int] = {}
        now = 0 if last is None else last.time
        while self.kept:
            up, event, _ = self.kept[0]
            if (self.window and event.time + self.window > now) or self._wanted(event.time + self.window):
                break
            upto[up] = event.seq
            del self.kept[0]
        return list(upto.items())

    def _wanted(self, until: int) -> bool:
        for number, (_, event, last) in enumerate(self.kept):
            if number and event.time >= until:
                return False
            if any(seq > self.acknowledged[to] for to, seq in last.items()):
                return True
        return False


def take(
    work: AtWork, standing: Standing, event: Event, outputs: list[tuple[Event, tuple[int, ...]]], up: str = "up-0"
) -> None:
    standing.last = event
    work.made(up, event, None, outputs, [])
    work.took(up, InputChannel(0), [event], None)


_TAKEN = st.tuples(st.integers(0, 1), st.integers(0, 5), st.lists(st.sampled_from([(0,), (1,), (0, 1)]), max_size=1))
_ACKNOWLEDGED = st.tuples(st.sampled_from(DOWNSTREAM), st.integers(0, 12))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([None, 1, 2, 4]), st.booleans(), st.lists(st.one_of(_TAKEN, _ACKNOWLEDGED), min_size=4, max_size=30)
)
@example(None, False, [(0, 5, [(0,)]), (0, 3, [(1,)]), ("left-0", 1)])
@example(2, False, [(0, 1, [(0,)]), (0, 3, [(0,)]), (0, 2, [(1,)]), (0, 4, [(1,)]), ("left-0", 2)])
def test_inputs_are_acknowledged_when_the_definition_says_so(
    window: int | None, in_order: bool, steps: list[tuple[int, int, list[tuple[int, ...]]] | tuple[str, int]]
) -> None:
    """Of two channels, with outputs to either, both or nobody, with and without a window, and with event time that goes
    back where channels are taken as they come."""
    standing = Standing(window)
    work, definition = at_work(standing), Definition(window or 0)
    seqs, made, time = [0, 0], 0, 0
    for step in steps:
        if len(step) == 2:
            to, upto = step
            definition.acknowledged[to] = max(upto, definition.acknowledged[to])
            work.acknowledged(to, upto)
        else:
            channel, when, places = step
            time = time + when if in_order else when
            seqs[channel] += 1
            event = Event("source-0", seqs[channel], "key", None, time)
            outputs = [(Event("slice-0", made + n + 1, "key", None, time), to) for n, to in enumerate(places)]
            made += len(outputs)
            last = {DOWNSTREAM[place]: output.seq for output, to in outputs for place in to}
            definition.kept.append((f"up-{channel}", event, last))
            take(work, standing, event, outputs, f"up-{channel}")
        expected = definition.released(standing.last)
        assert standing.told == expected
        standing.told.clear()


class _Looked(dict[str, int]):
    """How often anybody asked up to where a receiver has acknowledged."""

    asked = 0

    def __getitem__(self, to: str) -> int:
        self.asked += 1
        return super().__getitem__(to)


def test_an_acknowledgement_does_not_go_through_all_that_is_kept() -> None:
    """What has been acknowledged and is kept, for an output that has not, is not looked at again each time."""
    amount = 400
    standing = Standing(window=10 * amount)
    work = at_work(standing)
    looked = vars(work)["_acknowledged"] = _Looked(vars(work)["_acknowledged"])
    for seq in range(1, amount + 1):
        event = Event("source-0", seq, "key", None, seq)
        take(work, standing, event, [(Event("slice-0", seq, "key", None, seq), (0,))])
    work.acknowledged("left-0", amount - 1)
    take(work, standing, Event("source-0", amount + 1, "key", None, 20 * amount), [])
    for _ in range(amount):
        work.acknowledged("right-0", 1)
    assert standing.told == []
    work.acknowledged("left-0", amount)
    assert standing.told == [("up-0", amount)]
    assert looked.asked < 10 * amount
