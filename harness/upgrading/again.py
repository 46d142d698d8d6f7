"""The input of an upgrade: what was asked for, and then all of it once more, so that each key is touched after the
change: what is wrong with a state that nobody touches does not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..contracts.query import SOURCE, Query
from ..core.events import Event
from ..core.workload import Workload
from ..judging.shapes import text_of


@dataclass(frozen=True)
class TouchedAgain:
    """An input whose every event comes again at its end, where it is another one than before."""

    workload: Workload
    events: int
    """How many it has, the closing ones aside."""
    again: int
    """How many of these are repeated ones."""

    def last_batch(self, query: Query) -> int:
        """The last one with an event that is no closing one."""
        return -(-self.events // query.batch_events) - 1

    def last_before(self, query: Query) -> int:
        """The last batch that has only events of the input as it was asked for; -1: there is none."""
        return (self.events - self.again) // query.batch_events - 1

    def ended_early(self, query: Query, batches: Sequence[Sequence[Event]]) -> list[list[Event]]:
        """The batches of an input that ends before any of it comes again, of those of all of it: the same ones up to
        the last in which a change is made."""
        events = [event for batch in batches for event in batch]
        return query.in_batches(events[: self.events - self.again])


def touched_again(workload: Workload) -> TouchedAgain:
    """Each pair of key and value once more, in the order in which they came first. Raises InvalidScenario for an input
    that cannot be drawn."""
    events = [event for batch in workload.batches(SOURCE) for event in batch]
    once = list({text_of([event.key, event.value]): event for event in events}.values())

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        yield from ((event.key, event.value) for event in events)
        yield from ((event.key, event.value) for event in once)

    count = len(events) + len(once)
    # A workload's number of events is that of a source whose events are not spaced.
    longer = replace(workload, events=max(1, count) * workload.spacing.get(SOURCE, 1), draw=draw)
    return TouchedAgain(longer, count, len(once))
