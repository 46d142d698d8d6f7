"""What was delivered in a row is looked at in one go, and comes to what one delivery after the other comes to."""

from __future__ import annotations

from random import Random

import pytest

from streamproof.harness.core.events import Event
from streamproof.harness.judging.hearing import Hearing
from streamproof.harness.judging.packed import packed_events, packed_tuples
from streamproof.harness.judging.reruns import Derivation, Emissions, Rerun, Stretch
from streamproof.harness.recording.records import Delivered

SENT = 200


def _sender(number: int) -> Rerun:
    events = [Event("count-0", seq, f"key-{seq % 7}", seq, 0) for seq in range(1, SENT + 1)]
    made = Emissions(packed_events(events), packed_tuples([("source-0", event.seq, 0) for event in events]))
    return Rerun("count-0", number, 0, [Stretch(None, 0, 1, {"sink-0": made})], SENT + 1, None, 0)


def _delivered(random: Random) -> list[Delivered]:
    """Batches of two incarnations, mostly one after the other, with some that are repeated, left out or altered."""
    found: list[Delivered] = []
    place = dict.fromkeys((1, 2), 0)
    number = 1
    while place[number] < SENT:
        number = random.choice((number, number, number, number, 1, 2))
        begin = max(0, min(SENT - 1, place[number] + random.choice((0, 0, 0, 0, 0, 0, 0, -3, 2))))
        end = min(SENT, begin + random.randint(1, 5))
        rows = [Event("count-0", seq, f"key-{seq % 7}", seq, 0) for seq in range(begin + 1, end + 1)]
        if random.random() < 0.1:
            rows[-1] = Event("count-0", end, rows[-1].key, random.choice((float(end), -1)), 0)
        found.append(Delivered("sink-0", "count-0>sink-0", number, len(found), rows))
        place[number] = end
    return found


def _heard(delivered: list[Delivered], *, at_once: bool) -> list[tuple[int, Delivered, list[Derivation | None]]]:
    hearing = Hearing("count-0>sink-0", {number: _sender(number) for number in (1, 2)})
    for at, record in enumerate(delivered):
        hearing.hear(at, record)
        if not at_once:
            hearing.end()
    hearing.end()
    return [(one.at, one.record, list(one.derivations)) for one in hearing.deliveries]


@pytest.mark.parametrize("seed", range(20))
def test_deliveries_in_a_row_are_made_of_what_each_by_itself_is_made_of(seed: int) -> None:
    delivered = _delivered(Random(seed))
    heard = _heard(delivered, at_once=True)
    assert heard == _heard(delivered, at_once=False)
    assert [record for _, record, _ in heard] == delivered
    for _, record, derivations in heard:
        right = [("source-0", row.seq, 0) if type(row.value) is int and row.value > 0 else None for row in record.rows]
        assert derivations == right
