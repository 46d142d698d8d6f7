"""Puts what is wrong with a history of slices into words: which input, which slice, when, after which fault."""

from __future__ import annotations

from ..core.events import Event
from ..core.verdicts import Evidence
from .channel_counts import says_the_same
from .contents import Lacking
from .expected import Expected
from .proven_faults import Faults
from .reexecution import Reexecution
from .reruns import DeliveredRow, Derivation, Rerun


class SliceStory:
    """Of one history."""

    def __init__(self, rerun: Reexecution, wanted: Expected, faults: Faults) -> None:
        self._rerun = rerun
        self._wanted = wanted
        self._faults = faults

    def _input(self, derivation: Derivation, event: Event | None) -> str:
        what = "" if event is None else f" ({event.key!r}, {event.value!r})"
        return f"{self._rerun.said(derivation)}{what}"

    def lost(self, survivor: Rerun | str, derivation: Derivation) -> Evidence:
        slice_id = survivor if isinstance(survivor, str) else survivor.slice_id
        event = self._wanted.taken[slice_id].get(derivation)
        takers = [r for r in self._rerun.reruns[slice_id].values() if derivation in r.took.at_hand]
        fault = self._faults.of((slice_id, *self._rerun.topology.upstream(slice_id)))
        fate = (
            "never taken"
            if not takers
            else f"taken by incarnation {', '.join(str(t.number) for t in takers)} and not restored"
        )
        at = tuple(time for taker in takers for time in self._rerun.took_at(taker, derivation))
        where = survivor if isinstance(survivor, str) else self._where(survivor)
        return Evidence(f"{self._input(derivation, event)}: {fate}", where, at, None if fault is None else fault.number)

    def _where(self, rerun: Rerun) -> str:
        """The slice, where it is clear which of its incarnations is meant."""
        survivors = self._rerun.survivors(rerun.slice_id)
        return rerun.slice_id if survivors == (rerun,) else f"{rerun.slice_id}#{rerun.number}"

    def lost_output(self, channel: str, derivation: Derivation) -> Evidence:
        event = self._wanted.delivered[channel].get(derivation)
        upstream = channel.partition(">")[0]
        fault = self._faults.of((upstream, *self._rerun.topology.upstream(upstream)))
        where = None if fault is None else fault.number
        return Evidence(f"{self._input(derivation, event)}: its output was never delivered", channel, (), where)

    def doubled(self, rerun: Rerun, derivation: Derivation, count: int) -> Evidence:
        slice_id = rerun.slice_id
        event = self._wanted.taken[slice_id].get(derivation)
        reruns = self._rerun.reruns[slice_id].values()
        at = tuple(time for other in reruns for time in self._rerun.took_at(other, derivation))
        fault = self._faults.before(at[-1]) if at else None
        return Evidence(f"{self._input(derivation, event)}: counts {count} times", self._where(rerun), at, fault)

    def repeated(self, channel: str, earlier: DeliveredRow, later: DeliveredRow) -> Evidence:
        said = f"({later.event.key!r}, {later.event.value!r})"
        if not says_the_same(earlier, later):
            said = f"({earlier.event.key!r}, {earlier.event.value!r}), then {said}"
        return Evidence(
            f"{later.event.source} #{later.event.seq:,} {said}",
            channel,
            (earlier.at, later.at),
            self._faults.before(later.at),
        )

    def phantom(self, channel: str, output: DeliveredRow) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}): nothing that it took gives this",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def lacking(self, one: Lacking) -> Evidence:
        event = self._wanted.taken[one.of].get(one.missing)
        after = "nobody took it again" if one.forgotten else "it was not there when that was made"
        fault = self._faults.of((one.of, *self._rerun.topology.upstream(one.of)))
        return Evidence(
            f"{self._input(one.missing, event)}: missing from the output of {self._rerun.said(one.output)}, to which "
            f"it belongs; {after}",
            one.channel,
            (),
            None if fault is None else fault.number,
        )

    def altered(self, channel: str, output: DeliveredRow, should: Event) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}); "
            f"without failures it is ({should.key!r}, {should.value!r})",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def made_otherwise(self, channel: str, derivation: Derivation) -> Evidence:
        should = self._wanted.delivered[channel][derivation]
        return Evidence(
            f"{self._rerun.said(derivation)}: what was taken in it gives other outputs; without failures one is "
            f"({should.key!r}, {should.value!r})",
            channel,
        )

    def superseded(self, channel: str, output: DeliveredRow) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}): in the order that survives it is not made",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def reordered(self, channel: str, output: DeliveredRow) -> Evidence:
        return Evidence(
            f"{output.event.source} #{output.event.seq:,} ({output.event.key!r}, {output.event.value!r}) "
            "came after a later one",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )
