"""How long a slice left its input alone once a fault had ended, as a pause or a cut link, or once it was started again.

Others work meanwhile, and that says nothing of it. Nor does it say anything that a slice does nothing for which there
is nothing to do. So it is asked of each channel when what the slice had not taken by then was there for it, and when it
was taken. Made is not sent: a sender may hold back what it has made until it is safe. So how long nearly all had taken
on the channel before the first fault struck is how long it may take at any time. The few that took longest are left
out: what was there while the subject was still starting says nothing of later. Where nothing had passed by then, nobody
knows what is usual; nor, in a topology with feedback, since when anything was there. A wait is told there, too, with
what is not known of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from ..core.slice_names import channel_name
from ..core.topology import Role
from ..protocol.merging import Order
from ..recording.history import FaultHealed, FaultStruck, NodeGone, NodeUp, Placed
from ..recording.records import Closed, Fired, Taken
from .reruns import BY_TIMER, Derivation

if TYPE_CHECKING:
    from .oracle import Case
    from .reexecution import Reexecution

WORTH_SAYING: Final = 10_000
"""From so many microseconds on, which is what two digits show, what is usual is told."""
_USUAL: Final = 0.95
"""The share of what a channel had passed without a fault that took no longer than is usual."""
_DISTURBING: Final = (FaultStruck, FaultHealed, NodeGone, NodeUp, Placed)


@dataclass(frozen=True)
class _Passage:
    """One event of a channel."""

    made: int
    taken: int


@dataclass(frozen=True)
class Waited:
    """How long what was there was left alone, in microseconds."""

    micros: int
    usual: int = 0
    """How long nearly all had taken on that channel before the first fault struck."""
    unknown: str = ""
    """Why nobody knows whether it was so long; empty where it was."""

    @property
    def beyond(self) -> int:
        return self.micros - self.usual


_NOTHING_PASSED: Final = "nothing had passed there before the first fault, so that nobody knows how long is usual"
_FEEDBACK: Final = "in a topology with feedback nobody knows since when it was there"


class ChannelPassages:
    """An analysis: when each event that passed a channel was made, and when it was first taken."""

    def __init__(self, case: Case) -> None:
        self._run = case.collation.reexecution
        timeline = case.history.timeline
        self._disturbed = sorted(e.stamp.at for e in timeline if isinstance(e, _DISTURBING))
        self._calm = min((e.stamp.at for e in timeline if isinstance(e, FaultStruck)), default=0)
        self._known: dict[tuple[str, str], list[_Passage]] = {}

    def waited(self, slice_id: str, senders: Collection[str], ended: int) -> Sequence[Waited]:
        """For how long a slice left what there was for it of these senders once a fault had ended, where that is
        furthest beyond what is usual, and where it is furthest of what is not known; none where nothing is known to
        have been there for it. What is disturbed or mended meanwhile, it may have had to wait for."""
        run = self._run
        if run is None or slice_id in run.doubtful:
            return ()
        topology = run.topology
        if topology.has_feedback:
            taken = _first_taken(run, slice_id, senders, ended)
            return () if taken is None else (self._since_ever(ended, taken),)
        ups = [up for up in topology.upstream(slice_id) if up not in run.doubtful]
        due = {up: self.first_after(up, slice_id, ended) for up in ups}
        # Where channels merge, what comes on one may have to wait for what comes on another.
        together = topology.role(slice_id) is Role.OPERATOR and len(ups) > 1 and run.order(slice_id) is not Order.FREE
        if together and None in due.values():
            return ()
        waits = []
        for up in senders:
            first = due.get(up)
            if first is None:
                continue
            there = max(one.made for one in due.values() if one is not None) if together else first.made
            since = max(ended, there, self._disturbed_by(first.taken))
            waits.append(self._waited(up, slice_id, first.taken - since))
        return _furthest_beyond(waits)

    def waited_anew(self, slice_id: str, before: Collection[int], ended: int, until: int) -> Sequence[Waited]:
        """For how long those incarnations of a slice that came after it was lost, which are not among these, had left
        alone all that was there for them at a time, told as above. What is disturbed or mended meanwhile, they may have
        had to wait for."""
        run = self._run
        if run is None or slice_id in run.doubtful:
            return ()
        topology = run.topology
        if topology.has_feedback:
            return (self._since_ever(ended, until),)
        ups = [up for up in topology.upstream(slice_id) if up not in run.doubtful]
        there = {up: _first_made(run, up, slice_id, before, ended) for up in ups}
        known = [at for at in there.values() if at is not None]
        if topology.role(slice_id) is Role.OPERATOR and len(ups) > 1 and run.order(slice_id) is not Order.FREE:
            if len(known) < len(ups):
                return ()
            there = dict.fromkeys(ups, max(known))
        disturbed = self._disturbed_by(until)
        return _furthest_beyond(
            self._waited(up, slice_id, until - max(ended, at, disturbed)) for up, at in there.items() if at is not None
        )

    def _since_ever(self, ended: int, until: int) -> Waited:
        return Waited(until - max(ended, self._disturbed_by(until)), unknown=_FEEDBACK)

    def _waited(self, up: str, to: str, micros: int) -> Waited:
        usual = self.usual(up, to)
        return Waited(micros, unknown=_NOTHING_PASSED) if usual is None else Waited(micros, usual)

    def usual(self, up: str, to: str) -> int | None:
        """How long nearly all took that passed a channel before the first fault struck, in microseconds; None where
        nothing did."""
        calm = sorted(one.taken - one.made for one in self._of(up, to) if one.taken <= self._calm)
        return calm[ceil(_USUAL * len(calm)) - 1] if calm else None

    def _disturbed_by(self, at: int) -> int:
        """When something was disturbed or mended last before a time."""
        return max((when for when in self._disturbed if when <= at), default=0)

    def something_since(self, at: int) -> int | None:
        """From when on anything was there for anybody that nobody had taken at a time; None where that is not known, or
        nothing was."""
        run = self._run
        if run is None or run.doubtful or run.topology.has_feedback:
            return None
        topology = run.topology
        firsts = (self.first_after(up, to, at) for to in topology.slices for up in topology.upstream(to))
        return min((one.made for one in firsts if one is not None), default=None)

    def first_after(self, up: str, to: str, at: int) -> _Passage | None:
        """The first event, as they were made, that was taken after a time, and by nobody before."""
        return min((one for one in self._of(up, to) if one.taken > at), key=lambda one: one.made, default=None)

    def _of(self, up: str, to: str) -> list[_Passage]:
        if (up, to) not in self._known:
            run = self._run
            assert run is not None
            made, taken = _made(run, up, to), _taken(run, up, to)
            self._known[up, to] = [_Passage(made[d], at) for d, at in taken.items() if d in made]
        return self._known[up, to]


def _furthest_beyond(waits: Iterable[Waited]) -> Sequence[Waited]:
    """Of those of which all is known, and of the others."""
    furthest: dict[bool, Waited] = {}
    for one in sorted(waits, key=lambda one: one.beyond):
        furthest[bool(one.unknown)] = one
    return tuple(furthest.values())


def _first_taken(run: Reexecution, slice_id: str, senders: Collection[str], ended: int) -> int | None:
    """When a slice, or the recorder, first took anything of these senders after a fault had ended."""
    if run.topology.role(slice_id) is Role.SINK:
        heard = (one.at for up in senders for one in run.deliveries.get(channel_name(up, slice_id), ()))
        return min((at for at in heard if at > ended), default=None)
    entries = zip(run.books[slice_id], run.times[slice_id], strict=True)
    took = (at for one, at in entries if at > ended and isinstance(one, Taken) and one.upstream in senders)
    return min(took, default=None)


def _made(run: Reexecution, up: str, to: str) -> Mapping[Derivation, int]:
    """When each output for a slice was first made."""
    if up in run.sources:
        return {(event.source, event.seq): at for event, at in zip(run.offered[up], run.offered_at[up], strict=True)}
    found: dict[Derivation, int] = {}
    for number in run.reruns.get(up, {}):
        for derivation, at in _made_by(run, up, to, number):
            found[derivation] = min(at, found.get(derivation, at))
    return found


def _made_by(run: Reexecution, up: str, to: str, number: int) -> Iterator[tuple[Derivation, int]]:
    """The same of one incarnation: what it made itself, of an input, at the end of an epoch or at a timer."""
    rerun = run.reruns[up][number]
    when: dict[Derivation, int] = {d: at for at, _, derivations in run.timed_intakes(rerun) for d in derivations}
    when.update(((up, record.epoch), at) for at, record in run.timed(rerun, Closed))
    fired = [at for at, _ in run.timed(rerun, Fired)]
    for stretch in rerun.stretches:
        place = list(stretch.emitted).index(to)
        upto = [lengths[place] for lengths in stretch.firings]
        for position, derivation in enumerate(stretch.emitted[to].derivations):
            of_timer = derivation[-1] - rerun.hop >= BY_TIMER
            at = fired[bisect_right(upto, position)] if of_timer else when.get(derivation[:-1])
            if at is not None:
                yield derivation, at
        del fired[: len(upto)]


def _first_made(run: Reexecution, up: str, to: str, before: Collection[int], ended: int) -> int | None:
    """When that was made which incarnations after those took first on a channel once these were lost: by whom they had
    it, which may have had to make it anew."""
    first = min(
        (
            (at, record.upstream_incarnation, derivations[0])
            for number, rerun in run.reruns.get(to, {}).items()
            if number not in before
            for at, record, derivations in run.timed_intakes(rerun)
            if record.upstream == up and at > ended and derivations
        ),
        key=lambda one: one[0],
        default=None,
    )
    if first is None:
        return None
    _, sender, derivation = first
    if up not in run.sources and sender in run.reruns.get(up, {}):
        made_anew = min((at for one, at in _made_by(run, up, to, sender) if one == derivation), default=None)
        if made_anew is not None:
            return made_anew
    # What it has not made itself it had when it was started.
    return _made(run, up, to).get(derivation)


def _taken(run: Reexecution, up: str, to: str) -> Mapping[Derivation, int]:
    """When each was first taken, or delivered."""
    found: dict[Derivation, int] = {}
    told: Iterator[tuple[int, Sequence[Derivation | None]]]
    if run.topology.role(to) is Role.SINK:
        told = ((one.at, one.derivations) for one in run.deliveries.get(channel_name(up, to), ()))
    else:
        intakes = (one for rerun in run.reruns.get(to, {}).values() for one in run.timed_intakes(rerun))
        told = ((at, derivations) for at, record, derivations in intakes if record.upstream == up)
    for at, derivations in told:
        for derivation in derivations:
            if derivation is not None:
                found[derivation] = min(at, found.get(derivation, at))
    return found
