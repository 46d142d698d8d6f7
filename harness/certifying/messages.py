"""What a campaign says of the messages to stores outside: which it did not see, and which it does not try each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..contracts.query import Query
from ..core.addresses import Point, Side
from ..crash_points.outside.protocols import BYTES, HTTP
from ..crash_points.outside.relay import Seen
from .attempts import Passed
from .conclusion import Planned
from .plan import Victim
from .profile import batch_of

NO_MESSAGE: Final = (
    "no request to {store} came by way of the harness: reach it by folders.reach({store!r}), in every batch"
)
IN_PART: Final = (
    "A death in the middle of what is sent to {store} at once, without waiting for an answer: it is cut there as one "
    "(protocol bytes), while a store may do the first commands of a pipeline, as Redis does, of which the rest never "
    "came. Have them done as one (MULTI, or a script), or so that each can be done again."
)
_COMMITS: Final = ("COMMIT", "EndTxn")
"""In the names of requests with which what was asked before becomes durable."""
_OPENINGS: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn")
"""In the names of requests that leave nothing behind."""
_TRIED: Final = 2
"""Of requests of one kind in a batch, how many are tried from the first on. The last is, too."""


def unseen(query: Query, seen: Sequence[Mapping[str, Seen]]) -> Iterator[str]:
    """What is sent to stores outside that nobody saw, or saw as a whole, in words."""
    for store in query.stores:
        if not store.address:
            yield f"Messages to {store.name}: not seen, since it has no address."
            continue
        here = [one[store.name] for one in seen]
        why = next((one.unread for one in here if one.unread), "")
        if why:
            protocol = store.protocol or BYTES
            yield f"Messages to {store.name} one by one: not all were of the protocol {protocol} ({why})."
        if (why or (store.protocol or BYTES) == BYTES) and any(one.requests for one in here):
            yield IN_PART.format(store=store.name)
        gone = next((one.unreachable for one in here if one.unreachable), "")
        if gone:
            yield f"Connections to {store.name} that did not come about: {gone}."
        strangers = sum(one.by_strangers for one in here)
        if strangers:
            yield f"{strangers:,} requests to {store.name}, of which it is not known who sent them."


def unreached(query: Query, seen: Sequence[Mapping[str, Seen]]) -> list[str]:
    """The stores with an address to which nothing came."""
    return [store.name for store in query.relayed if not any(one[store.name].requests for one in seen)]


def without_repeats(passed: Sequence[Passed]) -> tuple[tuple[Passed, ...], list[str]]:
    """Of messages of one kind in a batch, the first ones and the last; and what is left out, in words."""
    last: dict[tuple[int, str], int] = {}
    for one in passed:
        if one.address.point is Point.MESSAGE:
            name, number = numbered_message(one)
            last[name] = max(last.get(name, 0), number)
    kept, left_out = [], set()
    for one in passed:
        name, number = numbered_message(one) if one.address.point is Point.MESSAGE else ((0, ""), 0)
        if name in last and _TRIED < number < last[name]:
            left_out.add(name)
        else:
            kept.append(one)
    most: dict[str, int] = {}
    for batch, kind in left_out:
        most[kind] = max(most.get(kind, 0), last[batch, kind])
    said = [
        f"Each time that a batch sends {kind}, which it does up to {times:,} times: the first {_TRIED} and the last "
        "are tried."
        for kind, times in sorted(most.items())
    ]
    return tuple(kept), said


def messages_first(plan: Sequence[Planned]) -> list[Planned]:
    """What lies between two messages, nothing else shows; after a commit most of all, then after what leaves something
    behind, and before one there is mostly what was after another."""

    def order(planned: Planned) -> int:
        crash = planned.crash
        if crash.point is not Point.MESSAGE:
            return 4
        if crash.side is Side.BEFORE:
            return 3
        if any(word in crash.name for word in _COMMITS):
            return 0
        return 2 if only_opens(crash.name) else 1

    return sorted(plan, key=order)


def only_opens(name: str) -> bool:
    """Whether a request leaves nothing behind for whoever reads: right after it, nothing has happened yet."""
    return any(word in name for word in _OPENINGS)


def foremost(plan: Sequence[Planned], query: Query) -> list[Planned]:
    """Of crashes at messages, in this order, the first of each victim: where a sink is wrong, one of them mostly shows
    it. By HTTP, a lost answer comes before deaths: many a client sends its request once more within the same process,
    so that it takes one life of a driver and not two."""
    found: dict[Victim, Planned] = {}
    for planned in plan:
        if planned.crash.point is Point.MESSAGE and not planned.split_brain:
            found.setdefault(planned.crash.victim, planned)
    by_http = {store.name for store in query.stores if store.protocol == HTTP}

    def is_sent_again(planned: Planned) -> bool:
        return planned.crash.victim is Victim.ANSWER and planned.crash.name.partition(" ")[0] in by_http

    return sorted(found.values(), key=lambda planned: not is_sent_again(planned))


def numbered_message(passed: Passed) -> tuple[tuple[int, str], int]:
    """Batch of a message and its kind, as in `kafka Produce`, and which one of its kind it is."""
    kind, _, number = passed.address.key.partition("/")[2].rpartition("#")
    return (batch_of(passed.address), kind), int(number)
