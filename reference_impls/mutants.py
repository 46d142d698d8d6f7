"""Schemes that are broken on purpose, each by one rule of its protocol: what a harness must catch.

They stand apart from the schemes and are data. A mutant claims what its scheme claims, or more, and does not keep it:
some schedule of crashes shows the anomaly that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..harness.judging.guarantees import precise_recovery
from ..harness.judging.verdicts import Anomaly
from ..harness.model import Role, Topology
from ..harness.quantities import Events
from ..harness.slices.components import AcknowledgeAt, Checkpointing, Components, Numbering, Part
from ..harness.subject import Claim, SchemeSubject
from .amnesia import amnesia
from .gap import gap
from .passive_replication import passive_replication

Change = Callable[[Components], Components]


@dataclass(frozen=True)
class Mutant:
    """A scheme with one rule broken."""

    name: str
    breaks: str
    """The rule, as the scheme keeps it."""
    anomaly: Anomaly
    """What must be seen of it."""
    build: Callable[[Topology, Events], SchemeSubject]
    """(topology, checkpoint interval) -> the broken subject, under the name of the scheme that it claims to be."""

    def make(self, topology: Topology, checkpoint_every: Events) -> SchemeSubject:
        """The broken scheme on a topology, under its own name."""
        return replace(self.build(topology, checkpoint_every), kind=self.name)


def _changed(subject: SchemeSubject, *roles: Role, **components: object) -> SchemeSubject:
    """`subject` with some components of these roles replaced; no role: of operators."""
    changed = {role: replace(subject.components[role], **components) for role in roles or (Role.OPERATOR,)}  # type: ignore[arg-type]
    return replace(subject, components={**subject.components, **changed})


def _checkpointing(
    subject: SchemeSubject, *, without: Part | None = None, acknowledge: AcknowledgeAt | None = None
) -> SchemeSubject:
    """`subject` with another kind of checkpoint."""
    policy = subject.components[Role.OPERATOR].checkpointing
    assert policy is not None
    contents = policy.contents - {without}
    return _changed(subject, checkpointing=Checkpointing(policy.every, contents, acknowledge or policy.acknowledge))


def _masked(topology: Topology, every: Events) -> SchemeSubject:
    return passive_replication(topology, checkpoint_every=every, sink_filter=True)


def _repeating(topology: Topology, every: Events) -> SchemeSubject:
    return passive_replication(topology, checkpoint_every=every)


def _gap(topology: Topology, every: Events) -> SchemeSubject:
    return gap(topology, checkpoint_every=every)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "passive-replication-without-inner-filter",
        "a receiver drops what it has taken already",
        Anomaly.DUPLICATE_EFFECT,
        lambda topology, every: _changed(_repeating(topology, every), duplicate_filter=False),
    ),
    Mutant(
        "passive-replication-acknowledging-before-durable",
        "upstream trims its log only by what a durable checkpoint covers",
        Anomaly.LOST_INPUT,
        lambda topology, every: _checkpointing(_repeating(topology, every), acknowledge=AcknowledgeAt.TAKEN),
    ),
    Mutant(
        "passive-replication-without-vector",
        "a checkpoint says what its state has taken from whom, so that no replay is taken twice",
        Anomaly.DUPLICATE_EFFECT,
        lambda topology, every: _checkpointing(_repeating(topology, every), without=Part.VECTOR),
    ),
    Mutant(
        "passive-replication-without-checkpointed-log",
        "a checkpoint holds the output log, so that neighbours may crash together",
        Anomaly.LOST_INPUT,
        lambda topology, every: _checkpointing(_repeating(topology, every), without=Part.LOG),
    ),
    Mutant(
        "passive-replication-without-checkpointed-state",
        "a checkpoint holds the state that its timestamp vector speaks of",
        Anomaly.PHANTOM_OUTPUT,
        lambda topology, every: _checkpointing(_repeating(topology, every), without=Part.STATE),
    ),
    Mutant(
        "passive-replication-without-output-log",
        "every slice keeps what it emits until it is acknowledged",
        Anomaly.LOST_INPUT,
        lambda topology, every: _changed(_repeating(topology, every), output_log=False),
    ),
    Mutant(
        "passive-replication-without-source-log",
        "the source replays what no durable checkpoint covers",
        Anomaly.LOST_INPUT,
        lambda topology, every: _changed(_repeating(topology, every), Role.SOURCE, output_log=False),
    ),
    Mutant(
        "passive-replication-numbering-afresh",
        "what is made again carries its old number, so that a filter knows it",
        Anomaly.DUPLICATE_EFFECT,
        lambda topology, every: _changed(_repeating(topology, every), numbering=Numbering.FRESH),
    ),
    Mutant(
        "passive-replication-precise-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        lambda topology, every: replace(_repeating(topology, every), claims=(Claim(precise_recovery()),)),
    ),
    Mutant(
        "masked-passive-replication-numbering-afresh",
        "what is made again carries its old number, so that the sink's filter knows it",
        Anomaly.DUPLICATE_OUTPUT,
        lambda topology, every: _changed(_masked(topology, every), numbering=Numbering.FRESH),
    ),
    Mutant(
        "gap-restoring-nothing",
        "a crash takes back no more than was taken since the last durable checkpoint",
        Anomaly.STATE_ROLLBACK,
        lambda topology, every: _changed(_gap(topology, every), checkpointing=None),
    ),
    Mutant(
        "gap-without-checkpointed-state",
        "a checkpoint holds the state",
        Anomaly.PHANTOM_OUTPUT,
        lambda topology, every: _checkpointing(_gap(topology, every), without=Part.STATE),
    ),
    Mutant(
        "gap-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        lambda topology, every: _changed(
            _changed(_gap(topology, every), numbering=Numbering.CONTINUED),
            Role.OPERATOR,
            Role.SINK,
            duplicate_filter=True,
        ),
    ),
    Mutant(
        "gap-replaying-without-vector",
        "nobody replays to a slice that does not know what its state holds",
        Anomaly.DUPLICATE_EFFECT,
        lambda topology, every: _changed(_gap(topology, every), Role.SOURCE, output_log=True),
    ),
    Mutant(
        "amnesia-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        lambda topology, every: _changed(
            _changed(amnesia(topology), numbering=Numbering.CONTINUED), Role.OPERATOR, Role.SINK, duplicate_filter=True
        ),
    ),
    Mutant(
        "amnesia-with-a-replaying-source",
        "nobody replays to a slice that does not know what others have of it",
        Anomaly.DUPLICATE_EFFECT,
        lambda topology, every: _changed(amnesia(topology), Role.SOURCE, output_log=True),
    ),
)
