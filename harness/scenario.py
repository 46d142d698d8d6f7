"""A scenario: what is fed to which subject, what goes wrong meanwhile, and what must hold all the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .addresses import Moment
from .errors import InvalidScenario, UnknownName
from .injection import FaultKind
from .judging.guarantees import Guarantee
from .judging.oracle import Oracle
from .quantities import Duration, seconds
from .schedule import Fault
from .subject import Subject
from .workload import Workload


@dataclass(frozen=True)
class Scenario:
    """`claims` must hold (left out: what the subject claims); `breaks` must be seen to be violated.

    `deadline` is how long the subject may take to drain, on a real cluster.
    """

    subject: Subject
    workload: Workload
    faults: Sequence[Fault] = ()
    claims: Sequence[Guarantee] | None = None
    breaks: Sequence[Guarantee] = ()
    deadline: Duration = seconds(120)

    def __post_init__(self) -> None:
        for name, kind in (("faults", Fault), ("claims", Guarantee), ("breaks", Guarantee)):
            given = getattr(self, name)
            listed = isinstance(given, list | tuple) and all(isinstance(one, kind) for one in given)
            if not listed and not (name == "claims" and given is None):
                raise InvalidScenario(f"{name}={given!r} must be a list of {name}")
        if not isinstance(self.deadline, Duration):
            raise InvalidScenario(f"deadline={self.deadline!r} needs its unit, as in seconds(60)")

    @property
    def claimed(self) -> tuple[Guarantee, ...]:
        if self.claims is not None:
            return tuple(self.claims)
        return tuple(claim.guarantee for claim in self.subject.claims)


def check(
    scenario: Scenario,
    nodes: Collection[str],
    kinds: Mapping[str, FaultKind],
    oracles: Mapping[str, Oracle],
) -> None:
    """Refuse what cannot be run or judged, before anything starts.

    `nodes` are the names of the cluster's nodes. Raises UnknownName for a slice, node, kind of fault or guarantee
    that does not exist, InvalidScenario for a trigger that cannot come and for a claim that lacks its bound.
    """
    subject = scenario.subject
    scenario.workload.check(subject.sources)
    names = [*subject.actors, *nodes]
    for fault in scenario.faults:
        if fault.kind not in kinds:
            raise UnknownName("kind of fault", fault.kind, sorted(kinds))
        for target in fault.targets:
            if target not in names:
                raise UnknownName("slice, driver or node", target, names)
        if fault.trigger is None:
            raise InvalidScenario(f"{fault.kind} {' and '.join(fault.targets)}: say when, with .at(...) or .after(...)")
        if isinstance(fault.trigger, Moment):
            _check_moment(scenario, fault, fault.trigger)
    for guarantee in (*scenario.claimed, *scenario.breaks):
        oracle = oracles.get(guarantee.name)
        if oracle is None:
            raise UnknownName("guarantee", guarantee.name, sorted(oracles))
        if oracle.bound is not None and not isinstance(guarantee.within, oracle.bound):
            raise InvalidScenario(f"the claim {guarantee.name} needs a {oracle.bound.__name__.lower()} as its bound")
    both = set(scenario.claimed) & set(scenario.breaks)
    if both:
        raise InvalidScenario(f"{', '.join(map(str, both))} is claimed, and expected to break")
    if not scenario.claimed and not scenario.breaks:
        raise InvalidScenario("the scenario claims nothing, so there is nothing to judge")


def _check_moment(scenario: Scenario, fault: Fault, moment: Moment) -> None:
    subject = scenario.subject
    if moment.actor is not None and moment.actor not in subject.actors:
        raise UnknownName("slice or driver", moment.actor, list(subject.actors))
    if moment.point not in subject.points:
        points = ", ".join(sorted(subject.points))
        raise InvalidScenario(
            f"{fault}: {subject.name} under {subject.kind} never passes {moment.point}; its points are: {points}"
        )
    needs_recovery = moment.recovering or (moment.incarnation or 1) > 1
    if needs_recovery and not any(other is not fault for other in scenario.faults):
        raise InvalidScenario(
            f"{fault}: {moment.actor} recovers only if an earlier fault hits it, and there is no other"
        )
