"""The switches of a slice: what a scheme chooses from (StreamMine3G, sections 3.7 and 7.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..quantities import Events


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
    """The sequence number last taken from each upstream slice."""
    LOG = "log"
    """The outputs that a receiver may still ask for."""
    NUMBER = "number"
    """The sequence number of the next output."""


class AcknowledgeAt(StrEnum):
    """When a slice tells upstream that it will not ask again for what a checkpoint covers."""

    DURABLE = "durable"
    TAKEN = "taken"
    """Before it is durable. Unsafe: the mutant `acknowledge-before-durable`."""
    NEVER = "never"


@dataclass(frozen=True)
class Checkpointing:
    """Periodic, uncoordinated checkpoints to a store that outlives the node.

    One is taken whenever `every` events have been taken since the last. While it is not durable the slice goes on, but
    takes no further one: when the next is due it waits. So at most 2 x `every` events are ever unprotected.
    """

    every: Events
    contents: frozenset[Part] = frozenset(Part)
    acknowledge: AcknowledgeAt = AcknowledgeAt.DURABLE


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
    """For a sink, which makes outputs visible: acknowledge whenever this many more were delivered."""
