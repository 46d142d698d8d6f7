"""What a host vouches for: what a slice puts on record of what came to it has to have come.

A mechanism reaches all of its machine, and so can have it put anything on record. Claims rest on some records by
themselves: that a checkpoint became durable, that a replica was promoted, that a channel was opened, that a message was
refused. So the host, which no mechanism reaches, keeps what it has given to each incarnation, as far as these records
are about that, and refuses what it knows nothing of. What a slice takes and makes it need not vouch for: who judges
executes that again. But nobody says it in the name of another: what is delivered is said by the sink, and what is
offered by the source.

A coordinator reaches all of its machine as well, and says what it has decided and changed, and whom it has refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..core.errors import InvalidScheme
from ..core.events import Event
from ..core.topology import Role
from ..recording.records import (
    Adopted,
    BatchDone,
    Changed,
    CheckpointDurable,
    CheckpointTaken,
    Closed,
    Compensated,
    Decided,
    Delivered,
    EmptyBatch,
    Ended,
    Fired,
    InSync,
    Kept,
    Offered,
    Opened,
    PartialTaken,
    Promoted,
    Record,
    Refused,
    Restored,
    Started,
    Taken,
    Worked,
    whose,
)
from .coordinator import CoordinatorSpec
from .effects import Durable, Fire, Gone, Input, Inspect, Promote, Receive, Reroute, Start, Stopped
from .merging import merges
from .messages import OF_CHANNELS, Acknowledge, Batch, End, Flow, Open, Replay, ReplayStop
from .spec import SliceSpec

_BESIDE = frozenset({Flow.FELLOWS, Flow.ASIDE})
"""How those are told who keep checkpoints for one another in place of the store."""
_CHANNELS = frozenset(OF_CHANNELS)
_NOT_ITS_OWN: Final = "that is not for it to say"


@dataclass(slots=True)
class Vouching:
    """That for one incarnation of a slice: what it was given, as far as its records are about that."""

    spec: SliceSpec
    incarnation: int
    _starts: list[Start] = field(default_factory=list)
    """Those that it has not put on record."""
    _promotions: int = 0
    """The same of those."""
    _inspections: int = 0
    _opens: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """(Receiver, its incarnation, after which number) -> how often it asked for that, and this is not on record."""
    _ends: set[tuple[str, int]] = field(default_factory=set)
    _gone: set[tuple[str, int]] = field(default_factory=set)
    _refusable: dict[tuple[str, int], int] = field(default_factory=dict)
    """(Sender, its incarnation) -> how many messages may yet be refused: of one that is gone, or of a receiver, to whom
    a slice may listen later."""
    _taken: set[int] = field(default_factory=set)
    """The numbers of its checkpoints."""
    _came: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Upstream slice -> the incarnation that sent last, and the highest number that came."""
    _had_state: bool = False
    """Whether it was given something that can hold a state, and what had come in until then."""
    _again: bool = False
    """Whether anything may have come that had come before."""
    _acknowledged: bool = False
    """Whether those downstream may have said what they will not ask for again."""

    def hear(self, given: Input) -> None:
        """It is given this."""
        # By how often they come, and not by pattern, which is slower: this is done for every input.
        kind = type(given)
        if kind is Receive:
            self._receive(given.neighbour, given.message)  # type: ignore[union-attr]
        elif kind is not Fire and kind is not Durable:
            self._hear_else(given)

    def _hear_else(self, given: Input) -> None:
        match given:
            case Gone(neighbour=neighbour, incarnation=incarnation):
                self._gone.add((neighbour, incarnation))
            case Start(checkpoint=checkpoint, kept=kept):
                self._starts.append(given)
                if checkpoint is not None or kept:
                    self._may_have_had()
            case Promote(checkpoint=checkpoint):
                self._promotions += 1
                if checkpoint is not None:
                    self._may_have_had()
            case Inspect():
                self._inspections += 1

    def _may_have_had(self) -> None:
        self._had_state = self._again = self._acknowledged = True

    def _receive(self, neighbour: str, message: Any) -> None:
        kind = type(message)
        if kind is Batch or kind is Replay:
            if not self._again:
                self._follow(neighbour, message.incarnation, message.events)
        elif kind is Acknowledge or kind is ReplayStop:
            self._acknowledged = True
            self._may_refuse(neighbour, message.incarnation)
            return
        elif kind is End:
            self._ends.add((neighbour, message.incarnation))
        elif kind is Open:
            asked = neighbour, message.incarnation, message.after
            self._opens[asked] = self._opens.get(asked, 0) + 1
            self._may_refuse(neighbour, message.incarnation)
            return
        elif kind not in _CHANNELS:
            # What a mechanism says can hold anything.
            self._may_have_had()
            if kind.flow is Flow.ORDERS:
                self._may_refuse(neighbour, message.incarnation)
                return
        if self._gone and (neighbour, message.incarnation) in self._gone:
            self._may_refuse(neighbour, message.incarnation)

    def _follow(self, up: str, sender: int, events: Sequence[Event]) -> None:
        """See whether it may have come before: it has a number that is not above all others, or comes from another
        incarnation, which may tell the same."""
        known = self._came.get(up)
        if known is None:
            self._again = not self.spec.numbers_rise.get(up, False)
        elif known[0] != sender or events[0].seq <= known[1]:
            self._again = True
        self._came[up] = sender, events[-1].seq

    def _may_refuse(self, neighbour: str, incarnation: int) -> None:
        sender = neighbour, incarnation
        self._refusable[sender] = self._refusable.get(sender, 0) + 1

    # What is put on record

    def check(self, record: Record, given: Input) -> None:
        """Raises InvalidScheme for what did not come to it, or is not for a slice to say; `given` is what it is given
        now."""
        kind = type(record)
        if kind is Taken:
            # For nearly every input. Who judges executes that again.
            if record.slice == self.spec.slice_id and record.incarnation == self.incarnation:  # type: ignore[union-attr]
                return
            why = _NOT_ITS_OWN
        elif kind is Delivered:
            if delivers_itself(self.spec, record):  # type: ignore[arg-type]
                return
            why = _NOT_ITS_OWN
        elif kind is Offered:
            of_it = self.spec.role is Role.SOURCE and record.source == self.spec.slice_id  # type: ignore[union-attr]
            why = "" if of_it else _NOT_ITS_OWN
        else:
            of_it = whose(record) == self.spec.slice_id and getattr(record, "incarnation", None) == self.incarnation
            why = _CHECKS[kind](self, record, given) if of_it else _NOT_ITS_OWN
        if why:
            raise InvalidScheme(
                f"{self.spec.slice_id} puts {record!r} on record, and {why}: a mechanism puts on record by note() what "
                "it has done itself, and leaves the rest to the machine"
            )

    def _started(self, record: Started, given: Input) -> str:
        if not self._starts:
            return "was not started, or has said so"
        start = self._starts.pop()
        known = [] if start.checkpoint is None else [start.checkpoint.id]
        known += [items.id for items in start.kept]
        begins = record.restored is None or record.restored in [(one.incarnation, one.number) for one in known]
        if (record.replica, record.seed) != (start.replica, start.seed) or not begins:
            return "was started otherwise"
        return ""

    def _restored(self, record: Restored, given: Input) -> str:
        return "" if self._had_state else "nobody has given it a state"

    def _was_taken(self, record: CheckpointTaken, given: Input) -> str:
        self._taken.add(record.number)
        return ""

    def _is_durable(self, record: CheckpointDurable, given: Input) -> str:
        if record.number not in self._taken:
            return "has taken no such checkpoint"
        told = False
        if type(given) is Durable:
            told = given.id.number == record.number and given.id.incarnation == record.incarnation
        elif type(given) is Receive:
            told = type(given.message).flow in _BESIDE
        return "" if told else "was not told so"

    def _was_promoted(self, record: Promoted, given: Input) -> str:
        if not self._promotions:
            return "was not promoted, or has said so"
        self._promotions -= 1
        return ""

    def _opened(self, record: Opened, given: Input) -> str:
        asked = record.downstream, record.downstream_incarnation, record.after
        if not self._opens.get(asked):
            return "nobody has asked for that, or it is on record"
        self._opens[asked] -= 1
        return ""

    def _refused(self, record: Refused, given: Input) -> str:
        sender = record.peer, record.peer_incarnation
        if sender not in self._gone and record.peer not in self.spec.coordinators:
            return "its sender was not replaced"
        if not self._refusable.get(sender):
            return "no such message has come, or it is on record"
        self._refusable[sender] -= 1
        return ""

    def _ended(self, record: Ended, given: Input) -> str:
        heard = {(up, incarnation) for up, incarnations in record.inputs.items() for incarnation in incarnations}
        return "" if heard <= self._ends else "has not heard these ends"

    def _worked(self, record: Worked, given: Input) -> str:
        if record.dropped and not self._again:
            return "nothing has come that had come before"
        if record.waited and not merges(self.spec.setup.merge, self.spec.slice_id, len(self.spec.upstream)):
            return "merges nothing"
        if record.trimmed and not self._acknowledged:
            return "nobody has acknowledged anything"
        return ""

    def _was_kept(self, record: Kept, given: Input) -> str:
        if not self._inspections:
            return "was not asked, or has said so"
        self._inspections -= 1
        return ""

    def _done_itself(self, record: Record, given: Input) -> str:
        return ""

    def _never(self, record: Record, given: Input) -> str:
        return "that is not for a slice to say"


_CHECKS: dict[type, Callable[..., str]] = {
    Started: Vouching._started,
    Restored: Vouching._restored,
    CheckpointTaken: Vouching._was_taken,
    CheckpointDurable: Vouching._is_durable,
    Promoted: Vouching._was_promoted,
    Opened: Vouching._opened,
    Refused: Vouching._refused,
    Ended: Vouching._ended,
    Worked: Vouching._worked,
    Kept: Vouching._was_kept,
    **dict.fromkeys((Closed, Fired, PartialTaken, Compensated, Adopted), Vouching._done_itself),
    **dict.fromkeys((InSync, Changed, Decided, EmptyBatch, BatchDone), Vouching._never),
}
"""What each kind of record is held against, but for those that come with nearly every input."""


def delivers_itself(spec: SliceSpec, record: Delivered) -> bool:
    """Whether a slice is the sink that this is delivered to, on one of its channels."""
    return record.sink == spec.slice_id and record.channel in spec.delivers_on


@dataclass(slots=True)
class VouchingForCoordinator:
    """The same for one incarnation of a coordinator."""

    spec: CoordinatorSpec
    incarnation: int
    _there: set[tuple[str, int]] = field(default_factory=set)
    """Incarnations of its members that it has met."""
    _gone: set[tuple[str, int]] = field(default_factory=set)
    _has_kept: bool = False
    """Whether anything of it is durable, by its own word or that of a predecessor."""

    def hear(self, given: Input) -> None:
        """It is given this."""
        match given:
            case Receive(neighbour=member, message=message):
                self._there.add((member, message.incarnation))
            case Reroute(neighbour=member, incarnation=incarnation):
                self._there.add((member, incarnation))
            case Gone(neighbour=member, incarnation=incarnation):
                self._gone.add((member, incarnation))
            case Stopped():
                self._gone |= self._there
            case Durable():
                self._has_kept = True
            case Start(checkpoint=checkpoint):
                self._has_kept = checkpoint is not None

    def check(self, record: Record, given: Input) -> None:
        """Raises InvalidScheme for what is not for a coordinator to say, or has not come to it."""
        of_it = whose(record) == self.spec.slice_id and getattr(record, "incarnation", None) == self.incarnation
        why = self._why_not(record, given) if of_it else _NOT_ITS_OWN
        if why:
            raise InvalidScheme(
                f"{self.spec.slice_id} puts {record!r} on record, and {why}: a coordinator puts on record by note() "
                "what it has decided, and what it has changed for one of its members"
            )

    def _why_not(self, record: Record, given: Input) -> str:
        match record:
            case Decided():
                return ""
            case Changed(member=member):
                if member not in self.spec.members:
                    return "does not lead it"
                # Its successor has to say the same, and where a gap may begin rests on it.
                return "" if self._has_kept else "nothing of it is durable"
            case Refused(peer=peer, peer_incarnation=number):
                came = isinstance(given, Receive) and (given.neighbour, given.message.incarnation) == (peer, number)
                return "" if came and (peer, number) in self._gone else "no such message has come"
            case _:
                return "that is not for a coordinator to say"
