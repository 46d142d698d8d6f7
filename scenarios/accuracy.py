"""How accurate a finished run was, in the measure that AF-Stream has for each of its algorithms (section 4.2).

Each reads what was offered and what was delivered from the history, and computes the truth itself: what the operators
say of themselves is not asked. What a run repeats counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..harness.core.errors import InvalidScenario
from ..harness.core.events import Event
from ..harness.core.slice_names import operator_of
from ..harness.recording.history import History
from ..harness.recording.records import Delivered, Offered
from .equi_join import SIDES
from .grep import Match
from .logistic_regression import likely
from .skewed_streams import END, second_of


def offered_in(history: History) -> Iterator[Event]:
    """All of the input."""
    for offered in history.each(Offered):
        yield from offered.events


def delivered_in(history: History) -> Iterator[Event]:
    """All of the output, as it came."""
    for delivered in history.each(Delivered):
        yield from delivered.rows


def share_of_matches(history: History, pattern: str) -> float:
    """Of grep: the share of the lines that match which were delivered; 1 where none does."""
    match = Match(pattern)
    wanted = {event.key for event in offered_in(history) if match.matches(event.value)}
    found = {event.key for event in delivered_in(history)}
    return len(wanted & found) / len(wanted) if wanted else 1.0


def largest_count_error(history: History) -> int:
    """Of word count: by how much the last count of a word that was told is off, at most."""
    true = Counter(event.value for event in offered_in(history))
    told = {event.key: event.value for event in delivered_in(history)}
    return max((abs(true[word] - told.get(word, 0)) for word in true.keys() | told.keys()), default=0)


@dataclass(frozen=True)
class Hitters:
    """The flows of one window."""

    window: int
    bytes: Counter[str]
    """What each flow really had."""
    told: dict[str, int] | None
    """The flows that were told as heavy, with their estimates; None: nothing was told of the window."""

    def heavy(self, least: int) -> set[str]:
        """The flows that really had so many bytes, or more."""
        return {flow for flow, size in self.bytes.items() if size >= least}

    def missed(self, least: int) -> set[str]:
        """Those of them that were not told."""
        return self.heavy(least) - (self.told or {}).keys()


def hitters_in(history: History) -> list[Hitters]:
    """What was told of each window that ended, beside what was in it. Packets belong to the window whose end is the
    first that was offered after them."""
    true: list[Counter[str]] = [Counter()]
    for event in offered_in(history):
        flow, size = event.value
        if flow != END:
            true[-1][flow] += size
        elif size == len(true) - 1:
            true.append(Counter())
    told = {event.key: dict(map(tuple, event.value)) for event in delivered_in(history)}
    return [Hitters(n, flows, told.get(f"window-{n}")) for n, flows in enumerate(true[:-1])]


def precision_and_recall(history: History, heavy: int) -> tuple[float, float]:
    """Of heavy hitters: the share of those told that are heavy, and the share of the heavy that were told, over all
    windows; 1 where there is none."""
    told = right = wanted = 0
    for window in hitters_in(history):
        truly = window.heavy(heavy)
        known = (window.told or {}).keys()
        told, right, wanted = told + len(known), right + len(truly & known), wanted + len(truly)
    return right / told if told else 1.0, right / wanted if wanted else 1.0


@dataclass(frozen=True)
class JoinEstimate:
    """How often each key came on either side."""

    left: Counter[str]
    right: Counter[str]

    @property
    def pairs(self) -> int:
        return sum(count * self.right[key] for key, count in self.left.items())

    def variance(self, rate: float) -> float:
        """Of the estimate of `pairs` from samples of both sides, each event being in them with this chance: pairs that
        share no event are independent of one another."""
        total = 0.0
        for key, left in self.left.items():
            right = self.right[key]
            both = left * right
            total += both * (1 / rate**2 - 1) + both * (left + right - 2) * (1 / rate - 1)
        return total


def join_of(events: Iterable[Event]) -> JoinEstimate:
    """What two streams of headers have to be joined."""
    sides: dict[str, Counter[str]] = {side: Counter() for side in SIDES}
    for event in events:
        sides[operator_of(event.source)][f"{event.value[0]}@{second_of(event.value)}"] += 1
    return JoinEstimate(*(sides[side] for side in SIDES))


def estimated_pairs(history: History, rate: float) -> float:
    """How many pairs there are, by those that were found in the samples."""
    return len({(event.key, *event.value) for event in delivered_in(history)}) / rate**2


def join_error(history: History, rate: float) -> float:
    """Of the online join: how far the estimate is off, as a share of the truth. Raises InvalidScenario where there is
    no pair."""
    pairs = join_of(offered_in(history)).pairs
    if not pairs:
        raise InvalidScenario("the input of this join has no pair, so there is no error to speak of; offer more events")
    return abs(estimated_pairs(history, rate) - pairs) / pairs


def predicted_rightly(history: History, test: Iterable[Event]) -> float:
    """Of the regression: the share of these points whose label the last model that was told predicts. Raises
    InvalidScenario where none was told."""
    model = None
    for event in delivered_in(history):
        model = event.value
    if model is None:
        raise InvalidScenario("no model was told in this run; offer more points, or have models told more often")
    weights = list(map(float, model))
    right = [(likely(weights, list(map(float, x))) > 0.5) == bool(y) for x, y in (event.value for event in test)]
    return sum(right) / len(right)
