"""What is counted of a channel, where what follows one another is looked at together, and where it is not."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from streamproof.harness.core.events import Event
from streamproof.harness.judging.channel_counts import ChannelCount, _Comings, altered_outputs
from streamproof.harness.judging.reruns import Deliveries, Delivery, Derivation
from streamproof.harness.recording.records import Delivered

_CHANNEL = "count-0>sink-0"
_COUNTED = ("lost", "repeated", "conflicting", "superseded", "phantoms", "reordered", "reordered_repeats")


class _Sender:
    """An incarnation, as far as a channel asks for it."""

    def __init__(self, number: int, replica: int, order: list[Derivation]) -> None:
        self.number, self.replica, self.order = number, replica, order

    def channel(self, to: str) -> tuple[list[Event], list[Derivation]]:
        return [_output(derivation) for derivation in self.order], self.order

    def lineage(self) -> list[Derivation]:
        return [derivation[:-1] for derivation in self.order]

    def roots(self) -> set[Derivation]:
        return set()


def _output(derivation: Derivation | None, value: object = 1) -> Event:
    number = 0 if derivation is None else derivation[1]
    return Event("count-0", number, f"k{number % 3}", value, number)


def _order(random: Random, due: list[Derivation]) -> list[Derivation]:
    order = list(due)
    match random.randrange(8):
        case 0:
            random.shuffle(order)
        case 1:
            order = order[random.randrange(len(due)) :]
        case 2:
            order = order[: 1 + random.randrange(len(due))]
        case 3:
            order.insert(random.randrange(len(due)), random.choice(order))
    return order


def _drawn(random: Random) -> tuple[Any, Deliveries, dict[Derivation, Event]]:
    """A history of a channel, as far as its count asks for it; what was delivered; and what should have been."""
    due: list[Derivation] = [("source-0", number, 0) for number in range(random.randint(1, 12))]
    senders = {
        number: _Sender(number, random.choice((0, 0, 1)), _order(random, due))
        for number in range(1, 1 + random.randint(1, 3))
    }
    deliveries = Deliveries(_CHANNEL)
    for _ in range(random.randint(1, 6)):
        number = random.choice([*senders, *senders, 4])
        order = senders[number].order if number in senders else due
        begin = 0 if random.random() < 0.3 else random.randrange(len(order))
        some: list[Derivation | None] = [*order[begin : begin + random.randint(0, 6)]]
        if random.random() < 0.1:
            random.shuffle(some)
        some = [None if random.random() < 0.02 else one for one in some]
        rows = [_output(one, 1 if random.random() < 0.97 else random.choice((2, True, 1.0, "x"))) for one in some]
        deliveries.append(Delivery(Delivered("sink-0", _CHANNEL, number, 0, rows), random.randrange(100), some))
    openings = [
        SimpleNamespace(record=SimpleNamespace(slice="count-0", incarnation=random.randint(1, 3), downstream="sink-0"))
        for _ in range(random.randrange(4))
    ]
    survivors = tuple(random.sample(list(senders.values()), random.randint(0, min(2, len(senders)))))
    rerun = SimpleNamespace(
        reruns={"count-0": senders}, openings=openings, epochs={}, survivors=lambda slice_id: survivors
    )
    return rerun, deliveries, {derivation: _output(derivation) for derivation in due}


def _counted(given: tuple[Any, Deliveries, dict[Derivation, Event]]) -> dict[str, str]:
    found = ChannelCount(given[0], _CHANNEL, *given[1:])
    # 1, 1.0 and True are told apart as texts.
    return {name: repr(list(getattr(found, name))) for name in _COUNTED}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_looked_at_together_is_counted_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    drawn = [_drawn(random) for _ in range(50)]
    together = [_counted(given) for given in drawn]
    assert all(any(found[name] != "[]" for found in together) for name in ("lost", "repeated", "reordered"))
    monkeypatch.setattr(_Comings, "come", _Comings._one_by_one)
    assert [_counted(given) for given in drawn] == together


def test_an_output_of_which_one_copy_is_right_is_not_altered() -> None:
    due = [("source-0", number, 0) for number in range(3)]
    wanted = {derivation: _output(derivation) for derivation in due}
    deliveries = Deliveries(_CHANNEL)
    for number, values in enumerate(((1, 2, 1), (1, 1, 1)), start=1):
        rows = [_output(one, value) for one, value in zip(due, values, strict=True)]
        deliveries.append(Delivery(Delivered("sink-0", _CHANNEL, number, 0, rows), number, due))
    assert not altered_outputs(deliveries, wanted)
    deliveries.append(Delivery(Delivered("sink-0", _CHANNEL, 3, 0, [_output(None, 5)]), 3, [None]))
    assert not altered_outputs(deliveries, wanted)
    once = Deliveries(_CHANNEL)
    once.append(Delivery(Delivered("sink-0", _CHANNEL, 1, 0, [_output(due[1], True)]), 1, [due[1]]))
    (output, should) = altered_outputs(once, wanted)[0]
    assert (output.event.value, should.value) == (True, 1)
