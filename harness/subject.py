"""What is tested, and what a cluster makes of it.

A *subject* is a declaration: names, claims, what can be observed. A cluster *deploys* it, and the deployment has the one
life cycle of all subjects: prepare, start, drained, stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .addresses import Point
from .guarantees import Guarantee, implied
from .model import Event, Role, Topology
from .slices.components import Components
from .slices.machine import SliceSpec


@dataclass(frozen=True)
class Claim:
    """What a subject promises, and under which conditions (the table in the scheme's docstring says why)."""

    guarantee: Guarantee
    failures: str = "any number"
    """How many failures at once it holds for."""
    needs: str = ""


class Subject(Protocol):
    """What every subject says of itself."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """The scheme, or what else the subject is an instance of."""

    @property
    def claims(self) -> tuple[Claim, ...]: ...

    @property
    def actors(self) -> tuple[str, ...]:
        """What a fault can be aimed at by name."""

    @property
    def points(self) -> frozenset[Point]:
        """The kinds of crash point that its actors pass."""

    @property
    def observables(self) -> tuple[str, ...]:
        """What can be judged of it: outputs, state, progress."""


class Deployment(Protocol):
    """A subject on a cluster, for one run. Its owner releases it on every path."""

    def prepare(self) -> None:
        """Bring up what the subject needs, up to the point where input could be offered."""

    def start(self) -> None:
        """Offer the input."""

    def drained(self) -> bool:
        """Whether the end of the input has passed through and nothing more is due."""

    def stop(self) -> None:
        """Collect what was kept, then end."""


SLICE_POINTS = frozenset(Point) - {Point.SOURCE_COMMIT, Point.SINK_WRITE}


@dataclass(frozen=True)
class SchemeSubject:
    """A fault-tolerance scheme on a topology."""

    kind: str
    topology: Topology
    components: Mapping[Role, Components]
    claims: tuple[Claim, ...]

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def actors(self) -> tuple[str, ...]:
        return self.topology.operator_slices

    @property
    def points(self) -> frozenset[Point]:
        return SLICE_POINTS

    @property
    def observables(self) -> tuple[str, ...]:
        return ("outputs", "state")

    def specs(self) -> tuple[SliceSpec, ...]:
        """Its slices, upstream before downstream."""
        return tuple(
            SliceSpec(slice_id, self.topology, self.components[self.topology.role(slice_id)])
            for slice_id in self.topology.slices
        )


def claimed(subject: Subject, guarantee: Guarantee) -> bool:
    """Whether the subject claims `guarantee`, or something that implies it."""
    return any(guarantee.name in implied(claim.guarantee.name) for claim in subject.claims)


Input = Mapping[str, Sequence[list[Event]]]
"""Source slice -> its batches, in order."""
