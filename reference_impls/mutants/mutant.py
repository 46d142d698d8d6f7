"""What a mutant is: a scheme with one rule broken, by one small change to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...harness.judging.verdicts import Anomaly
from ...harness.model import Role, Topology
from ...harness.quantities import Events
from ...harness.slices.components import AcknowledgeAt, Part
from ...harness.slices.machine import Slice
from ...harness.subject import Claim, SchemeSubject
from .twists import Twist, twisted
from .unfenced import Unfenced

Build = Callable[[Topology, Events], SchemeSubject]
"""(topology, checkpoint interval) -> a subject."""


@dataclass(frozen=True)
class Mutant:
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


def changed(build: Build, *roles: Role, **components: object) -> Build:
    """With some components of these roles replaced; no role: of operators."""

    def broken(topology: Topology, every: Events) -> SchemeSubject:
        subject = build(topology, every)
        parts = {role: replace(subject.components[role], **components) for role in roles or (Role.OPERATOR,)}  # type: ignore[arg-type]
        return replace(subject, components={**subject.components, **parts})

    return broken


def checkpointing(
    build: Build, *, without: Part | None = None, acknowledge: AcknowledgeAt | None = None, times: int = 1
) -> Build:
    """With checkpoints that lack a part, are acknowledged at another time, or come so many times less often."""

    def broken(topology: Topology, every: Events) -> SchemeSubject:
        subject = build(topology, every)
        policy = subject.components[Role.OPERATOR].checkpointing
        assert policy is not None
        policy = replace(
            policy,
            every=Events(policy.every.count * times),
            contents=policy.contents - {without},
            acknowledge=acknowledge or policy.acknowledge,
        )
        return changed(lambda *_: subject, checkpointing=policy)(topology, every)

    return broken


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
