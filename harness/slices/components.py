"""The switches of a slice: what a scheme chooses from (StreamMine3G, sections 3.7 and 7.3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ..errors import InvalidScenario
from ..proper import positive, proper, switch
from ..quantities import Duration, Events
from .merging import ByTime, Merge, RoundRobin


class Numbering(StrEnum):
    """Where a new incarnation begins to number its outputs."""

    CONTINUED = "continued"
    """After the last number in its checkpoint (1 without one): what it makes again carries its old number."""
    FRESH = "fresh"
    """Above every number of the incarnations before it, so that no receiver takes new output for old."""
    INHERITED = "inherited"
    """That of the input: its number times the operator's fan-out, plus the place among its outputs. So the number says
    what an output was made of, and needs no counter that survives."""


class Part(StrEnum):
    """What a checkpoint holds (StreamMine3G, section 3.7.2, "Checkpoint Components")."""

    STATE = "state"
    VECTOR = "vector"
    """The sequence number last taken from each upstream slice, and whose turn it is at the merge."""
    LOG = "log"
    """The outputs that a receiver may still ask for."""
    NUMBER = "number"
    """The sequence number of the next output."""


class AcknowledgeAt(StrEnum):
    """When a slice tells upstream that it will not ask again for what a checkpoint covers."""

    DURABLE = "durable"
    TAKEN = "taken"
    """Before it is durable. Unsafe: the mutants `...-acknowledging-before-durable`."""
    NEVER = "never"


class Keeper(StrEnum):
    """Who keeps checkpoints."""

    STORE = "store"
    """A store that outlives every node."""
    FELLOWS = "fellows"
    """The memory of the other replicas: state synchronization (section 7.3.1). Durable is what all of them have."""


@dataclass(frozen=True)
class Checkpointing:
    """Periodic, uncoordinated checkpoints.

    One is taken whenever `every` events have been taken since the last. While it is not durable the slice goes on, but
    takes no further one: when the next is due it waits. So at most 2 x `every` events are ever unprotected. Without a
    fellow there is nothing to be checkpointed to, and the slice goes on alone.
    """

    every: Events
    contents: frozenset[Part] = frozenset(Part)
    acknowledge: AcknowledgeAt = AcknowledgeAt.DURABLE
    keeper: Keeper = Keeper.STORE

    def __post_init__(self) -> None:
        proper(self.every, Events, "the interval of checkpoints", "a number of events, as in events(500)")
        proper(self.contents, frozenset, "what a checkpoint holds", "a frozenset of Part")
        for part in self.contents:
            proper(part, Part, "a part of a checkpoint", "a Part")
        proper(self.acknowledge, AcknowledgeAt, "when a checkpoint is acknowledged", "an AcknowledgeAt")
        proper(self.keeper, Keeper, "who keeps checkpoints", "a Keeper")


class Standby(StrEnum):
    """What the secondary replicas of a slice do while the primary speaks for it (section 7.3.1)."""

    SILENT = "silent"
    """They take all input, and send nothing: active standby."""
    QUEUING = "queuing"
    """They are sent all input, and keep what is newer than the state that they hold: passive standby, hot."""
    HOLDING = "holding"
    """They hold the primary's last state and are sent nothing else: passive standby, cold."""
    LOADED = "loaded"
    """They are there and blank, and read the newest checkpoint when they are needed: deployed."""


@dataclass(frozen=True)
class Tracking:
    """How a source follows what becomes of its events (R+SM, sections 8.3 and 14.1.2: Storm's acker)."""

    timeout: Duration
    """An event that is not known to be processed this long after it was sent is sent again."""
    attempts: int = 16
    """An event is sent so many times at most; then it is given up, and the input does not end."""

    def __post_init__(self) -> None:
        proper(self.timeout, Duration, "a time-out", "an amount of time, as in seconds(30)")
        positive(self.attempts, "attempts")
        if not self.timeout.micros:
            raise InvalidScenario("a time-out cannot be nothing: every event would be sent again at once")


@dataclass(frozen=True)
class Components:
    """What is switched on in one slice. All off is amnesia."""

    output_log: bool = False
    """Keep what was emitted until it is acknowledged, and replay it on request (section 3.7.1)."""
    duplicate_filter: bool = False
    """Drop an event whose sequence number is not above the last one taken from its source."""
    checkpointing: Checkpointing | None = None
    numbering: Numbering = Numbering.FRESH
    acknowledge_every: Events | None = None
    """Acknowledge whenever this many more events of a channel were taken, or, by a sink, delivered."""
    acknowledge_outputs: bool = False
    """Acknowledge an input once all that was made of it has been acknowledged, and it has left the operator's window
    (the two levels of upstream backup, section 3.7.4)."""
    merge: Merge | None = None
    """The order in which several channels are taken; None: as they arrive."""
    silence: Duration | None = None
    """Tell the receivers of a channel that has been idle for this long how far event time has come (section 3.6.4)."""
    standby: Standby | None = None
    """What secondary replicas do; None: there are none, or all replicas speak."""
    anchored: bool = False
    """Tell the source what was made of its events, so that it can follow them."""
    tracking: Tracking | None = None
    """For a source: follow what becomes of its events."""

    def of(self, slice_id: str) -> Components:
        """Those of one slice, with what is set for it alone."""
        return replace(self, merge=self.merge.of(slice_id)) if isinstance(self.merge, RoundRobin) else self

    def __post_init__(self) -> None:
        for name in ("output_log", "duplicate_filter", "acknowledge_outputs", "anchored"):
            switch(getattr(self, name), name)
        proper(self.numbering, Numbering, "numbering", "a Numbering")
        proper(self.checkpointing, Checkpointing | None, "checkpointing", "Checkpointing(...), or None")
        proper(self.standby, Standby | None, "standby", "a Standby, or None")
        proper(self.tracking, Tracking | None, "tracking", "Tracking(...), or None")
        wanted = "a number of events, as in events(100)"
        proper(self.acknowledge_every, Events | None, "the interval of acknowledgements", wanted)
        proper(self.silence, Duration | None, "silence", "an amount of time, as in ms(2)")
        proper(self.merge, ByTime | RoundRobin | None, "a merge", "ByTime() or RoundRobin()")
