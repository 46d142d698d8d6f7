"""What a mutant is: a scheme with one rule broken, by one small change to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...harness.contracts.claims import Claim
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.machine import Slice
from ...harness.protocol.mechanism import Mechanism
from ...harness.protocol.spec import Numbering, Setup
from ..mechanisms.checkpointing import AcknowledgeAt, Checkpointing
from .twists import Twist, twisted
from .unfenced import Unfenced

Build = Callable[[Topology, Events], SchemeSubject]
"""(topology, checkpoint interval) -> a subject."""


@dataclass(frozen=True)
class BrokenScheme:
    """A scheme with one rule broken."""

    name: str
    breaks: str
    """The rule, as the scheme keeps it."""
    anomaly: Anomaly
    """What must be seen of it."""
    build: Build
    """The broken subject, under the name of the scheme that it claims to be."""
    on: str = "trace.passive-replication"
    """A scenario on whose topology and input it shows."""
    without_faults: bool = False
    """Whether it shows when nothing fails."""
    kinds: tuple[str, ...] = ("crash",)
    """The kinds of fault under which it shows."""
    spread: bool = False
    """Whether it shows only where all replicas are on nodes of their own, and messages take longer than the next
    event."""

    def make(self, topology: Topology, checkpoint_every: Events) -> SchemeSubject:
        """The broken scheme on a topology, under its own name."""
        return replace(self.build(topology, checkpoint_every), kind=self.name)


def changing(build: Build, change: Callable[[Setup], Setup], *roles: Role) -> Build:
    """With the setups of these roles changed; no role: of operators."""

    def broken(topology: Topology, every: Events) -> SchemeSubject:
        subject = build(topology, every)
        changed = {role: change(subject.setups[role]) for role in roles or (Role.OPERATOR,)}
        return replace(subject, setups={**subject.setups, **changed})

    return broken


def without(build: Build, kind: type[Mechanism], *roles: Role) -> Build:
    """Without a mechanism."""

    def fewer(setup: Setup) -> Setup:
        assert setup.find(kind) is not None, f"there is no {kind.__name__} to be left out"
        return replace(setup, mechanisms=tuple(one for one in setup.mechanisms if not isinstance(one, kind)))

    return changing(build, fewer, *roles)


def along_with(build: Build, mechanism: Mechanism, *roles: Role) -> Build:
    """With one more mechanism."""
    return changing(build, lambda setup: replace(setup, mechanisms=(*setup.mechanisms, mechanism)), *roles)


def numbering(build: Build, numbers: Numbering, *roles: Role) -> Build:
    """With outputs numbered in another way."""
    return changing(build, lambda setup: replace(setup, numbering=numbers), *roles)


def unmerged(build: Build) -> Build:
    """With channels taken as they come."""
    return changing(build, lambda setup: replace(setup, merge=None))


def checkpointing(
    build: Build, *, lacking: str | None = None, acknowledge: AcknowledgeAt | None = None, times: int = 1
) -> Build:
    """With checkpoints that lack a part, are acknowledged at another time, or come so many times less often."""

    def other(one: Mechanism) -> Mechanism:
        if not isinstance(one, Checkpointing):
            return one
        return replace(
            one,
            every=Events(one.every.count * times),
            without=one.without | ({lacking} if lacking else set()),
            acknowledge=acknowledge or one.acknowledge,
        )

    return changing(build, lambda setup: replace(setup, mechanisms=tuple(map(other, setup.mechanisms))))


def twisting(build: Build, twist: Twist, *roles: Role) -> Build:
    """With a twist to the machines of these roles; no role: of operators."""

    def broken(topology: Topology, every: Events) -> SchemeSubject:
        subject = build(topology, every)
        wraps: dict[Role, Callable[[Slice], Slice]] = {role: twisted(twist) for role in roles or (Role.OPERATOR,)}
        return replace(subject, wraps=wraps)

    return broken


def unfenced(build: Build) -> Build:
    """With a store that takes what a replaced incarnation writes."""
    return lambda topology, every: replace(build(topology, every), wrap_store=Unfenced)


def claiming(build: Build, *claims: Claim) -> Build:
    """With other claims."""
    return lambda topology, every: replace(build(topology, every), claims=claims)
