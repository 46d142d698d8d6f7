"""When a cycle has come to rest, which none of its slices can see alone.

A topology is drained once every slice has come to the end of its input. Outside of cycles that is when all who feed it
have. In a cycle each would wait for the others, so there it is when nothing more comes from outside of the cycle, and
inside of it nobody does anything, and nothing is under way on a channel; what leads back counts like what leads
forward.

To find that out, laps go round. A slice that has come to the end of its input from outside, and has taken all that
came, sends lap 0 to those of the cycle that it feeds, and lap n + 1 once it has lap n of all those of the cycle that
feed it. A lap says how quiet it was: 0 where the sender took or made anything since its last lap, else one more than
the least that its own last lap and those that it has heard said. A slice that is as quiet as the cycle has slices has
come to its end.

Why that is right: channels are FIFO, so all that was sent before lap n has come in before the receiver sends lap
n + 1. Whoever is that quiet knows of one lap, the same for all, since every slice is fed by every other over fewer
channels than there are slices, in which nobody did anything: so there was nothing that could have been taken. From then
on all are quiet, so all find it out by the lap by which one does.

A run of laps is about certain incarnations. Whoever hears of a new one in the cycle, or has to wait for input from
outside again, begins with lap 0 of a new run, and tells that with it; nobody counts laps of another run. Of a slice one
incarnation at a time sends: there is no telling whose laps these are where replicas do.
"""

from __future__ import annotations

from collections.abc import Iterator

from .messages import Lap
from .spec import SliceSpec

LapCount = tuple[int, int]
"""Of one incarnation: events taken, and the number of its last output."""


class Laps:
    """What a slice of a cycle knows of the others."""

    def __init__(self, spec: SliceSpec) -> None:
        self.upstream = tuple([up for up in dict.fromkeys(spec.upstream) if up in spec.cycle])
        self.downstream = tuple([to for to in dict.fromkeys(spec.downstream) if to in spec.cycle])
        self.incarnations: dict[str, tuple[int, int]] = {}
        """Slice of the cycle -> its incarnation, and how often that was disturbed. Replaced where it changes: messages
        carry it."""
        self.made: list[int] = []
        """How quiet it was, lap by lap of this run."""
        self._slice_id = spec.slice_id
        self._enough = len(spec.cycle)
        self._heard: dict[str, list[int]] = {up: [] for up in self.upstream}
        """The same of those upstream."""
        self._done: LapCount = (0, 0)
        """When the last lap was sent."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return bool(self.made) and self.made[-1] >= self._enough

    def meet(self, slice_id: str, incarnation: int) -> bool:
        """An incarnation of the cycle is there. Returns whether a new run begins."""
        return self._know({slice_id: (incarnation, 0)})

    def disturbed(self) -> None:
        """Something may come from outside again."""
        if self.made:
            incarnation, times = self.incarnations[self._slice_id]
            self._know({self._slice_id: (incarnation, times + 1)})

    def heard(self, up: str, lap: Lap) -> bool:
        """A lap has come. Returns whether a new run begins."""
        anew = self._know(lap.incarnations)
        known = self._heard[up]
        if lap.incarnations == self.incarnations and lap.number == len(known):
            known.append(lap.quiet)
        return anew

    def _know(self, incarnations: dict[str, tuple[int, int]]) -> bool:
        newer = {one: its for one, its in incarnations.items() if its > self.incarnations.get(one, (0, 0))}
        if not newer:
            return False
        self.incarnations = self.incarnations | newer
        self.made = []
        self._heard = {up: [] for up in self.upstream}
        return True

    def next(self, done: LapCount) -> Iterator[tuple[int, int]]:
        """The laps that can be sent now: the number of each, and how quiet it was. Asked for when all that has come in
        was taken, and nothing more comes from outside."""
        if self.over and done != self._done:
            self.disturbed()
        while not self.over:
            number = len(self.made)
            if number and any(len(known) < number for known in self._heard.values()):
                return
            quiet = 0
            if number and done == self._done:
                quiet = 1 + min([self.made[-1], *(known[number - 1] for known in self._heard.values())])
            self._done = done
            self.made.append(quiet)
            yield number, quiet
